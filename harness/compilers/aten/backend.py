"""The torch.compile backend: `torch.compile(model, backend="fxdiff_aten", options={"engine": "numpy-constants"})`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

from harness.compilers.aten import engines
from harness.compilers.aten.compiler import compile_graph, untouched
from harness.compilers.aten.decompositions import table_for_torch
from harness.compilers.aten.engines.protocol import Engine
from harness.compilers.aten.partition import Partitioner
from harness.compilers.aten.report import Report
from harness.compilers.aten.settings import DEFAULTS, AtenSettings, from_options


@dataclass
class AtenBackend:
    """The backend with its settings; `reports` tells what each compiled graph became. `engine` and `split` replace those named."""

    settings: AtenSettings = DEFAULTS
    engine: Engine | None = None
    split: Partitioner | None = None
    reports: list[Report] = field(default_factory=list)
    on_compiled: Callable[[torch.fx.GraphModule], None] | None = None  # sees each compiled graph

    def __post_init__(self) -> None:
        # What cannot be had is told before anything is traced.
        self.engine = self.engine or engines.engine(self.settings.engine, self.settings)

    def __call__(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        """A callable for Dynamo's graph, inference and training; AOTAutograd functionalizes and decomposes."""
        through_aot = aot_autograd(
            fw_compiler=self.compiler("forward"),
            bw_compiler=self.compiler("backward"),
            inference_compiler=self.compiler("inference"),
            decompositions=table_for_torch(),
        )
        with untouched(module, "fxdiff_aten"):
            return through_aot(module, example_inputs)

    def compiler(self, stage: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
        """What AOTAutograd is to call for one stage."""

        def compile_stage(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            compiled, report = compile_graph(module, self.settings, stage=stage, engine=self.engine, split=self.split)
            self.reports.append(report)
            if self.on_compiled is not None:
                self.on_compiled(compiled)
            boxed: Callable[..., Any] = make_boxed_func(compiled.forward)
            return boxed

        return compile_stage


def fxdiff_aten(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The entry point. `options` are AtenSettings by name; raises UnknownName with the nearest for any other."""
    return AtenBackend(from_options(options))(module, example_inputs)
