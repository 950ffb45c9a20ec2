"""What a bug needs, and values, in words: features are fxdiff's own tags, which nobody else knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.corpus.entry import Entry
from harness.exporting.names import one_line
from harness.exporting.scrub import scrub_diagnostics
from harness.reproducers.check import ERROR_KINDS

_FOR = {
    "empty": "an empty tensor",
    "layout:expanded": "an expanded tensor",
    "layout:strided": "a non-contiguous tensor",
}
_ON = {"value:nan": "NaN", "value:inf": "infinity", "value:negative-zero": "-0.0"}
# Words of arguments by what they say; the sign and the absence of a number are news, that there is one is not.
_ARGUMENT = {
    "negative": "a negative {}",
    "float-negative": "a negative {}",
    "nan": "a NaN {}",
    "inf": "an infinite {}",
    "empty": "an empty {}",
}
_SILENT = {"int", "float"}


def circumstances(trigger: Iterable[str], dtype: str = "any") -> list[str]:
    """What a signature's trigger says, as parts of a sentence such as `for a 1-D input`, the most telling first.

    Tags that say nothing by themselves, and those that nobody has words for, are left out.
    """
    tags = list(trigger)
    ranks = sorted(int(rank[1]) for tag in tags if (rank := re.fullmatch(r"rank:(\d+)", tag)))
    inputs = [dtype.replace("+", " and ")] if dtype != "any" else []
    inputs += [_FOR[tag] for tag in tags if tag in _FOR]
    inputs += ["a scalar" if rank == 0 else f"{'an' if rank in (8, 11) else 'a'} {rank}-D input" for rank in ranks]
    found = [f"for {each}" for each in dict.fromkeys(inputs)]
    found += [f"on {_ON[tag]}" for tag in tags if tag in _ON]
    arguments = [_argument(tag) for tag in tags]
    arguments += ["a symbolic size"] if "dynamic" in tags else []
    found += [f"with {each}" for each in dict.fromkeys(arguments) if each]
    found += ["in training mode"] if "training" in tags else []
    return found + (["in a second call"] if "second-call" in tags else [])


def joined(parts: Sequence[str]) -> str:
    """Parts of a sentence in a row, those with the same preposition joined: `for int64 and an empty tensor with a negative dim`."""
    words: list[str] = []
    previous = ""
    for part in parts:
        preposition, _, rest = part.partition(" ")
        words.append(f"and {rest}" if preposition == previous else part)
        previous = preposition
    return " ".join(words)


def said_of(value: object) -> str:
    """A dtype, shape or number as a title says it."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return {float("inf"): "infinity", float("-inf"): "-infinity"}.get(value, repr(value))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def _argument(tag: str) -> str:
    """What an argument's tag `NAME=WORD` says, after `with`; empty for what says nothing."""
    name, separator, word = tag.partition("=")
    if not separator or word in _SILENT or not name.isidentifier():
        return ""
    positional = re.fullmatch(r"arg\d+", name) is not None
    if word == "symbolic":
        return "a symbolic size"
    if word in _ARGUMENT:
        said = _ARGUMENT[word].format("argument" if positional else name)
        return said.partition(" ")[2] if name.endswith("s") and not positional else said  # `negative shifts`
    value = "0" if word == "zero" else word
    return f"an argument of {value}" if positional else f"{name}={value}"


def cause_of(entry: Entry) -> str:
    """The system's own words for why it failed or died, in one line; empty where it left none."""
    verdict = entry.verdict
    if verdict is None:
        return ""
    if verdict.kind in ERROR_KINDS and entry.observed.message:
        return scrub_diagnostics(one_line(entry.observed.message, 300))
    # `TARGET: what happened in stage S at NODE: its words`
    said = one_line(verdict.message, 500).removeprefix(f"{verdict.target}: ")
    return scrub_diagnostics(said.partition(": ")[2])[:300].strip()
