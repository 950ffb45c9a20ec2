"""Everything about an output but its values: structure, dtype and shape, and what was declared of it beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.errors import HarnessError
from harness.model.outcome import CallResult, Declared
from harness.model.values import Tensor, Value, leaves, structure
from harness.model.verdict import Kind, Severity, Verdict


def of_structure(expected: Value, actual: Value, target: str, name: str) -> Verdict | None:
    """Whether two outputs are nested alike, with tensors and scalars in the same places."""
    if type(expected) is Tensor and type(actual) is Tensor:
        return None
    wanted, given = structure(expected), structure(actual)
    if wanted == given and _same_types(wanted, given):
        return None
    text = f"{name}: eager gives {_short(wanted)}, {target} {_short(given)}"
    return Verdict(
        "structure", Kind.STRUCTURE, target, Severity.CONTRACT, text, detail={"expected": _short(wanted), "actual": _short(given)}
    )


def _same_types(first: Value, second: Value) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple | list):
        return all(_same_types(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, dict):
        return list(first) == list(second) and all(_same_types(first[key], second[key]) for key in first)
    return True


def of_types(expected: Tensor, actual: Tensor, target: str, name: str) -> Iterator[Verdict]:
    """Whether two tensors have one dtype and one shape."""
    if expected.dtype != actual.dtype:
        yield _type_verdict("dtype", Kind.DTYPE, target, name, expected.dtype, actual.dtype)
    if expected.shape != actual.shape:
        yield _type_verdict("shape", Kind.SHAPE, target, name, list(expected.shape), list(actual.shape))


def _type_verdict(oracle: str, kind: Kind, target: str, name: str, expected: Value, actual: Value) -> Verdict:
    text = f"{name}: eager's {oracle} is {expected}, {target}'s {actual}"
    return Verdict(oracle, kind, target, Severity.CONTRACT, text, detail={"expected": expected, "actual": actual})


def of_declared(
    declared: Sequence[Declared], calls: Sequence[CallResult], target: str, *, own: Sequence[CallResult] = ()
) -> Iterator[Verdict]:
    """Whether every declared dtype and shape holds on every call that it speaks of; `own` is what the target itself gave.

    Raises HarnessError for a claim about a call or a place that the reference does not have.
    """
    results = [dict(leaves(call.output)) for call in calls]
    for claim in declared:
        if claim.own:
            yield from _of_own(claim, own, target)
            continue
        if claim.call is not None and not 0 <= claim.call < len(calls):
            raise HarnessError(f"{claim.source} declares a type for call {claim.call} of {len(calls)}")
        for index in range(len(calls)) if claim.call is None else (claim.call,):
            if claim.path not in results[index]:
                raise HarnessError(f"{claim.source} declares a type for output {claim.path!r}, which eager does not give")
            actual = results[index][claim.path]
            if isinstance(actual, Tensor):
                yield from _claim_verdicts(claim, actual, target, index)


def _of_own(claim: Declared, calls: Sequence[CallResult], target: str) -> Iterator[Verdict]:
    """Whether what came out of the target is what it had declared; a call that never came back proves nothing."""
    for index in range(len(calls)) if claim.call is None else (claim.call,):
        actual = dict(leaves(calls[index].output)).get(claim.path) if index < len(calls) else None
        if isinstance(actual, Tensor):
            yield from _claim_verdicts(claim, actual, target, index, giver=f"{target} itself")


def _claim_verdicts(claim: Declared, actual: Tensor, target: str, call: int, *, giver: str = "eager") -> Iterator[Verdict]:
    place = f"output {claim.path}" if claim.path else "output"
    if claim.dtype is not None and claim.dtype != actual.dtype:
        text = f"{place}: {claim.source} declares dtype {claim.dtype}, {giver} gives {actual.dtype}"
        yield _declared(Kind.DECLARED_DTYPE, claim, target, call, text, actual.dtype, claim.dtype)
    if claim.shape is not None and not _admits(claim.shape, actual.shape):
        wanted = ["?" if size is None else size for size in claim.shape]
        text = f"{place}: {claim.source} declares shape [{', '.join(map(str, wanted))}], {giver} gives {list(actual.shape)}"
        yield _declared(Kind.DECLARED_SHAPE, claim, target, call, text, list(actual.shape), wanted)


def _declared(kind: Kind, claim: Declared, target: str, call: int, text: str, expected: Value, actual: Value) -> Verdict:
    detail = {"expected": expected, "actual": actual, "source": claim.source}
    return Verdict("declared", kind, target, Severity.CONTRACT, text, claim.source, None, call, claim.path, detail)


def _admits(claimed: tuple[int | None, ...], actual: tuple[int, ...]) -> bool:
    return len(claimed) == len(actual) and all(want in (None, have) for want, have in zip(claimed, actual, strict=True))


def _short(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
