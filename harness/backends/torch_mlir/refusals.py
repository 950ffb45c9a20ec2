"""Telling torch-mlir's word that it does not do something from a failure on something it claims to do.

Held against recorded messages in tests/backends/torch_mlir/messages.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from harness.backends.torch_mlir.lowerings import CONVERSIONS, EXECUTIONS
from harness.backends.torch_mlir.pipelines import StageFailure

INFERENCE = "inference"


class Failure(str, enum.Enum):
    """What a stage's failure is."""

    REFUSAL = "refusal"
    INVALID_IR = "invalid-ir"  # a pass left IR that the verifier rejects
    SILENT_ERROR = "silent-error"  # an earlier stage reported an error, yet succeeded, and a later one paid for it
    PASS_FAILURE = "pass-failure"


_NOT_IN_ODS = re.compile(r"failed to legalize operation 'torch\.operator'.*?name = \"(?P<op>torch\.[\w.]+)\"", re.DOTALL)
_ILLEGAL = re.compile(r"failed to legalize operation '(?P<op>torch\.[\w.]+)'")
_REFUSALS = (
    _NOT_IN_ODS,
    _ILLEGAL,
    re.compile(r"[Uu]nimplemented operation '(?P<op>torch\.[\w.]+)'"),
    re.compile(r"found an op that was marked as backend illegal(?:.*?(?P<op>torch\.aten\.[\w.]+))?", re.DOTALL),
    re.compile(r"unsupported by backend contract"),
    re.compile(r"\b[Uu]nimplemented\b"),
    re.compile(r"\b[Nn]ot (?:yet )?(?:implemented|supported)\b"),
    re.compile(r"\b[Uu]nsupported\b"),
    re.compile(r"\bNYI\b"),
)
# MLIR's and StableHLO's own way to linalg says that it does not take an operator.
_NOT_EXECUTED = re.compile(r"failed to legalize (?:unresolved materialization|operation '(?:tosa|stablehlo|chlo)\.[\w.]+')")
# Constants and lists are named by a failed conversion only because they come first among what is left over.
_SCAFFOLDING = ("torch.constant.", "torch.prim.", "torch.vtensor.literal", "torch.operator")


def is_refusal(message: str) -> bool:
    """Whether this one message says that something is not done."""
    return any(pattern.search(message) for pattern in _REFUSALS)


def refused_operator(messages: Sequence[str]) -> str | None:
    """The torch operator that a refusal names, if it names one."""
    for pattern in _REFUSALS:
        for message in messages:
            match = pattern.search(message)
            name = match.groupdict().get("op") if match is not None else None
            if name is not None and not name.startswith(_SCAFFOLDING):
                return name
    return None


def classify(failure: StageFailure, earlier: Sequence[str]) -> tuple[Failure, str | None]:
    """What `failure` is, and for a refusal the operator if the messages name it.

    `earlier` holds the errors that stages before emitted although they succeeded.
    """
    errors = [item.message for item in failure.emitted if item.severity == "error"]
    if failure.invalid_ir:
        return Failure.INVALID_IR, None
    if failure.stage in EXECUTIONS and any(_NOT_EXECUTED.search(message) for message in errors):
        return Failure.REFUSAL, None
    if failure.stage not in (INFERENCE, "torch-pipeline", *CONVERSIONS):
        return Failure.PASS_FAILURE, None
    if earlier and not any(is_refusal(message) for message in earlier):
        return Failure.SILENT_ERROR, None
    if any(is_refusal(message) for message in (*errors, *earlier)):
        # A last pass that only says that something is left over leaves nothing else of torch in the module.
        left = failure.remaining[0] if len(failure.remaining) == 1 else None
        return Failure.REFUSAL, refused_operator([*errors, *earlier]) or left
    return Failure.PASS_FAILURE, None
