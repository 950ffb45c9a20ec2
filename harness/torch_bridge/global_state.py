"""What a compiler must leave as it found it: defaults, modes and configurations of the whole process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
from torch.utils import _python_dispatch

# Inductor's configuration is looked at only where Inductor has been imported: importing it costs a second.
_CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config", "torch.fx.experimental._config")


@dataclass(frozen=True, slots=True)
class GlobalState:
    """Everything that was looked at, by name; `configs` holds each configuration's hash, and its values for a comparison."""

    values: Mapping[str, Any]
    hashes: Mapping[str, bytes]
    configs: Mapping[str, Mapping[str, Any]] = field(repr=False)


def take() -> GlobalState:
    """The state of the process now."""
    modules = _loaded()
    return GlobalState(
        {
            "default dtype": torch.get_default_dtype(),
            "default device": torch.get_default_device(),
            "grad mode": torch.is_grad_enabled(),
            "inference mode": torch.is_inference_mode_enabled(),
            "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "float32 matmul precision": torch.get_float32_matmul_precision(),
            "autocast": torch.is_autocast_enabled("cpu"),
            "threads": torch.get_num_threads(),
            "oneDNN": torch.backends.mkldnn.enabled,
            "dispatch modes": tuple(type(mode).__name__ for mode in _python_dispatch._get_current_dispatch_mode_stack()),
            "anomaly mode": torch.is_anomaly_enabled(),
        },
        {name: module.get_hash() for name, module in modules.items()},
        {name: module.get_config_copy() for name, module in modules.items()},
    )


def changes(before: GlobalState, after: GlobalState) -> tuple[str, ...]:
    """What differs, in words; a configuration that was loaded in between is not compared."""
    found = [f"{name}: {old} before, {after.values[name]} after" for name, old in before.values.items() if after.values[name] != old]
    for name, old_hash in before.hashes.items():
        if after.hashes.get(name) != old_hash:
            old, new = before.configs[name], after.configs[name]
            found += [f"{name}.{key}: {old[key]!r} before, {new.get(key)!r} after" for key in old if old[key] != new.get(key)]
    return tuple(found)


def restore(state: GlobalState) -> None:
    """Put back what `changes` can tell, as far as torch has a way: the next case must not pay for this one."""
    torch.set_default_dtype(state.values["default dtype"])
    torch.set_grad_enabled(state.values["grad mode"])
    torch.use_deterministic_algorithms(state.values["deterministic algorithms"])
    torch.set_float32_matmul_precision(state.values["float32 matmul precision"])
    torch.set_num_threads(state.values["threads"])
    torch.backends.mkldnn.enabled = state.values["oneDNN"]
    torch.autograd.set_detect_anomaly(state.values["anomaly mode"])
    torch.set_autocast_enabled("cpu", state.values["autocast"])
    while len(_python_dispatch._get_current_dispatch_mode_stack()) > len(state.values["dispatch modes"]):
        _python_dispatch._pop_mode()
    for name, module in _loaded().items():
        if name in state.configs and module.get_hash() != state.hashes[name]:
            module.load_config(dict(state.configs[name]))


def _loaded() -> dict[str, Any]:
    return {name: sys.modules[name] for name in _CONFIGS if name in sys.modules}
