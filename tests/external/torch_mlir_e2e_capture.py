"""The worker's side of torch_mlir_e2e: registers torch-mlir's suite, runs one of its tests on eager, and captures it.

Nothing of torch-mlir's checkout is copied; its path comes in the environment variable E2E_CHECKOUT.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import packaging.version
import torch

from harness.backends.protocol import Progress
from harness.capture import capture
from harness.capture.any_way import first_line
from harness.errors import CaptureError, FormatError, Unsupported
from harness.model.case import Case
from harness.model.codec import to_json
from harness.model.outcome import Job, Outcome, Status

CHECKOUT = "E2E_CHECKOUT"
SUITE = "torch_mlir_e2e_test.test_suite"
# torch.export first: the suite's own configurations go that way.
ORDER = ("export", "dynamo", "symbolic_trace")
SEEDS = (1, 2)
_BACKENDS = {
    "linalg": ("linalg_on_tensors_backends.refbackend", "RefBackendLinalgOnTensorsBackend"),
    "tosa": ("tosa_backends.linalg_on_tensors", "LinalgOnTensorsTosaBackend"),
    "stablehlo": ("stablehlo_backends.linalg_on_tensors", "LinalgOnTensorsStablehloBackend"),
}


def register_suite(checkout: Path) -> dict[str, Any]:
    """Every test of the suite by name, those that need torchvision left out; and its lists of expected failures.

    Modules that only other configurations need are replaced by empty ones.
    """
    root = checkout / "projects" / "pt1"
    sys.path[:0] = [str(root / "python"), str(root / "e2e_testing")]
    own_version = packaging.version.parse(torch.__version__.partition("+")[0])
    _stub("torch_mlir._version", version=packaging.version, torch_version_for_comparison=lambda: own_version)
    vision = _stub("torchvision")
    vision.ops = _stub("torchvision.ops")  # type: ignore[attr-defined]
    vision.models = _stub("torchvision.models")  # type: ignore[attr-defined]
    _stub("multiprocess", set_start_method=lambda how: None)
    _stub(f"{SUITE}.vision_models")
    _stub("torch_mlir_e2e_test.configs", __path__=[str(root / "python" / "torch_mlir_e2e_test" / "configs")])  # less its imports
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from torch_mlir_e2e_test import test_suite  # type: ignore[import-not-found]
        from torch_mlir_e2e_test.registry import GLOBAL_TEST_REGISTRY  # type: ignore[import-not-found]

        test_suite.register_all_tests()
        import xfail_sets  # type: ignore[import-not-found]
    return {"tests": {test.unique_name: test for test in GLOBAL_TEST_REGISTRY}, "lists": xfail_sets}


def _stub(name: str, **contents: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module
    return module


class SuiteBackend:
    """Serves jobs whose option `test` names a test: its cases as artifacts. Option `list` asks for names instead.

    Status `unsupported` says why a test cannot be checked. With option `config` the suite itself runs the test.
    """

    def __init__(self) -> None:
        self.suite: dict[str, Any] = {}

    def warm(self) -> None:
        """Register the suite and capture a little."""
        torch.set_num_threads(1)
        self.suite = register_suite(Path(os.environ[CHECKOUT]))
        for how in ORDER:
            capture(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.ones(1, 2),), how=how)  # type: ignore[arg-type]

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """The names of all tests and expected failures, or one test's cases; `case` is not looked at."""
        if job.options.get("list"):
            lists = self.suite["lists"]
            names = {key: sorted(getattr(lists, key)) for key in dir(lists) if key.startswith("FX_IMPORTER") and key.endswith("SET")}
            return Outcome(job.target, Status.OK, artifacts={"tests": json.dumps(sorted(self.suite["tests"])), "lists": json.dumps(names)})
        test = self.suite["tests"][str(job.options["test"])]
        if job.options.get("config"):
            return _own_run(test, str(job.options["config"]), job, progress)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return _captured(test, job, progress)


def _own_run(test: Any, config: str, job: Job, progress: Progress) -> Outcome:
    """What the suite's own configuration (`linalg`, `tosa` or `stablehlo`) makes of a test today: ok, or the error in its words."""
    progress.stage(f"the suite's own {config}")
    output_type = "linalg-on-tensors" if config == "linalg" else config
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from torch_mlir_e2e_test.configs.fx_importer_backend import FxImporterTestConfig  # type: ignore[import-not-found]
        from torch_mlir_e2e_test.framework import compile_and_run_test
        from torch_mlir_e2e_test.reporting import ErrorContext, SingleTestReport  # type: ignore[import-not-found]

        package, name = _BACKENDS[config]
        module = importlib.import_module(f"torch_mlir_e2e_test.{package}")
        result = compile_and_run_test(test, FxImporterTestConfig(getattr(module, name)(), output_type))
        report = SingleTestReport(result, ErrorContext.empty())
        said = report.error_str() if report.failed else ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"error: |python exception: |\w+(\.\w+)*(Error|Exception): ", line)] or lines
    return Outcome(job.target, Status.ERROR if report.failed else Status.OK, message=" | ".join(telling[-2:])[:300])


def _captured(test: Any, job: Job, progress: Progress) -> Outcome:
    progress.stage("test")
    module, calls = recorded(test)
    if not calls:
        raise Unsupported("the test calls nothing")
    cases: list[Case] = []
    ways = []
    for method, inputs in calls:
        if method not in ("", "forward"):
            raise Unsupported(f"the test calls {method!r}, and only forward is captured")
        if not all(map(_same, *(_leaves(_ran(module, inputs, seed)) for seed in SEEDS))):
            raise Unsupported("it draws random numbers, so that no two runs agree")
        how, found = _any_way(module, inputs, progress)
        cases += found
        ways.append(how)
    artifacts = {"how": ", ".join(dict.fromkeys(ways)), **{f"case/{index}": to_json(each).decode() for index, each in enumerate(cases)}}
    return Outcome(job.target, Status.OK, artifacts=artifacts)


def recorded(test: Any) -> tuple[torch.nn.Module, list[tuple[str, tuple[Any, ...]]]]:
    """The test's module, and the calls that it makes to it: method and inputs."""
    from torch_mlir_e2e_test.framework import TestUtils, _Tracer

    torch.manual_seed(0)
    module = test.program_factory()
    trace: list[Any] = []
    try:
        with torch.no_grad():
            test.program_invoker(_Tracer(module, [], trace), TestUtils())
    except Exception as error:  # a test's own code may raise anything
        raise Unsupported(f"eager PyTorch does not run it: {type(error).__name__}: {first_line(error)}") from error
    return module, [(item.symbol, tuple(item.inputs)) for item in trace]


def _ran(module: torch.nn.Module, inputs: tuple[Any, ...], seed: int) -> Any:
    own = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.clone(), inputs)
    torch.manual_seed(seed)
    with torch.no_grad():
        return module(*own)


def _leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
    return bool(one == other) or one != one


def _any_way(module: torch.nn.Module, inputs: tuple[Any, ...], progress: Progress) -> tuple[str, tuple[Case, ...]]:
    reasons = []
    for how in ORDER:
        progress.stage(f"capture by {how}")
        try:
            return how, capture(module, inputs, how=how, mode="fwd")  # type: ignore[arg-type]
        except (CaptureError, FormatError) as error:
            reasons.append(f"{how}: {first_line(error)}")
    raise Unsupported("it cannot be captured. " + ". ".join(reasons))
