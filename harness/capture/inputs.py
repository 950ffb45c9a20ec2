"""What a user hands to capture: inputs, their names, which tensors belong to the module, which dims are symbolic."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from harness.errors import CaptureError, UsageError


def leaf_names(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """A name for each leaf of (args, kwargs), in pytree order: `x`, or `boxes_0` where an argument holds several."""
    names = _argument_names(signature, args)
    pairs, _ = pytree.tree_flatten_with_path((args, dict(kwargs)))
    result = []
    for path, _ in pairs:
        keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path]
        first = names[int(keys[1])] if keys[0] == "0" else keys[1]
        result.append("_".join([first, *keys[2:]]))
    return result


def _argument_names(signature: inspect.Signature, args: tuple[Any, ...]) -> list[str]:
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{index}" for index in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    if len(names) < len(args):
        raise UsageError(f"{len(args)} inputs for a forward that takes {len(names)}")
    return names


def tensor_roles(module: torch.nn.Module) -> dict[int, tuple[str, str]]:
    """Role and path of every tensor that the module holds, by identity: parameters, buffers, plain attributes."""
    roles: dict[int, tuple[str, str]] = {}
    for name, parameter in module.named_parameters():
        roles.setdefault(id(parameter), ("parameter", name))
    for name, buffer in module.named_buffers():
        roles.setdefault(id(buffer), ("buffer", name))
    for prefix, child in module.named_modules():
        for name, value in vars(child).items():
            if isinstance(value, torch.Tensor):
                roles.setdefault(id(value), ("constant", f"{prefix}.{name}" if prefix else name))
    return roles


def private_copy(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The module and its inputs, copied so that running them changes nothing of the user's; sharing among them is kept."""
    # detach() leaves a view of the same memory, so what shares memory still does; a graph behind an input is cut off.
    detached = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad), (args, dict(kwargs)))
    try:
        own, (own_args, own_kwargs) = copy.deepcopy((module, detached))
    except Exception as error:  # deepcopy runs the user's own __deepcopy__ and __reduce__
        raise CaptureError(f"the module cannot be copied: {type(error).__name__}: {error}") from error
    return own, own_args, own_kwargs


def dynamic_axes(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], spec: Any) -> list[dict[int, Any]]:
    """For each tensor leaf of (args, kwargs), which axes are symbolic, from `dynamic_shapes` as torch.export takes it."""
    if spec is None:
        return [{} for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    names = _argument_names(signature, args)
    if isinstance(spec, Mapping):
        unknown = spec.keys() - {*names, *kwargs}
        if unknown:
            raise UsageError(f"dynamic_shapes names {', '.join(sorted(unknown))}, which forward does not take")
        parts = [spec.get(name) for name in names[: len(args)]]
    else:
        parts = [*spec, *[None] * (len(args) - len(spec))]
    result = []
    for value, part in zip(args, parts, strict=False):
        result += list(_axes(value, part))
    for name, value in kwargs.items():
        result += list(_axes(value, spec.get(name) if isinstance(spec, Mapping) else None))
    return result


def _axes(value: Any, spec: Any) -> Iterator[dict[int, Any]]:
    if isinstance(value, torch.Tensor):
        pairs = enumerate(spec) if isinstance(spec, tuple | list) else spec.items() if spec else ()
        axes = {axis: dim for axis, dim in pairs if dim is not None and not isinstance(dim, int) and "STATIC" not in str(dim)}
        if any(not 0 <= axis < value.dim() for axis in axes):
            raise UsageError(f"dynamic_shapes names axes {sorted(axes)} of a tensor with {value.dim()}")
        yield axes
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _axes(item, spec[index] if spec else None)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _axes(item, spec.get(key) if spec else None)
