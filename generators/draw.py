"""One case from (generator version, profile, seed, index): the only module that uses what Hypothesis keeps private.

Hypothesis's own choice of integers depends on which modules are loaded (it collects their constants) and on its version.
So a provider of ours answers every choice, from a generator seeded by the case's address alone.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import PrimitiveProvider

from generators.cases import Drawn, NothingDrawn, generate
from generators.catalogue import selection
from generators.choices import Choices
from generators.profile import Profile
from harness.errors import UsageError
from harness.model.case import Case, Origin

GENERATOR_VERSION = "1"
MAX_RETRIES = 200

_LOCK = threading.Lock()


class _Seeded(PrimitiveProvider):
    """Uniform choices from a seeded generator."""

    lifetime = "test_case"

    def __init__(self, data: ConjectureData | None, /, *, random: random.Random) -> None:
        super().__init__(data)
        self._uniform = random.random

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self._uniform() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        assert min_value is not None and max_value is not None, "generators draw bounded integers only"
        # 53 bits are plenty for the ranges that occur, all of them below 2**32.
        return min_value + int(self._uniform() * (max_value - min_value + 1))

    def draw_float(self, **kwargs: Any) -> float:
        raise NotImplementedError("generators draw integers only")

    def draw_string(self, *args: Any, **kwargs: Any) -> str:
        raise NotImplementedError("generators draw integers only")

    def draw_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        raise NotImplementedError("generators draw integers only")


def draw_case(profile: Profile, seed: int, index: int) -> tuple[Case, Origin]:
    """The case at `index` of the sequence that this generator version, profile and seed define.

    It depends on nothing else: not on earlier cases, the process, PYTHONHASHSEED or the thread. Raises UnknownName or
    UsageError where the profile names what does not exist, or draws nothing.
    """
    return draw(profile, seed, index).case, Origin(GENERATOR_VERSION, profile.text(), seed, index)


def draw(profile: Profile, seed: int, index: int) -> Drawn:
    """The case of `draw_case` together with what the generator predicted of every tensor in it."""
    selection(profile)
    text = profile.text()
    for retry in range(MAX_RETRIES):
        address = f"{GENERATOR_VERSION}\n{text}\n{seed}\n{index}\n{retry}"
        source = random.Random(int.from_bytes(hashlib.sha256(address.encode()).digest()[:16], "big"))
        with _LOCK:
            data = ConjectureData(random=source, provider=_Seeded, provider_kw={"random": source})
            try:
                return generate(_choices(data.draw_integer), profile)
            except NothingDrawn:
                continue
    raise UsageError(f"profile {text!r} draws no case: its operators and dtypes do not fit together")


def _choices(integer: Callable[..., int]) -> Choices:
    """Choices that ask for what st.integers asks, without its price; unobserved, since nobody looks at them again."""
    return Choices(lambda count: integer(0, count - 1, observe=False))
