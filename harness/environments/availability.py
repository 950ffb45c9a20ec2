"""Whether a target's libraries are there, told without importing them."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import shlex
import sys

from harness.environments.cache import environment_dir
from harness.environments.missing import Missing
from harness.environments.oneflow_build import unsupported_platform
from harness.environments.oneflow_env import not_built, read
from harness.environments.versions import pins, requirement

_MODULES = {"torch": ("torch", "torch"), "torch-mlir": ("torch_mlir", "torch-mlir")}
_WHY = {
    "torch": "Eager PyTorch is the reference that every other target is compared with.",
    "torch-mlir": "Without it the torch-mlir targets are skipped.",
}
_ZYGOTES = {
    "torch": ("torch",),
    "torch-compile": ("torch",),
    "torch-compile-oneflow": ("torch",),
    "torch-compile-tensorrt": ("torch",),
    "torch-mlir": ("torch", "torch-mlir"),
}


def missing(zygote: str) -> Missing | None:
    """What the targets of a zygote (`torch`, `torch-mlir`, `oneflow`, `oneflow-unmapped`) lack on this machine; None where nothing.

    A zygote that is not fxdiff's own is its plugin's business: nothing is known to be missing.
    """
    if zygote in ("oneflow", "oneflow-unmapped"):
        return _missing_oneflow()
    if zygote == "torch-compile-oneflow" and (problem := _missing_oneflow()) is not None:
        return problem
    if zygote == "torch-compile-tensorrt" and (problem := _missing_tensorrt()) is not None:
        return problem
    for package in _ZYGOTES.get(zygote, ()):
        module, distribution = _MODULES[package]
        if importlib.util.find_spec(module) is None:
            return Missing(
                f"{distribution} is not installed in {sys.executable}",
                _WHY[package],
                f"{shlex.quote(sys.executable)} -m pip install {requirement('main', distribution)}",
            )
    return None


def installed(distribution: str) -> str | None:
    """The version of an installed package of our own interpreter, None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_versions() -> dict[str, str]:
    """The versions of every pinned package that is installed, in both environments."""
    found = {name: version for name in pins("main") if (version := installed(name)) is not None}
    oneflow = read(environment_dir("oneflow"))
    return {**(oneflow.versions if oneflow is not None else {}), **found}


def other_version(environment: str, distribution: str, version: str) -> bool:
    """Whether a package is of another version than the pinned one; a local part such as `+cpu` does not count."""
    return version.partition("+")[0] != pins(environment)[distribution]


def _missing_oneflow() -> Missing | None:
    if (problem := unsupported_platform()) is not None:
        return problem
    root = environment_dir("oneflow")
    return None if read(root) is not None else not_built(root)


_TENSORRT = "Without it the engine tensorrt of the aten path is not offered; nothing else needs it."


def _missing_tensorrt() -> Missing | None:
    """What the engine lacks: a GPU driver, or one of its two libraries. That an engine builds is seen when it is warmed."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Missing("there is no CUDA driver (libcuda.so.1)", _TENSORRT, "install NVIDIA's driver on a machine with a GPU")
    for module, distribution in (("torch_tensorrt", "torch-tensorrt"), ("tensorrt", "tensorrt")):
        if importlib.util.find_spec(module) is None:
            return Missing(
                f"{distribution} is not installed in {sys.executable}",
                _TENSORRT,
                f"{shlex.quote(sys.executable)} -m pip install torch-tensorrt, beside a torch that is built for CUDA",
            )
    return None
