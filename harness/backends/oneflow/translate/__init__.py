"""The translation of one node into calls of OneFlow's API: a pure function that needs no OneFlow.

`translate` takes a node's opcode and target with its concrete arguments, tensors standing as Operands, and gives a Plan, or
raises OneFlowUnsupported with the reason. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate import (  # noqa: F401  (importing a family registers its adapters)
    activation,
    comparison,
    convolution,
    creation,
    indexing,
    joining,
    linear,
    losses,
    normalization,
    ordering,
    padding,
    pointwise,
    pooling,
    reductions,
    shape,
)
from harness.backends.oneflow.translate.absent import ABSENT
from harness.backends.oneflow.translate.modules import module_plan
from harness.backends.oneflow.translate.operators import operator_call
from harness.backends.oneflow.translate.plan import Expr, FlowDType, Invocation, Operand, Plan, map_expr
from harness.backends.oneflow.translate.registry import adapt, adapters
from harness.model.opnames import canonical_target
from harness.model.program import ModuleRecipe, Node
from harness.model.values import Device, DType, Layout, MemoryFormat, Value

# PyTorch's dtypes that OneFlow has, by the name they have there.
FLOW_DTYPES = {name: name for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")}


def translate(
    node: Node,
    args: tuple[Expr, ...],
    kwargs: Mapping[str, Expr],
    *,
    recipe: ModuleRecipe | None = None,
    state: Mapping[str, Operand] | None = None,
) -> Plan:
    """The plan for one node; `args` and `kwargs` are concrete, with Operands for tensors.

    Raises OneFlowUnsupported where OneFlow does not offer the operator, an argument of it, or a dtype.
    """
    args = tuple(_convert(item) for item in args)
    kwargs = {key: _convert(item) for key, item in kwargs.items()}
    if node.op == "call_module":
        assert recipe is not None
        ctor_args = tuple(_convert(item) for item in recipe.args)
        ctor_kwargs = {key: _convert(item) for key, item in recipe.kwargs.items()}
        checked = {name: _check_operand(operand) for name, operand in (state or {}).items()}
        return module_plan(recipe.cls, ctor_args, ctor_kwargs, training=recipe.training, state=checked, args=args, kwargs=kwargs)
    if node.op == "call_function" and node.target.startswith("operator."):
        return Plan(operator_call(node.target.removeprefix("operator."), args))
    name = canonical_target(node.op, node.target)
    for key in _keys(node, name):
        if key in adapters():
            return adapt(key, args, kwargs)
    if name in ABSENT:
        raise OneFlowUnsupported("missing", f"OneFlow 0.9.0 has no {name}")
    raise OneFlowUnsupported("untranslated", f"there is no adapter for {name} ({node.target})")


def supported() -> frozenset[str]:
    """Every canonical operator name that has an adapter in some spelling."""
    return frozenset(
        canonical_target("call_function", f"aten.{name.removeprefix('aten:')}.default")
        if name.startswith("aten:")
        else name.rpartition(":")[2]
        for name in adapters()
    )


def _keys(node: Node, name: str) -> tuple[str, ...]:
    """The keys of the adapter table that a node goes by, the most particular first."""
    if node.op == "call_method":
        return (f"method:{name}", name)
    if node.target.startswith("aten."):
        # Several of aten's operators may be one operator of PyTorch's: reflection_pad2d is pad in one of its modes.
        return (f"aten:{node.target.split('.')[1]}", f"aten:{name}", name)
    return (f"function:{name}", name)


def _convert(value: Value) -> Expr:
    return map_expr(value, _convert_leaf)


def _convert_leaf(leaf: Value) -> Expr:
    if isinstance(leaf, Operand):
        return _check_operand(leaf)
    if isinstance(leaf, DType):
        if leaf.name not in FLOW_DTYPES:
            raise OneFlowUnsupported("dtype", f"OneFlow 0.9.0 has no dtype {leaf.name}")
        return FlowDType(FLOW_DTYPES[leaf.name])
    if isinstance(leaf, Device | Layout | MemoryFormat):
        return leaf.name
    if isinstance(leaf, complex):
        raise OneFlowUnsupported("dtype", "OneFlow 0.9.0 has no complex scalars")
    return leaf


def _check_operand(operand: Operand) -> Operand:
    if operand.dtype not in FLOW_DTYPES:
        raise OneFlowUnsupported("dtype", f"OneFlow 0.9.0 has no dtype {operand.dtype}")
    return operand


__all__ = ["FLOW_DTYPES", "Invocation", "Plan", "supported", "translate"]
