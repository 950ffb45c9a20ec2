from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workers.progress import NODE_BYTES, PAGE_BYTES, STAGE_BYTES, PageProgress, map_page, new_page, read_page


@pytest.fixture
def page() -> Iterator[mmap.mmap]:
    fd = new_page()
    page = map_page(fd)
    os.close(fd)
    yield page
    page.close()


def test_a_fresh_page_says_nothing(page: mmap.mmap) -> None:
    position = read_page(page)
    assert (position.stage, position.node, position.since) == ("", None, 0.0)


def test_the_page_tells_stage_node_and_when(page: mmap.mmap) -> None:
    before = time.monotonic()
    progress = PageProgress(page)
    progress.stage("lower")
    progress.node("conv2d_3")
    position = read_page(page)
    assert (position.stage, position.node) == ("lower", "conv2d_3")
    assert before <= position.since <= time.monotonic()
    assert position.sequence == 4


def test_a_new_stage_forgets_the_node_and_a_new_node_keeps_the_stage(page: mmap.mmap) -> None:
    progress = PageProgress(page)
    progress.stage("lower")
    progress.node("first")
    progress.stage("run")
    assert read_page(page).node is None
    progress.node("second")
    progress.node("2")
    assert (read_page(page).stage, read_page(page).node) == ("run", "2")


def test_names_that_do_not_fit_are_cut(page: mmap.mmap) -> None:
    progress = PageProgress(page)
    progress.stage("é" * STAGE_BYTES)
    progress.node("n" * 2 * NODE_BYTES)
    position = read_page(page)
    assert position.stage == "é" * (STAGE_BYTES // 2)
    assert position.node == "n" * NODE_BYTES


@given(st.binary(max_size=8 + 8 + STAGE_BYTES + NODE_BYTES))
def test_a_page_that_a_dying_process_scribbled_over_can_be_read(noise: bytes) -> None:
    page = mmap.mmap(-1, PAGE_BYTES)
    page[: len(noise)] = noise
    position = read_page(page)
    position.stage.encode()
    assert position.since >= 0
    page.close()


def test_cpu_seconds_are_added_up_by_stage_and_forgotten_with_the_job(page: mmap.mmap) -> None:
    progress = PageProgress(page)
    progress.begin()
    for stage in ("a", "b", "a"):
        progress.stage(stage)
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
    seconds = dict(progress.finish())
    assert set(seconds) == {"a", "b"}
    assert seconds["a"] >= 0.04
    assert 0.02 <= seconds["b"] < seconds["a"] + 0.02
    progress.begin()
    assert progress.finish() == {}
