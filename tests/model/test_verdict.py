from __future__ import annotations

import itertools

from harness.model.verdict import Kind, same_kind


def test_only_the_two_ways_of_never_ending_are_one_disagreement() -> None:
    alike = {(one, other) for one, other in itertools.product(Kind, Kind) if same_kind(one, other)}
    assert alike == {(kind, kind) for kind in Kind} | {(Kind.TIMEOUT, Kind.OOM), (Kind.OOM, Kind.TIMEOUT)}
