"""What an exception of OneFlow's means: its own word that it does not do this, a fault of an adapter, or a bug of its own.

Every pattern is held by messages recorded from OneFlow 0.9.0 in tests/backends/oneflow/messages.
"""

from __future__ import annotations

import re

from harness.backends.oneflow.translate.plan import Plan
from harness.model.outcome import Status

_NO_KERNEL = re.compile(r"op_kernel_not_found|Cannot find the kernel matching")
_DTYPE = re.compile(
    r"InferDataType Failed|Only support floating or integral data type|only supports? .{0,40}(?:dtypes?|data type|floating|integ)"
    r"|is only implemented on .{0,40}tensors|expected scalar type|data ?type .{0,20}is not valid|dtype .{0,40}not support"
    r"|expected common dtype to be|can't be cast to the desired output type|can only calculate the \w+ of floating types"
    r"|data type should be",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"not (?:yet )?(?:support|implement)|unsupported|unimplemented|only supports? |for now |only accepts? \dD|expected \d-dimensional"
    r"|dim\w* .{0,20}must (?:be )?(?:larger|greater) than|must be \"\w+\" or "
    # nn.Graph, of what depends on values
    r"|only eager scalar tensor support|eager tensors supported only|only valid in eager mode|lazy tensor can not be applied"
    r"|not allowed to be called in nn\.Graph",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(
    r"unexpected keyword|positional arguments? but|required positional|required keyword|missing (?:\d+ )?required"
    r"|invalid combination of arguments|argument '?\w+'? must be|got multiple values|takes (?:no|at most|exactly|from) "
    r"|invalid keyword argument|keyword-only",
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r'^ *File "[^"]*", line \d+, in [^\n]*\n(?! *File "| *Error Type)[^\n]*\n?', re.MULTILINE)
_LAST_FRAME = re.compile(r'^ *File "[^"]*", line \d+, in [^\n]*$', re.MULTILINE)
_SOURCE = re.compile(r'^ *File "(?:[^"]*/)?(oneflow/(?:api|core|extension|ir|maybe|user)/[^"]+)", line (\d+), in', re.MULTILINE)
_COUNTED = re.compile(r"^ *op_name: .*$", re.MULTILINE)


def clean(message: str) -> str:
    """A message of OneFlow's without colours, its C++ frames with build-machine paths, and running numbers of operators."""
    text = _COUNTED.sub("", _LAST_FRAME.sub("", _FRAME.sub("", _ANSI.sub("", message))))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def source_of(message: str) -> str:
    """Where in OneFlow's repository an error was raised, as `oneflow/user/ops/conv_op.cpp:27`; empty where its message does not say."""
    frames = _SOURCE.findall(_ANSI.sub("", message))
    return ":".join(frames[-1]) if frames else ""


def classify(error: BaseException, plan: Plan) -> str:
    """`no-cpu-kernel`, `dtype`, `refused` or `signature` for a refusal, `adapter` for a fault of ours, `error` for a failure.

    Python's operators take their arguments as the user wrote them, so a signature that does not match there is OneFlow's
    refusal; everywhere else an adapter chose the arguments, and a mismatch is the adapter's.
    """
    return classify_message(type(error), clean(str(error)), only_operators=all(c.path.startswith("operator.") for c in plan.invocations()))


def classify_message(kind: type[BaseException], message: str, *, only_operators: bool) -> str:
    """`classify` from an exception's type and its clean message."""
    if _NO_KERNEL.search(message):
        return "no-cpu-kernel"
    if issubclass(kind, TypeError) and (_SIGNATURE.search(message) or "unsupported operand type" in message):
        return "signature" if only_operators else "adapter"
    if _DTYPE.search(message):
        return "dtype"
    if issubclass(kind, NotImplementedError) or _REFUSED.search(message):
        return "refused"
    return "error"


def judge(error: Exception, plan: Plan) -> tuple[Status, str]:
    """The status and message for an exception that escaped from executing `plan`."""
    kind = classify(error, plan)
    text = f"{type(error).__name__}: {clean(str(error))}"
    if kind == "error":
        source = source_of(str(error))
        return Status.ERROR, f"{text}\nraised at {source}" if source else text
    if kind == "adapter":
        return Status.HARNESS_ERROR, f"an adapter's arguments do not fit OneFlow's signature: {text}"
    return Status.UNSUPPORTED, f"{kind}: {text}"
