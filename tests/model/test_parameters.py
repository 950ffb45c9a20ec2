from __future__ import annotations

import inspect

import pytest
import torch

from harness.model.parameters import named, needs, positional, table
from harness.triage.issues import KnownIssue


def schemas(operator: str) -> list[list[str]]:
    """The positional parameters of every functional overload."""
    last = operator.split(".")[-1]
    found = []
    for name in (operator.replace(".", "_"), last, f"linalg_{last}", f"special_{last}"):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            schema = getattr(packet, overload)._schema
            if "Dimname" not in str(schema) and not any(each.is_out for each in schema.arguments):
                found.append(["input" if each.name == "self" else each.name for each in schema.arguments if not each.kwarg_only])
    return found


@pytest.mark.parametrize("operator", table())
def test_parameters_are_called_as_torch_calls_them(operator: str) -> None:
    functional = getattr(torch.nn.functional, operator, None)
    names = table()[operator]
    try:
        known = list(inspect.signature(getattr(torch.nn.functional, f"{operator}_with_indices", functional)).parameters)
    except (TypeError, ValueError):
        known = []
    rows = schemas(operator)
    for position, name in enumerate(names):
        told = (known and position < len(known) and known[position] == name) or any(
            position < len(row) and row[position] == name for row in rows
        )
        assert name == "_" or told, f"{operator}: {position} {name}"


def test_features_by_name_and_by_place() -> None:
    assert named("arg1=negative", "roll") == "shifts=negative"
    assert positional("shifts=negative", "roll") == "arg1=negative"
    assert positional(named("arg2=zero", "topk"), "topk") == "arg2=zero"
    for feature in ("arg1=int", "arg9=int", "rank:1", "dim=negative", "empty"):
        assert named(feature, "nobody.knows") == feature
    assert named("arg9=int", "roll") == "arg9=int"
    assert needs(("arg1=int", "dtype:int64", "mixed-dtypes"), "roll") == ("shifts=int", "dtype:int64")
    assert needs(("mixed-dtypes",), "roll") == ("mixed-dtypes",)


def test_a_known_issue_may_name_the_parameter() -> None:
    issue = KnownIssue("x", "https://example.org", ("t:*",), operator="roll", features=frozenset({"shifts=negative"}))
    assert issue.holds_at("t:a", "value", "roll", frozenset({"arg1=negative", "rank:1"}))
    assert issue.holds_at("t:a", "value", "roll", frozenset({"shifts=negative"}))
    assert not issue.holds_at("t:a", "value", "roll", frozenset({"arg2=negative"}))
