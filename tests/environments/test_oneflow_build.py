from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.environments import cuda_stubs, oneflow_build
from harness.environments.oneflow_build import build_oneflow
from harness.environments.oneflow_env import oneflow_python
from harness.errors import TargetUnavailable
from tests.environments import fakes

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(cuda_stubs.find_compiler() is None, reason=str(cuda_stubs.NO_COMPILER)),
    pytest.mark.skipif(oneflow_build.unsupported_platform() is not None, reason="OneFlow has no wheel for this platform"),
]


class Bench:
    """A machine with its own home, cache and scripted Python 3.10."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        self.environ = {
            **os.environ,
            "FXDIFF_CACHE": str(root / "cache"),
            "HOME": str(root / "home"),
            "FXDIFF_PYTHON310": str(root / "python3.10"),
        }

    def build(self, *, rebuild: bool = False) -> oneflow_build.OneFlowEnvironment:
        return build_oneflow(self.said.append, rebuild=rebuild, environ=self.environ)

    def python(self, *, pip: str = "", answer: str | None = None) -> None:
        fakes.builder(self.root / "python3.10", pip=pip, answer=answer)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    result = Bench(tmp_path)
    result.python()
    return result


def test_it_builds_verifies_and_is_then_found(bench: Bench) -> None:
    environment = bench.build()
    assert oneflow_python(bench.environ) == environment
    assert environment.root.is_relative_to(bench.root / "cache")
    assert environment.stubs is not None
    assert sorted(path.name for path in environment.stubs.iterdir()) == sorted(cuda_stubs.absent(sys.executable))
    assert (environment.root / "seen-library-path").read_text().strip().endswith(str(environment.stubs))
    log = (environment.root / "build.log").read_text()
    assert "installed -m pip install" in log
    assert "--no-deps" in log  # or 1.8 GB of CUDA wheels come along
    assert bench.said[-1] == "  verified: it imports and computes"


def test_a_second_build_does_nothing(bench: Bench) -> None:
    first = bench.build()
    bench.said.clear()
    shutil.rmtree(bench.root / "home", ignore_errors=True)
    (bench.root / "python3.10").unlink()
    assert bench.build() == first
    assert bench.said == []


def test_rebuild_builds_anew(bench: Bench) -> None:
    stray = bench.build().root / "stray"
    stray.touch()
    bench.build(rebuild=True)
    assert not stray.exists()


def test_a_failed_installation_ends_with_the_end_of_its_log_and_leaves_nothing_that_counts_as_built(bench: Bench) -> None:
    bench.python(pip="echo 'ERROR: no space left' >&2; exit 1")
    with pytest.raises(
        TargetUnavailable, match=r"(?s)installing its packages failed with exit code 1.*build\.log.*\| ERROR: no space left"
    ):
        bench.build()
    with pytest.raises(TargetUnavailable, match="not built"):
        oneflow_python(bench.environ)
    bench.python()
    assert bench.build() == oneflow_python(bench.environ)


def test_what_an_interrupted_build_left_is_removed_first(bench: Bench) -> None:
    root = bench.build().root
    (root / "complete.json").unlink()
    (root / "stray").touch()
    bench.build()
    assert not (root / "stray").exists()


@pytest.mark.parametrize("answer", ['{"relu": [-1.0, 2.0], "matmul": [[3.0], [3.0]]}', "{}"])
def test_one_that_computes_wrongly_is_not_taken(bench: Bench, answer: str) -> None:
    bench.python(answer=answer)
    with pytest.raises(TargetUnavailable, match="it computes"):
        bench.build()


def test_one_that_does_not_answer_is_not_taken(bench: Bench) -> None:
    bench.python(answer="")
    with pytest.raises(TargetUnavailable, match="it does not answer"):
        bench.build()


def test_a_package_without_its_library_is_not_taken(bench: Bench) -> None:
    bench.python(pip="echo empty; exit 0")
    with pytest.raises(TargetUnavailable, match="no _oneflow_internal library"):
        bench.build()


def test_no_python310_names_what_was_tried_and_how_to_mend_it(bench: Bench) -> None:
    fakes.refusing_shim(bench.root / "python3.10")
    with pytest.raises(TargetUnavailable, match=r"(?s)no usable Python 3.10 found: tried\n.*pyenv: python3.10.*FXDIFF_PYTHON310="):
        bench.build()


def test_no_compiler_is_told_before_anything_is_fetched(bench: Bench, tmp_path: Path) -> None:
    for tool in ("dirname", "mkdir", "cp", "touch"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    bench.environ["PATH"] = str(tmp_path / "bin")
    bench.environ.pop("CC", None)
    with pytest.raises(TargetUnavailable, match="no C compiler"):
        bench.build()
    assert not list((bench.root / "cache").glob("oneflow-*/"))


def test_too_little_space_is_told_before_anything_is_fetched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    with pytest.raises(TargetUnavailable, match=r"1\.0 GB free in .*FXDIFF_CACHE=FOLDER"):
        bench.build()


def test_a_cache_that_cannot_be_written_is_told(bench: Bench) -> None:
    (bench.root / "cache").write_text("a file where the folder should be")
    with pytest.raises(TargetUnavailable, match=r"cannot be kept in .*cache"):
        bench.build()


def test_another_platform_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(TargetUnavailable, match=r"OneFlow has no wheel for .* on aarch64"):
        bench.build()


def test_pip_is_not_sent_elsewhere_by_the_users_variables() -> None:
    kept = {"PIP_INDEX_URL": "x", "PATH": "y"}
    sent = {"PIP_USER": "1", "PIP_TARGET": "/t", "PYTHONPATH": "/p", "VIRTUAL_ENV": "/v"}
    assert oneflow_build.installer_environment(kept | sent) == kept


def _start(bench: Bench) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness.environments.build", "--require"]
    return subprocess.Popen(command, cwd=ROOT, env=bench.environ, stderr=subprocess.PIPE, text=True)


def test_of_two_builders_at_once_one_builds_and_the_other_waits(bench: Bench) -> None:
    started = bench.root / "started"
    bench.python(pip=f"echo one >> {started}; sleep 0.6")
    first = _start(bench)
    while not started.exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = _start(bench)
    said = [process.communicate(timeout=60)[1] for process in (first, second)]
    assert "waiting for it" in said[1]
    assert all(text.splitlines()[-1].startswith("OneFlow 0.9.0: ready") or "torch" in text for text in said)
    assert started.read_text().split() == ["one"]


def test_the_command_warns_and_succeeds_where_oneflow_cannot_be_built_unless_it_is_required(bench: Bench) -> None:
    (bench.root / "python3.10").unlink()
    command = [sys.executable, "-m", "harness.environments.build"]
    lenient = subprocess.run(command, cwd=ROOT, env=bench.environ, capture_output=True, text=True)
    strict = subprocess.run([*command, "--require"], cwd=ROOT, env=bench.environ, capture_output=True, text=True)
    assert (lenient.returncode, strict.returncode) == (0, 4)
    assert "warning: no usable Python 3.10 found" in lenient.stderr
    assert "To mend it: install one" in lenient.stderr
    assert "The other targets work without it" in lenient.stderr
    assert "Traceback" not in lenient.stderr + strict.stderr


def test_an_interrupted_command_leaves_nothing_that_counts_as_built(bench: Bench) -> None:
    started = bench.root / "started"
    bench.python(pip=f"touch {started}; exec sleep 60")
    process = _start(bench)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(2)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "interrupted" in said
    with pytest.raises(TargetUnavailable, match="not built"):
        oneflow_python(bench.environ)


def test_a_pip_that_outlives_its_killed_builder_is_waited_for(bench: Bench) -> None:
    started, ended = bench.root / "started", bench.root / "ended"
    bench.python(pip=f"touch {started}; sleep 0.5; touch {ended}")
    first = _start(bench)
    while not started.exists():
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert first.stderr is not None
    first.stderr.close()
    assert not ended.exists()
    bench.python(pip=f"[ -e {ended} ] || exit 5")
    bench.build()
    assert bench.said[0] == "another process is building OneFlow's environment; waiting for it"
