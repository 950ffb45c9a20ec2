from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from harness.model.values import Ref
from oracles import judge
from tests.oracles.build import Step, build, lockstep, tensor


def test_five_nodes_without_disagreement_cost_less_than_a_millisecond() -> None:
    steps = {f"relu_{i}": Step("torch.relu", lambda x: np.maximum(x, 0), (Ref("x0" if i == 0 else f"relu_{i - 1}"),)) for i in range(5)}
    case, reference = build({"x0": tensor(np.arange(-64.0, 64).reshape(8, 16))}, steps, (Ref("relu_4"), {"mid": Ref("relu_2")}))
    both = replace(lockstep(reference), calls=reference.calls)
    best = min(_cpu(lambda: judge(case, reference, both)) for _ in range(20))
    assert best < 1e-3, f"{best * 1e3:.2f} ms"


def _cpu(action: object) -> float:
    assert callable(action)
    start = time.process_time()
    action()
    return time.process_time() - start
