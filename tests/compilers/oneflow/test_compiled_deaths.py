from __future__ import annotations

import os
import signal
import time

import pytest
import torch

from harness.compilers.oneflow import NodeFailed, WorkerDied, stop_worker
from harness.compilers.oneflow.worker import WORKERS
from tests.compilers.oneflow.helpers import compiled, equal, needs_oneflow, placed

pytestmark = needs_oneflow


def select(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    chosen = y[index]
    return chosen * 2


def test_death_names_the_node_and_the_next_call_works() -> None:
    function, x, good = compiled(select), torch.randn(4, 3), torch.tensor([1, 2])
    equal(function(x, good), select(x, good))
    with pytest.raises(WorkerDied, match=r"SIGABRT at node 'chosen'(.|\n)*chosen = y\[index\]") as info:
        function(x, torch.tensor([77, 0]))  # OneFlow 0.9.0 aborts where PyTorch raises IndexError
    assert info.value.node == "chosen"
    equal(function(x, good), select(x, good))


def test_a_process_that_is_killed_in_between_is_made_anew() -> None:
    function, x = compiled(lambda x: torch.relu(x) + 1), torch.randn(3)
    function(x)
    os.kill(WORKERS.current().pid, signal.SIGKILL)
    time.sleep(0.1)
    equal(function(x), torch.relu(x) + 1)


def test_a_hang_ends_at_the_deadline() -> None:
    function, x = compiled(lambda x: torch.relu(x) + 1, options={"deadline": 0.5}), torch.randn(3)
    function(x)
    os.kill(WORKERS.current().pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(WorkerDied, match=r"no answer within 0\.5 s"):
        function(x)
    assert time.monotonic() - started < 5
    equal(function(x), torch.relu(x) + 1)


def test_gradients_that_died_with_their_process_say_so() -> None:
    function, x = compiled(lambda x: torch.relu(x) * 2), torch.randn(3, requires_grad=True)
    output = function(x)
    stop_worker()
    with pytest.raises(WorkerDied, match="run it again"):
        output.sum().backward()
    function(x).sum().backward()
    assert x.grad is not None


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout2d(torch.relu(x), 0.5, False)  # OneFlow 0.9.0 refuses every p as outside 0 to 1


def test_an_error_of_oneflows_names_the_node_and_the_line() -> None:
    with pytest.raises(NodeFailed, match=r"node 'dropout2d': (.|\n)*test_compiled_deaths.py") as info:
        compiled(dropped)(torch.randn(2, 3, 4, 4))
    assert info.value.node == "dropout2d"


def test_an_operator_that_oneflow_does_wrong_can_be_kept_out_of_it() -> None:
    x = torch.randn(2, 3, 4, 4)
    equal(compiled(dropped, options={"exclude": ["dropout2d"]})(x), dropped(x))
    assert placed().torch["dropout2d"].kind == "excluded"


def test_a_forked_child_gets_a_process_of_its_own() -> None:
    function, x = compiled(lambda x: torch.relu(x) + 1), torch.ones(3)
    function(x)
    mine = WORKERS.current().pid
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            right = bool(torch.equal(function(x), x + 1)) and WORKERS.current().pid != mine
            WORKERS.close()
            os.write(write, b"1" if right else b"0")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"1"
    os.waitpid(child, 0)
    equal(function(x), x + 1)
    assert WORKERS.current().pid == mine
