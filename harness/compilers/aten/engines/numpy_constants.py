"""The engine of the source report: it turns every constant of its subgraph into numpy while it is built.

Built under a FakeTensorMode that fails, with `.numpy() is not supported for tensor subclasses`: what hygiene is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.fx

from harness.compilers.aten.engines.protocol import Partition, Runnable

_BITS = {torch.bfloat16: torch.int16}  # numpy has no such dtype: its bits are carried in another


class NumpyConstantsEngine:
    """Runs the subgraph in torch on constants that have been through numpy, as a network definition would hold them."""

    name = "numpy-constants"

    def supports(self, node: torch.fx.Node) -> bool:
        """Whatever does not compute with complex numbers: their conjugate bit does not survive numpy."""
        value = node.meta.get("val")
        several = value if isinstance(value, tuple | list) else (value,)
        return not any(isinstance(each, torch.Tensor) and each.dtype.is_complex for each in several)

    def build(self, partition: Partition) -> Runnable:
        """Turn tensors and numbers among the arguments into numpy, and interpret with them."""
        return _Network(partition.module, constants_of(partition.module))


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant in numpy, and the dtype that its bits are of."""

    array: npt.NDArray[Any]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """The constant as a fresh tensor."""
        return torch.from_numpy(np.array(self.array)).view(self.dtype)


def constant(value: torch.Tensor | float | int | bool) -> Constant:
    """A tensor or a number as numpy. Raises RuntimeError for a tensor without data."""
    tensor = value.detach().cpu().contiguous() if isinstance(value, torch.Tensor) else torch.tensor(value)
    return Constant(tensor.view(_BITS.get(tensor.dtype, tensor.dtype)).numpy(), tensor.dtype)


def constants_of(module: torch.fx.GraphModule) -> dict[str, Constant]:
    """Every tensor that the graph reads as an attribute and every number among its arguments, by place."""
    found: dict[str, Constant] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            assert isinstance(value, torch.Tensor)
            found[node.name] = constant(value)
        elif node.op == "call_function":
            for position, argument in enumerate(node.args):
                if isinstance(argument, float):
                    found[f"{node.name}[{position}]"] = constant(torch.tensor(argument, dtype=torch.float64))
    return found


class _Network:
    """The subgraph with its constants in numpy."""

    def __init__(self, module: torch.fx.GraphModule, constants: Mapping[str, Constant]) -> None:
        self.module = module
        self.constants = dict(constants)

    def __call__(self, *inputs: Any) -> Sequence[torch.Tensor]:
        result: Sequence[torch.Tensor] = _Interpreter(self.module, self.constants).run(*inputs)
        return result


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, constants: Mapping[str, Constant]) -> None:
        super().__init__(module)
        self.constants = constants

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op == "get_attr":
            return self.constants[n.name].tensor()
        if n.op != "call_function":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        args = tuple(
            self.constants[f"{n.name}[{position}]"].array.item() if f"{n.name}[{position}]" in self.constants else argument
            for position, argument in enumerate(args)
        )
        return self.call_function(n.target, args, kwargs)
