"""What an exception of OneFlow's means: its own word that it does not do this, a fault of an adapter, or a bug of its own.

Every pattern is held by messages recorded from OneFlow 0.9.0 in tests/backends/oneflow/messages.
"""

from __future__ import annotations

import re

from harness.backends.oneflow.translate.plan import Plan
from harness.model.outcome import Status

_NO_KERNEL = re.compile(
    r"op_kernel_not_found|no kernel|Cannot find the kernel matching|kernel.{0,40}not (?:been )?(?:registered|found)", re.I
)
_DTYPE = re.compile(
    r"only support\w* (?:the )?\w*(?:data ?type|dtype|float|int|bool|half)|dtype.{0,60}not support|not support.{0,60}(?:data ?type|dtype)"
    r"|data type.{0,60}is not valid|unsupported (?:data ?type|dtype)|invalid dtype|expected (?:floating|scalar type)",
    re.I,
)
_REFUSED = re.compile(r"not (?:yet )?(?:support|implement)|unsupported|unimplemented|todo|is not available", re.I)
_SIGNATURE = re.compile(
    r"unexpected keyword|positional arguments? but|required positional|required keyword|missing \d+ required"
    r"|invalid combination of arguments|argument '?\w+'? must be|got multiple values|takes (?:no|at most|exactly|from) "
    r"|is an invalid keyword argument|keyword-only",
    re.I,
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r"^\s*File \"[^\"]*\", line \d+, in .*$|^\s*Debug information.*$", re.M)


def clean(message: str) -> str:
    """A message of OneFlow's without colours and build-machine paths, its blank lines dropped."""
    text = _PLACE.sub("", _ANSI.sub("", message))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def classify(error: BaseException, plan: Plan) -> str:
    """`no-cpu-kernel`, `dtype`, `refused` or `signature` for a refusal, `adapter` for a fault of ours, `error` for a failure.

    Python's operators take their arguments as the user wrote them, so a signature that does not match there is OneFlow's
    refusal; everywhere else an adapter chose the arguments, and a mismatch is the adapter's.
    """
    message = clean(str(error))
    if _NO_KERNEL.search(message):
        return "no-cpu-kernel"
    if isinstance(error, NotImplementedError):
        return "refused"
    if isinstance(error, TypeError) and _SIGNATURE.search(message):
        only_operators = all(call.path.startswith("operator.") for call in plan.invocations())
        return "signature" if only_operators else "adapter"
    if isinstance(error, TypeError) and "unsupported operand type" in message:
        return "signature"
    if _DTYPE.search(message):
        return "dtype"
    if _REFUSED.search(message):
        return "refused"
    return "error"


def judge(error: Exception, plan: Plan) -> tuple[Status, str]:
    """The status and message for an exception that escaped from executing `plan`."""
    kind = classify(error, plan)
    text = f"{type(error).__name__}: {clean(str(error))}"
    if kind == "error":
        return Status.ERROR, text
    if kind == "adapter":
        return Status.HARNESS_ERROR, f"an adapter's arguments do not fit OneFlow's signature: {text}"
    return Status.UNSUPPORTED, f"{kind}: {text}"
