from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends.oneflow.errors import KINDS, OneFlowUnsupported
from harness.backends.oneflow.translate import supported, translate
from harness.backends.oneflow.translate.absent import ABSENT
from harness.backends.oneflow.translate.modules import ABSENT_LAYERS, layers
from harness.backends.oneflow.translate.plan import FlowDType, Invocation, Operand, map_expr, render, render_plan
from harness.backends.oneflow.translate.registry import adapters
from harness.backends.oneflow.translate.signature import bind, parse
from harness.errors import HarnessError
from harness.model.program import ModuleRecipe, Node
from harness.model.values import Device, DType, Layout, MemoryFormat

F = "torch.nn.functional."
X = Operand("x", "float32", (2, 3))
Y = Operand("y", "float32", (2, 3))
INDEX = Operand("i", "int64", (2, 3))
IMAGE = Operand("image", "float32", (1, 2, 6, 7))
KERNEL = Operand("kernel", "float32", (4, 2, 3, 5))
EVEN = Operand("even", "float32", (4, 2, 2, 2))


def source(target: str, *args: object, **kwargs: object) -> str:
    node = Node("n", "call_function" if "." in target else "call_method", target)
    return render_plan(translate(node, args, kwargs), "r")


def kind(target: str, *args: object, **kwargs: object) -> str:
    with pytest.raises(OneFlowUnsupported) as info:
        source(target, *args, **kwargs)
    assert str(info.value).startswith(f"{info.value.kind}: ")
    return info.value.kind


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("torch.add", X, 2), "r = oneflow.add(x, 2, alpha=1)"),
        (("operator.add", X, 2), "r = (x + 2)"),
        (("operator.sub", 1, X), "r = (1 - x)"),
        (("operator.mod", X, -3), "r = (x % (-3))"),
        (("view", X, 3, 2), "r = x.view((3, 2))"),
        (("view", X, (3, 2)), "r = x.view((3, 2))"),
        (("torch.roll", X, 1, 0), "r = oneflow.roll(x, 1, dims=0)"),
        (("torch.roll", X, [1], []), "r = oneflow.roll(x, [1])"),
        (("torch.roll", X, 1, ()), "r = oneflow.roll(x, 1)"),
        ((f"{F}leaky_relu", X), "r = oneflow.nn.functional.leaky_relu(x, 0.01, False)"),
        ((f"{F}threshold", X, 1, 2), "r = oneflow.nn.functional.threshold(x, threshold=1, value=2)"),
        (("aten.slice.Tensor", X, 1, 0, 2), "r = x[:, 0:2:1]"),
        (("aten.index.Tensor", X, [None, INDEX]), "r = x[:, i]"),
        (("operator.getitem", X, (Ellipsis, None, -1)), "r = x[..., None, -1]"),
        (("operator.getitem", X, 0), "r = x[0]"),
        (("aten.embedding.default", X, INDEX), "r = oneflow.nn.functional.embedding(i, x)"),
        (("where", X, INDEX, Y), "r = oneflow.where(i, x, y)"),
        (("to", X, DType("float64")), "r = x.to(oneflow.float64)"),
        (("torch.zeros", 2, 3), "r = oneflow.zeros((2, 3))"),
        (("torch.cat", [X, Y], 1), "r = oneflow.cat([x, y], 1)"),
        (("operator.iadd", X, 2), "x += 2\nr = x"),
        (("operator.setitem", X, (0, slice(1, None)), 2), "x[0, 1:] = 2\nr = None"),
        (("__rsub__", X, 2), "r = x.__rsub__(2)"),
        (("aten.reflection_pad2d.default", IMAGE, [1, 1, 1, 1]), "r = oneflow.nn.functional.pad(image, [1, 1, 1, 1], 'reflect')"),
        (("aten.constant_pad_nd.default", X, [1, 1]), "r = oneflow.nn.functional.pad(x, [1, 1], 'constant', 0)"),
        (("aten.mse_loss.default", X, Y, 2), "r = oneflow.nn.functional.mse_loss(x, y, 'sum')"),
        (("aten.smooth_l1_loss.default", X, Y, 0, 0.5), "r = oneflow.nn.functional.smooth_l1_loss(x, y, 0.5, 'none')"),
        (("aten.elu.default", X, 2.0), "r = oneflow.nn.functional.elu(x, 2.0)"),
        (("aten.upsample_nearest2d.vec", IMAGE, [8, 8], None), "r = oneflow.nn.functional.interpolate(image, size=(8, 8), mode='nearest')"),
        ((f"{F}adaptive_avg_pool2d", IMAGE, (None, 2)), "r = oneflow.nn.functional.adaptive_avg_pool2d(image, (6, 2))"),
        ((f"{F}adaptive_max_pool2d", IMAGE, None), "r = oneflow.nn.functional.adaptive_max_pool2d(image, (6, 7), return_indices=False)"),
        ((f"{F}hardtanh", X), "r = oneflow.nn.functional.hardtanh(x, -1.0, 1.0)"),
        ((f"{F}smooth_l1_loss", X, Y), "r = oneflow.nn.functional.smooth_l1_loss(x, y, 1.0, 'mean')"),
        ((f"{F}conv2d", IMAGE, KERNEL, None, 1, "valid"), "r = oneflow.nn.functional.conv2d(image, kernel, None, 1, (0, 0), 1, 1)"),
        ((f"{F}conv2d", IMAGE, KERNEL, None, 1, "same", 2), "r = oneflow.nn.functional.conv2d(image, kernel, None, 1, (2, 4), 2, 1)"),
        (("torch.lstm_cell", X, [X, Y], X, Y), "r = oneflow._C.lstm_cell(x, [x, y], x, y, None, None)"),
    ],
)
def test_a_call_is_said_in_oneflows_own_way(call: tuple[object, ...], expected: str) -> None:
    assert source(str(call[0]), *call[1:]) == expected


@pytest.mark.parametrize(
    ("call", "kwargs", "expected"),
    [
        (("torch.div", X, 2), {"rounding_mode": "floor"}, "r = oneflow.floor_divide(x, 2)"),
        (("torch.div", X, Y), {"rounding_mode": "trunc"}, "r = oneflow.trunc(oneflow.div(x, y))"),
        (("torch.sum", X), {"dtype": DType("float64")}, "r = oneflow.sum(x.to(oneflow.float64))"),
        (("torch.sum", X), {"dtype": DType("int32")}, "r = oneflow.sum(x.to(oneflow.int32)).to(oneflow.int32)"),
        (("sum", X, 1), {"dtype": DType("int64"), "keepdim": True}, "r = oneflow.sum(x.to(oneflow.int64), 1, True)"),
        ((f"{F}softmax", X, 1), {"dtype": DType("float64")}, "r = oneflow.softmax(x.to(oneflow.float64), 1)"),
        (("torch.softmax", X, 1, DType("float64")), {}, "r = oneflow.softmax(x.to(oneflow.float64), 1)"),
    ],
)
def test_an_argument_that_oneflow_says_otherwise_is_said_so(call: tuple[object, ...], kwargs: dict[str, object], expected: str) -> None:
    assert source(str(call[0]), *call[1:], **kwargs) == expected


def test_keywords_and_torchs_synonyms_bind() -> None:
    assert source("torch.sum", input=X, axis=1, keepdims=True) == "r = oneflow.sum(x, 1, True)"
    assert source("aten.sum.dim_IntList", self=X, dim=[1]) == "r = oneflow.sum(x, [1], False)"
    assert source("torch.clip", X, max=float("inf")) == 'r = oneflow.clamp(x, max=float("inf"))'


@pytest.mark.parametrize(
    ("expected", "call", "kwargs"),
    [
        ("missing", ("torch.frac", X), {}),
        ("missing", ("operator.lshift", X, 1), {}),
        ("missing", ("torch.bitwise_and", INDEX, 3), {}),
        ("signature", ("torch.div", INDEX, 2), {"rounding_mode": "trunc"}),
        ("signature", ("torch.div", X, 2), {"rounding_mode": "ceil"}),
        ("signature", ("torch.clamp", X, Y), {}),
        ("signature", (f"{F}conv2d", IMAGE, EVEN), {"padding": "same"}),
        ("signature", ("aten.mse_loss.default", X, Y, 3), {}),
        ("signature", ("aten.elu.default", X, 1.0, 1.5), {}),
        ("signature", ("aten.native_dropout.default", X, 0.0, False), {}),
        ("signature", ("aten.upsample_nearest2d.default", IMAGE, [4, 4], 2.0, 2.0), {}),
        ("signature", ("torch.sort", X), {"stable": True}),
        ("signature", ("torch.var", X), {"correction": 2}),
        ("signature", ("contiguous", X), {"memory_format": MemoryFormat("channels_last")}),
        ("signature", ("torch.zeros", 2), {"device": Device("meta")}),
        ("signature", ("torch.abs", X), {"out": Y}),
        ("signature", (f"{F}elu", X), {"inplace": True}),
        ("dtype", ("to", X, DType("int16")), {}),
        ("dtype", ("torch.abs", Operand("z", "complex64", (2,))), {}),
        ("dtype", ("torch.add", X, 1j), {}),
        ("untranslated", ("torch.fft.rfft", X), {}),
        ("untranslated", ("operator.truth", X), {}),
        ("untranslated", (f"{F}dropout", X, 0.5, True), {}),
    ],
)
def test_what_oneflow_does_not_offer_is_refused_by_kind(expected: str, call: tuple[object, ...], kwargs: dict[str, object]) -> None:
    assert kind(str(call[0]), *call[1:], **kwargs) == expected


def test_arguments_that_change_nothing_on_cpu_are_dropped() -> None:
    how = {"device": Device("cpu"), "layout": Layout("strided"), "pin_memory": False, "memory_format": MemoryFormat("preserve_format")}
    assert source("torch.zeros_like", X, **how) == "r = oneflow.zeros_like(x)"


def test_a_kind_outside_the_closed_set_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        OneFlowUnsupported("nonsense", "text")
    assert len(KINDS) == 6


def test_the_catalogue_is_covered() -> None:
    assert len(supported()) >= 200
    assert len(layers()) >= 60
    assert not supported() & ABSENT - {"rsub"}  # there as a method, not as a function
    assert not set(layers()) & ABSENT_LAYERS


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_absent_operators_are_missing(name: str) -> None:
    assert kind(f"torch.{name}", X) == "missing"


@pytest.mark.parametrize("name", sorted(adapters()))
def test_every_signature_and_template_of_an_adapter_parses(name: str) -> None:
    for candidate in adapters()[name].forms:
        parameters = {parameter.name for parameter in parse(candidate.signature)}
        assert parameters
        if candidate.template:
            names = {node.id for node in ast.walk(ast.parse(candidate.template)) if isinstance(node, ast.Name)}
            assert names - {"oneflow", "operator"} <= parameters


def test_a_layer_is_built_loaded_set_and_called() -> None:
    recipe = ModuleRecipe("torch.nn.BatchNorm1d", (3,), {"dtype": DType("float64")})
    state = {"weight": Operand("state_weight", "float64", (3,)), "bias": Operand("state_bias", "float64", (3,))}
    plan = translate(Node("n", "call_module", "m"), (X,), {}, recipe=recipe, state=state)
    assert render_plan(plan).splitlines() == [
        "module = oneflow.nn.BatchNorm1d(3, 1e-05, 0.1, True, True)",
        "module.to(oneflow.float64)",
        "module.load_state_dict({'weight': state_weight, 'bias': state_bias})",
        "module.eval()",
        "result = module(x)",
    ]


@pytest.mark.parametrize(
    ("expected", "recipe"),
    [
        ("missing", ModuleRecipe("torch.nn.Tanhshrink")),
        ("signature", ModuleRecipe("torch.nn.Conv2d", (1, 2, 3), {"padding_mode": "reflect"})),
        ("untranslated", ModuleRecipe("mylib.Layer")),
        ("untranslated", ModuleRecipe("torch.nn.Dropout", (0.5,), training=True)),
    ],
)
def test_layers_are_refused_by_kind(expected: str, recipe: ModuleRecipe) -> None:
    with pytest.raises(OneFlowUnsupported) as info:
        translate(Node("n", "call_module", "m"), (X,), {}, recipe=recipe)
    assert info.value.kind == expected


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.just(Ellipsis),
    st.just(X),
    st.just(FlowDType("float32")),
)
EXPRS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
        st.builds(lambda args, kwargs: Invocation("oneflow.f", tuple(args), kwargs), st.lists(inner, max_size=3), st.just({})),
    ),
    max_leaves=8,
)


class _Flow:
    float32 = "float32 of OneFlow"

    @staticmethod
    def f(*args: object) -> tuple[object, ...]:
        return ("f", *args)


@given(EXPRS)
def test_what_is_printed_means_what_was_built(expr: object) -> None:
    def built(value: object) -> object:
        if isinstance(value, Invocation):
            return ("f", *(built(item) for item in value.args))
        if isinstance(value, tuple | list):
            return type(value)(built(item) for item in value)
        if isinstance(value, dict):
            return {key: built(item) for key, item in value.items()}
        return {X: "the tensor", FlowDType("float32"): _Flow.float32}.get(value, value) if isinstance(value, Operand | FlowDType) else value

    assert eval(render(expr), {"oneflow": _Flow, "x": "the tensor"}) == built(expr)
    assert map_expr(expr, lambda leaf: leaf) == expr


def test_binding_says_why_it_fails() -> None:
    assert bind("input: T, dim: i", (X,), {}) == "dim is missing"
    assert bind("input: T, dim: i", (X, 1), {"dim": 1}) == "dim is given twice"
    assert bind("input: T", (X,), {"foo": 1}) == "foo"
    assert bind("input: T", (X, 1), {}) == "2 arguments"
    assert bind("input: T, dim: i", (X, True), {}) == "dim=True"
    assert bind("input: T, *size", (X, 2, 3), {}) == {"input": X, "size": (2, 3)}


def test_a_plan_holds_only_what_can_be_printed() -> None:
    with pytest.raises(TypeError, match="object"):
        render(object())


def test_two_adapters_for_one_name_are_refused() -> None:
    from harness.backends.oneflow.translate.registry import form, op

    with pytest.raises(HarnessError, match="relu"):
        op("relu", form("input: T", "oneflow.relu(input)"))
