"""Targets that are wrong on purpose, one kind each: `wrong:KIND` over eager PyTorch, `plain:KIND` over plain numpy.

Each behaves as the target inside it until a program holds a trigger operator: torch.sin, or what the job's option
`trigger` (a list of targets) says. Load with `--import tests.doubles.wrong`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

import tests.doubles.plain
from harness.backends.protocol import Backend, Progress, TargetSpec, load_backend, register
from harness.errors import Rejected, Unsupported
from harness.model.case import Case
from harness.model.dtypes import DTYPES
from harness.model.outcome import CallResult, Declared, Job, Outcome, Status
from harness.model.values import Tensor, Value, leaves, map_leaves, tensor_from_array

TRIGGERS = ("torch.sin", "sin", "torch.Tensor.sin", "aten.sin.default")
INNER = {"wrong": "harness.backends.eager:EagerBackend", "plain": "tests.doubles.plain:PlainBackend"}
HOG_STEP = 64 << 20
HOG_LIMIT = 6 << 30  # a hog that nobody stops gives up here
NOISE = 3 << 20


def trigger_node(case: Case, job: Job) -> str | None:
    """The name of the first node that this target is wrong about."""
    wanted = job.options.get("trigger", TRIGGERS)
    return next((node.name for node in case.program.operators if node.target in wanted), None)


class WrongBackend:
    """The target inside, until the trigger; what then happens is in the subclasses."""

    inner: ClassVar[str]

    def __init__(self) -> None:
        self.backend: Backend = load_backend(self.inner)

    def warm(self) -> None:
        self.backend.warm()

    def start(self) -> None:
        self.backend.start()

    def versions(self) -> Mapping[str, str]:
        return self.backend.versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        node = trigger_node(case, job)
        if node is None:
            return self.backend.run(case, job, progress)
        progress.stage("run")
        progress.node(node)
        if "touch" in job.options:
            Path(str(job.options["touch"])).touch()  # tells a test that the job is under way
        self.before(case)
        outcome = self.backend.run(case, job, progress)
        return self.after(case, outcome) if outcome.status is Status.OK else outcome

    def before(self, case: Case) -> None:
        """Do harm while the node is at work."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        """Spoil a right outcome."""
        return outcome


def change_calls(
    outcome: Outcome, change: Callable[[CallResult], CallResult], which: Callable[[int], bool] = lambda index: True
) -> Outcome:
    """The outcome with `change` applied to the calls that `which` chooses by index."""
    calls = tuple(change(call) if which(index) else call for index, call in enumerate(outcome.calls))
    return dataclasses.replace(outcome, calls=calls)


def change_first_tensor(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    """The value with `change` applied to its first tensor that has elements, if any."""
    state = {"done": False}

    def visit(leaf: Value) -> Value:
        if state["done"] or not isinstance(leaf, Tensor) or 0 in leaf.shape:
            return leaf
        state["done"] = True
        return change(leaf)

    return map_leaves(value, visit)


def one_more(tensor: Tensor) -> Tensor:
    """The tensor with its first element off by one; a bool is negated."""
    array = tensor.array()
    flat = array.reshape(-1)
    if tensor.dtype == "bfloat16":
        flat[0] ^= np.uint16(0x0040)  # the highest bit of the fraction
    elif tensor.dtype == "bool":
        flat[0] = not flat[0]
    else:
        flat[0] += flat.dtype.type(1)
    return tensor_from_array(array, tensor.dtype)


def off_by_one(call: CallResult) -> CallResult:
    """The call with one wrong element in its output."""
    return dataclasses.replace(call, output=change_first_tensor(call.output, one_more))


class Nothing(WrongBackend):
    """Faithful: the control."""


class WrongValue(WrongBackend):
    """One element is off by one."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        return change_calls(outcome, off_by_one)


class WrongDtype(WrongBackend):
    """The first output comes in another dtype."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        def change(tensor: Tensor) -> Tensor:
            other = "float64" if tensor.dtype != "float64" else "float32"
            if DTYPES[tensor.dtype].kind == "complex" or tensor.dtype == "bfloat16":
                return Tensor("int8", tensor.shape, tensor_from_array(np.zeros(tensor.shape, np.int8), "int8").data)
            return tensor_from_array(tensor.array().astype(other), other)

        return change_calls(outcome, lambda call: dataclasses.replace(call, output=change_first_tensor(call.output, change)))


class WrongShape(WrongBackend):
    """The first output gains a dim of size one."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        def change(tensor: Tensor) -> Tensor:
            return tensor_from_array(tensor.array()[None], tensor.dtype)

        return change_calls(outcome, lambda call: dataclasses.replace(call, output=change_first_tensor(call.output, change)))


class WrongStructure(WrongBackend):
    """The output comes in a list."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        return change_calls(outcome, lambda call: dataclasses.replace(call, output=[call.output]))


class WrongMutation(WrongBackend):
    """The first input with elements is left changed."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        calls = []
        for index, call in enumerate(outcome.calls):
            arguments = case.arguments(index).items()
            victim = next(((name, value) for name, value in arguments if isinstance(value, Tensor) and 0 not in value.shape), None)
            if victim is not None:
                name, tensor = victim
                call = dataclasses.replace(call, mutated={**call.mutated, name: one_more(tensor)})
            calls.append(call)
        return dataclasses.replace(outcome, calls=tuple(calls))


class WrongDeclared(WrongBackend):
    """A type is claimed for the first output that it does not have."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        for path, leaf in leaves(outcome.calls[0].output):
            if isinstance(leaf, Tensor):
                claim = Declared("wrong", path, leaf.dtype, (*leaf.shape, 7))
                return dataclasses.replace(outcome, declared=(*outcome.declared, claim))
        return outcome


class Raises(WrongBackend):
    """The system raises, and the backend reports it as it should."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        node = trigger_node(case, job)
        if node is None:
            return self.backend.run(case, job, progress)
        progress.stage("run")
        progress.node(node)
        return Outcome(job.target, Status.ERROR, stage="run", node=node, message="RuntimeError: wrong on purpose")


class HarnessException(WrongBackend):
    """The backend itself raises what nobody understands."""

    def before(self, case: Case) -> None:
        raise KeyError("wrong on purpose")


class Refuses(WrongBackend):
    """The system says that it does not do this; right, not wrong."""

    def before(self, case: Case) -> None:
        raise Unsupported("no kernel on purpose")


class Rejects(WrongBackend):
    """Eager itself would refuse."""

    def before(self, case: Case) -> None:
        raise Rejected("not a case on purpose")


class SystemExits(WrongBackend):
    """The target calls sys.exit."""

    def before(self, case: Case) -> None:
        sys.exit(3)


class RaisesMemoryError(WrongBackend):
    """An allocation is refused."""

    def before(self, case: Case) -> None:
        raise MemoryError("wrong on purpose")


class Exits(WrongBackend):
    """The process ends itself."""

    def before(self, case: Case) -> None:
        os._exit(3)


class Aborts(WrongBackend):
    """A failed check in native code."""

    def before(self, case: Case) -> None:
        os.write(2, b"F wrong.cpp:7] Check failed: wrong on purpose\n")
        os.abort()


class Segfaults(WrongBackend):
    """Native code reads through a null pointer."""

    def before(self, case: Case) -> None:
        ctypes.string_at(0)


class DividesByZero(WrongBackend):
    """An integer division traps."""

    def before(self, case: Case) -> None:
        os.kill(os.getpid(), signal.SIGFPE)


class Hangs(WrongBackend):
    """Sleeps, as in a deadlock."""

    def before(self, case: Case) -> None:
        time.sleep(3600)


class Spins(WrongBackend):
    """Computes for ever."""

    def before(self, case: Case) -> None:
        while True:
            pass


class Hogs(WrongBackend):
    """Takes memory and touches it, step by step."""

    def before(self, case: Case) -> None:
        held: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []
        while len(held) * HOG_STEP < HOG_LIMIT:
            held.append(np.ones(HOG_STEP, dtype=np.uint8))
            time.sleep(0.005)
        time.sleep(3600)


class CorruptsHeap(WrongBackend):
    """The guilty case ends well; the next one, guilty of nothing, dies of it."""

    later: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.fuse: int | None = None

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse == 0:
                progress.stage("run")
                os.write(2, b"malloc(): corrupted top size\n")
                os.abort()
        elif trigger_node(case, job) is not None:
            self.fuse = self.later
        return self.backend.run(case, job, progress)


class CorruptsHeapLater(CorruptsHeap):
    """As CorruptsHeap, but the third case after the guilty one dies."""

    later: ClassVar[int] = 3


class DiesIdle(WrongBackend):
    """Answers rightly, then a thread of the target's own kills the process."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        return outcome


class Flaky(WrongBackend):
    """Every other run is off by one, counted over all workers."""

    def warm(self) -> None:
        super().warm()
        self.counter = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        self.counter[0] = (self.counter[0] + 1) % 2
        return change_calls(outcome, off_by_one) if self.counter[0] == 1 else outcome


class SecondBinding(WrongBackend):
    """Wrong once sizes differ from those of the first call, as if they had been compiled in."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        first = dict(case.calls[0].binding)
        return change_calls(outcome, off_by_one, lambda index: dict(case.calls[index].binding) != first)


class SecondCall(WrongBackend):
    """Wrong from the second call on, as if state were kept."""

    def after(self, case: Case, outcome: Outcome) -> Outcome:
        return change_calls(outcome, off_by_one, lambda index: index > 0)


class Prints(WrongBackend):
    """Prints a lot, by Python and by hand, and is right."""

    def before(self, case: Case) -> None:
        print("noise " * (NOISE // 6))
        os.write(2, b"N" * NOISE)


class PrintsForEver(WrongBackend):
    """Prints without end."""

    def before(self, case: Case) -> None:
        while True:
            os.write(1, b"N" * (1 << 20))


KINDS: dict[str, type[WrongBackend]] = {
    "nothing": Nothing,
    "value": WrongValue,
    "dtype": WrongDtype,
    "shape": WrongShape,
    "structure": WrongStructure,
    "mutation": WrongMutation,
    "declared": WrongDeclared,
    "raise": Raises,
    "harness": HarnessException,
    "refuse": Refuses,
    "reject": Rejects,
    "sysexit": SystemExits,
    "memoryerror": RaisesMemoryError,
    "exit": Exits,
    "abort": Aborts,
    "segfault": Segfaults,
    "fpe": DividesByZero,
    "hang": Hangs,
    "spin": Spins,
    "hog": Hogs,
    "heap": CorruptsHeap,
    "heaplater": CorruptsHeapLater,
    "idle": DiesIdle,
    "flaky": Flaky,
    "binding": SecondBinding,
    "call": SecondCall,
    "prints": Prints,
    "printsforever": PrintsForEver,
}


def _register_all() -> None:
    for family, inner in INNER.items():
        for kind, cls in KINDS.items():
            name = f"{family.title()}{cls.__name__}"
            globals()[name] = type(name, (cls,), {"inner": inner, "__doc__": cls.__doc__, "__module__": __name__})
            register(
                TargetSpec(
                    f"{family}:{kind}",
                    f"{__name__}:{name}",
                    (cls.__doc__ or kind).splitlines()[0],
                    zygote="torch" if family == "wrong" else tests.doubles.plain.SPEC.zygote,
                    family=family,
                )
            )


_register_all()
