"""Names of targets to callables and back, by closed lists: a case file names operators, it never runs code.

Tables are built on first use from what torch itself declares overridable, plus creation functions.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import torch
import torch.overrides

from harness.errors import CaptureError, UnknownName

Function = Callable[..., Any]

# A function is named after the first of these that exports it: torch.conv2d is torch.nn.functional.conv2d.
_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("torch.nn.functional", torch.nn.functional),
    ("torch.linalg", torch.linalg),
    ("torch.special", torch.special),
    ("torch.fft", torch.fft),
    ("torch", torch),
)
_NOT_OVERRIDABLE = {
    "torch.nn.functional": "sigmoid tanh hardsigmoid hardswish upsample upsample_bilinear upsample_nearest grouped_mm scaled_mm",
    "torch.fft": "fftfreq rfftfreq",
    "torch": """
        arange as_strided as_tensor asarray bartlett_window blackman_window broadcast_shapes can_cast empty empty_permuted
        empty_strided eye fill full hamming_window hann_window is_grad_enabled is_tensor kaiser_window linspace logspace
        normal ones promote_types rand rand_like randint randint_like randn randn_like randperm range result_type
        scalar_tensor segment_reduce tensor tril_indices triu_indices vander zeros
        sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """,
}
_DENIED_FUNCTIONS = frozenset({"torch.cond", "torch.vmap", "torch.compile", "torch.export", "torch.get_device"})

_OPERATOR_NAMES = """
    abs add and_ concat contains eq floordiv ge getitem gt iadd iand iconcat ifloordiv ilshift imatmul imod imul index inv invert
    ior ipow irshift is_ is_not isub itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem sub truediv
    truth xor
"""
_MATH_NAMES = """
    acos asin atan atan2 ceil copysign cos cosh erf exp exp2 expm1 fabs floor fmod gcd hypot isfinite isinf isnan isqrt lcm ldexp log
    log10 log1p log2 pow prod sin sinh sqrt tan tanh trunc
"""
_BUILTIN_NAMES = "abs bool complex divmod float int len list max min pow round slice sum tuple"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRITING_OPERATORS = _words("setitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor")

# Attributes that `builtins.getattr` may read, besides the fields of torch.return_types.
_ATTRIBUTES = _words(
    """
    shape dtype device layout ndim T mT H mH real imag data grad requires_grad is_leaf itemsize nbytes
    is_cuda is_cpu is_sparse is_quantized is_meta is_mkldnn is_floating_point is_complex is_signed start stop step
    """
)
_METHODS_NOT_OVERRIDABLE = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros stride unflatten"
_DUNDER_METHODS = frozenset(
    f"__{name}__"
    for name in _words("""
    abs add and bool contains eq float floordiv ge getitem gt iadd iand ifloordiv ilshift imod imul int invert ior ipow irshift isub
    itruediv ixor le len lshift lt matmul mod mul ne neg or pos pow radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift
    rshift rsub rtruediv rxor setitem sub truediv xor
    """)
)
_DENIED_METHODS = _words(
    """
    apply_ backward const_data_ptr cuda data_ptr ipu map_ map2_ module_load mtia numpy pin_memory record_stream register_hook
    register_post_accumulate_grad_hook set_ share_memory_ storage storage_type to_mkldnn untyped_storage xpu
    """
)
_OTHER_METHODS: Mapping[type[Any], frozenset[str]] = MappingProxyType(
    {
        torch.Size: frozenset({"numel", "count", "index", "__getitem__", "__len__"}),
        tuple: frozenset({"count", "index", "__getitem__", "__len__"}),
        list: frozenset({"count", "index", "__getitem__", "__len__"}),
        dict: frozenset({"get", "__getitem__", "__len__"}),
        int: frozenset({"__add__", "__sub__", "__mul__", "__floordiv__", "__mod__"}),
        float: frozenset({"is_integer"}),
    }
)
_OP_NAMESPACES = ("aten", "prims")
_DENIED_OPS = _words("_print from_file manual_seed save seed set_ set_data set_grad_enabled warn")
_DENIED_CLASSES = _words("Container DataParallel Module ModuleDict ModuleList ParameterDict ParameterList Sequential")


def _safe_getattr(value: object, name: str, *default: object) -> object:
    if name not in _ATTRIBUTES and not (isinstance(value, tuple) and name in getattr(value, "__match_args__", ())):
        raise UnknownName("attribute", str(name), _ATTRIBUTES)
    return builtins.getattr(value, name, *default)


@functools.cache
def _overridable() -> frozenset[int]:
    # By identity, for some are unhashable; get_overridable_functions keeps them alive in its own cache.
    return frozenset(id(item) for group in torch.overrides.get_overridable_functions().values() for item in group)


@functools.cache
def functions() -> Mapping[str, Function]:
    """Every function that may be called, by qualified name."""
    known = _overridable()
    table: dict[str, Function] = {}
    for prefix, namespace in _NAMESPACES:
        extra = set(_NOT_OVERRIDABLE.get(prefix, "").split())
        members = vars(namespace)
        for name, member in members.items():
            if name.startswith("_") or not callable(member) or isinstance(member, type):
                continue
            out_of_place = members.get(name[:-1]) if name.endswith("_") else None
            listed = id(member) in known or name in extra or (out_of_place is not None and id(out_of_place) in known)
            if listed and f"{prefix}.{name}" not in _DENIED_FUNCTIONS:
                table[f"{prefix}.{name}"] = member
    closed = (("operator", operator, _OPERATOR_NAMES), ("math", math, _MATH_NAMES), ("builtins", builtins, _BUILTIN_NAMES))
    for prefix, module, names in closed:
        table.update({f"{prefix}.{name}": getattr(module, name) for name in names.split() if hasattr(module, name)})
    table["builtins.getattr"] = _safe_getattr
    return MappingProxyType(table)


@functools.cache
def tensor_methods() -> frozenset[str]:
    """The methods of torch.Tensor that may be called."""
    known = _overridable()
    names = {name for name in dir(torch.Tensor) if not name.startswith("_") and id(getattr(torch.Tensor, name)) in known}
    in_place = {name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_") and name[:-1] in names}
    return frozenset(names | in_place | set(_METHODS_NOT_OVERRIDABLE.split()) | _DUNDER_METHODS) - _DENIED_METHODS


@functools.cache
def module_classes() -> Mapping[str, type[torch.nn.Module]]:
    """Every module class that a recipe may name: what torch.nn exports, without its containers."""
    return MappingProxyType(
        {
            f"torch.nn.{name}": member
            for name, member in vars(torch.nn).items()
            if isinstance(member, type) and issubclass(member, torch.nn.Module) and name not in _DENIED_CLASSES
        }
    )


@functools.cache
def function(name: str) -> Function:
    """The function that a call_function target names.

    Raises UnknownName, with the nearest names, for anything that is not on the lists.
    """
    namespace, _, rest = name.removeprefix("torch.ops.").partition(".")
    if namespace in _OP_NAMESPACES:
        return _op(namespace, rest, name)
    found = functions().get(name)
    if found is None:
        raise UnknownName("function", name, functions())
    return found


def _op(namespace: str, rest: str, name: str) -> Function:
    packet_name, _, overload = rest.partition(".")
    if namespace == "prims":
        importlib.import_module("torch._prims")  # registers them
    packet = getattr(getattr(torch.ops, namespace), packet_name, None) if packet_name not in _DENIED_OPS else None
    if isinstance(packet, torch._ops.OpOverloadPacket):
        overloads: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
        op = getattr(packet, overload) if overload in overloads else None
        if not isinstance(op, torch._ops.OpOverload):
            raise UnknownName("operator", name, [f"{namespace}.{packet_name}.{known}" for known in overloads])
        return op
    raise UnknownName("operator", name, [f"{namespace}.{known}" for known in dir(getattr(torch.ops, namespace))])


def method(receiver: object, name: str) -> Function:
    """The bound method that a call_method target names on `receiver`; raises UnknownName where it may not be called."""
    if isinstance(receiver, torch.Tensor):
        if name not in tensor_methods():
            raise UnknownName("method", name, tensor_methods())
    else:
        allowed = _OTHER_METHODS.get(type(receiver), frozenset[str]())
        if name not in allowed:
            raise UnknownName(f"method of {type(receiver).__name__}", name, allowed)
    bound: Function = getattr(receiver, name)
    return bound


def check_method(name: str) -> None:
    """Raise UnknownName where no receiver whatever has a method of this name that may be called."""
    known = tensor_methods().union(*_OTHER_METHODS.values())
    if name not in known:
        raise UnknownName("method", name, known)


def check_attribute(name: object) -> None:
    """Raise UnknownName for an attribute that `builtins.getattr` reads of nothing, be it a tensor or a named tuple."""
    if not isinstance(name, str) or (name not in _ATTRIBUTES and not (name.isidentifier() and not name.startswith("_"))):
        raise UnknownName("attribute", str(name), _ATTRIBUTES)


def module_class(name: str) -> type[torch.nn.Module]:
    """The module class that a recipe names; raises UnknownName for anything that torch.nn does not export."""
    found = module_classes().get(name)
    if found is None:
        raise UnknownName("module class", name, module_classes())
    return found


@functools.cache
def _names() -> Mapping[int, str]:
    names: dict[int, str] = {id(builtins.getattr): "builtins.getattr"}
    for name, member in functions().items():
        names.setdefault(id(member), name)
    return MappingProxyType(names)


def function_name(target: Function) -> str:
    """The qualified name of a callable, such that `function` finds it again.

    Found by identity: the pooling functions that torch dispatches by a boolean all have the qualified name of one closure.
    Raises CaptureError for anything that is not on the lists.
    """
    if isinstance(target, torch._ops.OpOverload):
        name = str(target)
        if name.partition(".")[0] in _OP_NAMESPACES:
            return name
    found = _names().get(id(target))
    if found is None:
        module, name = getattr(target, "__module__", None), getattr(target, "__name__", None) or repr(target)
        raise CaptureError(f"the function {f'{module}.{name}' if module else name} cannot be named in a Program")
    return found


def module_class_name(cls: type[torch.nn.Module]) -> str | None:
    """The name under which a recipe can build `cls`; None where torch.nn does not export it."""
    return _class_names().get(cls)


@functools.cache
def _class_names() -> Mapping[type[torch.nn.Module], str]:
    return MappingProxyType({cls: name for name, cls in module_classes().items()})
