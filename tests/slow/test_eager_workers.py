from __future__ import annotations

from harness.backends.protocol import target
from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Fill
from harness.model.outcome import Job, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref
from harness.workers.pool import WorkerPool


def large_product() -> Case:
    square = TensorSpec("float32", (300, 300))
    return Case(
        Program(
            (
                Node("x0", "placeholder", "x0", role="input", spec=square),
                Node("x1", "placeholder", "x1", role="input", spec=square),
                Node("matmul_0", "call_function", "torch.matmul", (Ref("x0"), Ref("x1"))),
                Node("exp_1", "call_function", "torch.relu", (Ref("matmul_0"),)),
                Node("output", "output", "output", (Ref("exp_1"),)),
            )
        ),
        (Call(data={"x0": Fill("exact/1", 1), "x1": Fill("exact/1", 2)}),),
        lane="exact",
    )


def test_forked_workers_with_more_threads_than_their_zygote_neither_hang_nor_differ() -> None:
    case = to_wire(large_product())
    with WorkerPool([target("eager"), target("eager:copy")]) as pool:
        expected = pool.worker("eager").run(Job(case, "eager", ("trace", "twin", "spread", "fake")))
        assert expected.status is Status.OK, expected.message
        assert {"build", "run", "fake", "twin", "spread"} <= set(expected.seconds)
        for _ in range(3):
            with pool.fresh("eager:copy") as worker:
                outcome = worker.run(Job(case, "eager:copy"))
                assert outcome.status is Status.OK, outcome.message
                assert outcome.calls == expected.calls
