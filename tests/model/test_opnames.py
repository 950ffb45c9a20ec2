from __future__ import annotations

import operator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.model.opnames import canonical, canonical_target, is_in_place
from harness.model.program import ModuleRecipe, Node, Program


def function(target: str) -> str:
    return canonical_target("call_function", target)


def method(target: str) -> str:
    return canonical_target("call_method", target)


def layer(cls: str) -> str:
    return canonical_target("call_module", "m", f"torch.nn.{cls}")


@pytest.mark.parametrize(
    ("name", "spellings"),
    [
        (
            "relu",
            [function("torch.relu"), function("torch.nn.functional.relu"), method("relu"), layer("ReLU"), function("aten.relu.default")],
        ),
        ("relu_", [function("torch.relu_"), method("relu_"), function("aten.relu_.default"), function("torch.nn.functional.relu_")]),
        ("add", [function("torch.add"), function("operator.add"), method("add"), method("__add__"), method("__radd__")]),
        ("add", [function("aten.add.Tensor"), function("aten.add.Scalar"), function("torch.ops.aten.add.Tensor")]),
        ("add_", [function("operator.iadd"), method("add_"), method("__iadd__"), function("aten.add_.Tensor")]),
        ("sub", [function("torch.subtract"), function("operator.sub"), method("__sub__")]),
        ("rsub", [function("torch.rsub"), method("__rsub__"), function("aten.rsub.Scalar")]),
        ("div", [function("torch.true_divide"), function("operator.truediv"), method("divide"), method("__rtruediv__")]),
        ("div_", [function("operator.itruediv"), method("div_"), method("divide_")]),
        ("remainder", [function("operator.mod"), function("torch.remainder"), method("__mod__"), function("aten.remainder.Scalar")]),
        ("floor_divide", [function("operator.floordiv"), method("floor_divide")]),
        ("bitwise_and", [function("operator.and_"), method("__and__"), method("__rand__"), function("torch.bitwise_and")]),
        ("bitwise_and_", [function("operator.iand"), method("__iand__"), method("bitwise_and_")]),
        ("bitwise_xor_", [function("operator.ixor")]),
        ("bitwise_not", [function("operator.invert"), function("operator.inv"), method("__invert__")]),
        ("bitwise_left_shift", [function("operator.lshift"), method("__lshift__")]),
        ("pow", [function("operator.pow"), method("__rpow__"), function("aten.pow.Tensor_Scalar")]),
        ("matmul", [function("operator.matmul"), function("torch.linalg.matmul"), method("__matmul__")]),
        ("matmul_", [function("operator.imatmul")]),
        ("getitem", [function("operator.getitem"), method("__getitem__")]),
        ("setitem", [function("operator.setitem"), method("__setitem__")]),
        ("clamp", [function("torch.clip"), method("clamp"), function("aten.clamp.Tensor")]),
        ("clamp_", [method("clip_")]),
        ("cat", [function("torch.concat"), function("torch.concatenate"), function("aten.cat.default")]),
        ("transpose", [method("swapaxes"), function("torch.swapdims"), function("aten.transpose.int")]),
        ("softmax", [function("aten._softmax.default"), layer("Softmax"), layer("Softmax2d"), function("torch.special.softmax")]),
        ("sigmoid", [function("torch.special.expit"), layer("Sigmoid")]),
        ("conv2d", [layer("Conv2d"), function("torch.conv2d"), layer("LazyConv2d")]),
        ("conv_transpose1d", [layer("ConvTranspose1d"), function("torch.conv_transpose1d")]),
        ("batch_norm", [layer("BatchNorm1d"), layer("BatchNorm3d"), layer("SyncBatchNorm"), function("torch.batch_norm")]),
        ("pad", [layer("ConstantPad2d"), layer("ZeroPad1d"), layer("ReflectionPad3d"), function("aten.constant_pad_nd.default")]),
        ("im2col", [function("torch.nn.functional.unfold"), layer("Unfold"), function("aten.im2col.default")]),
        ("unfold", [method("unfold"), function("aten.unfold.default")]),
        ("leaky_relu", [layer("LeakyReLU"), function("torch.nn.functional.leaky_relu")]),
        ("relu6", [layer("ReLU6")]),
        ("cross_entropy", [layer("CrossEntropyLoss"), function("torch.nn.functional.cross_entropy")]),
        ("linalg_norm", [function("torch.linalg.norm"), function("aten.linalg_norm.default")]),
        ("max", [function("aten.max.dim"), function("torch.max"), method("max")]),
        ("torchvision.nms", [function("torchvision.ops.nms"), function("torch.ops.torchvision.nms.default")]),
    ],
)
def test_all_spellings_of_an_operator_have_one_name(name: str, spellings: list[str]) -> None:
    assert set(spellings) == {name}


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (Node("n", "call_function", "torch.nn.functional.relu", (), {"inplace": True}), "relu_"),
        (Node("n", "call_function", "torch.nn.functional.relu", (None, True)), "relu_"),
        (Node("n", "call_function", "torch.nn.functional.relu", (None, False)), "relu"),
        (Node("n", "call_function", "torch.nn.functional.elu", (None, 1.0, True)), "elu_"),
        (Node("n", "call_module", "act"), "relu_"),
        (Node("n", "call_module", "hard"), "hardtanh_"),
        (Node("n", "call_module", "plain"), "relu"),
        (Node("x", "placeholder", "x"), "placeholder"),
        (Node("output", "output", "output"), "output"),
    ],
)
def test_in_place_work_shows_in_the_name(node: Node, name: str) -> None:
    recipes = {
        "act": ModuleRecipe("torch.nn.ReLU", (), {"inplace": True}),
        "hard": ModuleRecipe("torch.nn.Hardtanh", (-1.0, 1.0, True)),
        "plain": ModuleRecipe("torch.nn.ReLU"),
    }
    assert canonical(node, Program((node,), recipes)) == name


def test_is_in_place() -> None:
    assert [name for name in ("add_", "setitem", "add", "relu", "__x__") if is_in_place(name)] == ["add_", "setitem"]


def names_of(module: object) -> list[str]:
    return sorted(name for name in dir(module) if not name.startswith("_") and callable(getattr(module, name)))


SHARED = sorted({*names_of(torch)} & {*names_of(torch.Tensor)} - {"unfold"})


@given(st.sampled_from(SHARED))
def test_a_function_and_its_method_agree(name: str) -> None:
    assert function(f"torch.{name}") == method(name) == function(f"aten.{name}.default")


@given(st.sampled_from([name for name in names_of(torch.Tensor) if name.endswith("_") and hasattr(torch.Tensor, name[:-1])]))
def test_an_in_place_method_is_its_plain_one_with_an_underscore(name: str) -> None:
    assert method(name) == method(name[:-1]) + "_"


@given(
    st.sampled_from([n for n in names_of(operator) if n not in ("setitem", "delitem", "iconcat") and f"i{n.rstrip('_')}" in dir(operator)])
)
def test_an_augmented_assignment_is_the_operator_with_an_underscore(name: str) -> None:
    assert function(f"operator.i{name.rstrip('_')}") in (function(f"operator.{name}") + "_", f"i{name}")


OWN_NAMES = [  # layers with no function of their own in PyTorch
    *(
        "adaptive_log_softmax_with_loss",
        "cross_map_lrn2d",
        "identity",
        "linear_cross_entropy_loss",
        "multi_head_attention",
        "rnn",
        "rnn_cell",
    ),
    *("transformer", "transformer_decoder", "transformer_decoder_layer", "transformer_encoder", "transformer_encoder_layer", "nll_loss2d"),
    *("sequential", "module_list", "module_dict", "parameter_list", "parameter_dict", "module", "container", "data_parallel"),
    *("rnn_base", "rnn_cell_base", "im2col"),
]
LAYERS = [n for n in names_of(torch.nn) if isinstance(getattr(torch.nn, n), type) and issubclass(getattr(torch.nn, n), torch.nn.Module)]


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_is_named_after_its_function(cls: str) -> None:
    name = layer(cls)
    assert name in OWN_NAMES or hasattr(torch.nn.functional, name) or hasattr(torch, name)


@given(st.sampled_from(["call_function", "call_method"]), st.from_regex(r"\A[a-z_]{1,12}(\.[a-z_]{1,12}){0,3}\Z"))
def test_any_target_has_a_name(op: str, target: str) -> None:
    assert canonical_target(op, target)
