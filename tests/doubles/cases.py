"""Small cases for tests of workers."""

from __future__ import annotations

from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Fill
from harness.model.outcome import Job
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref

GUILTY = "torch.sin"
INNOCENT = "torch.cos"


def unary_case(operator: str, *, sizes: tuple[int, ...] = (3,), seed: int = 1, before: str = INNOCENT) -> Case:
    """`operator(before(x0))` with x0 of shape (s0, 2), called once for each size."""
    program = Program(
        (
            Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (Sym("s0"), 2))),
            Node("first", "call_function", before, (Ref("x0"),)),
            Node("second", "call_function", operator, (Ref("first"),)),
            Node("output", "output", "output", (Ref("second"),)),
        )
    )
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", seed + index)}) for index, size in enumerate(sizes))
    return Case(program, calls, (Symbol("s0"),), lane="exact")


def job(target: str, *, guilty: bool = True, sizes: tuple[int, ...] = (3,), seed: int = 1) -> Job:
    """A job whose program holds the trigger at node `second`, or does not."""
    return Job(to_wire(unary_case(GUILTY if guilty else INNOCENT, sizes=sizes, seed=seed)), target)
