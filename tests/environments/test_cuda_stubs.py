from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments import cuda_stubs
from harness.environments.cuda_stubs import build, find_compiler, symbols
from harness.errors import TargetUnavailable
from tests.environments import fakes


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_compiler() is None:
        pytest.skip(str(cuda_stubs.NO_COMPILER))
    folder = tmp_path_factory.mktemp("stubs")
    build(folder, tuple(symbols()))
    return folder


def test_ninety_symbols_in_six_libraries() -> None:
    assert len(symbols()) == 6
    assert sum(len(set(names)) for names in symbols().values()) == 90


def test_every_symbol_is_there_under_the_version_that_oneflow_asks_for(stubs: Path) -> None:
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype, dlvsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    for library, names in symbols().items():
        handle = ctypes.CDLL(str(stubs / library))._handle
        assert all(dlvsym(handle, name.encode(), library.encode()) for name in names)
        assert not dlvsym(handle, b"unreachable", library.encode())


def test_they_are_small_and_nothing_else_is_left_beside_them(stubs: Path) -> None:
    assert sorted(path.name for path in stubs.iterdir()) == sorted(symbols())
    assert sum(path.stat().st_size for path in stubs.iterdir()) < 120_000


def test_the_loader_finds_them_by_name(stubs: Path) -> None:
    code = "import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *symbols()], env={"LD_LIBRARY_PATH": str(stubs)}, check=True)


@pytest.mark.parametrize(("library", "name"), [("libcublas.so.11", "cublasGetVersion_v2"), ("libcudnn_ops_infer.so.8", "cudnnGetProperty")])
def test_a_question_for_the_version_is_answered_with_zero(stubs: Path, library: str, name: str) -> None:
    answer = ctypes.c_int(77)
    assert ctypes.CDLL(str(stubs / library))[name](None, ctypes.byref(answer)) == 0
    assert answer.value == 0


def test_any_other_call_aborts_with_the_name_of_the_symbol(stubs: Path) -> None:
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).cublasCreate_v2(None)"
    process = subprocess.run([sys.executable, "-c", code, str(stubs / "libcublas.so.11")], capture_output=True, text=True)
    assert process.returncode == -signal.SIGABRT
    assert process.stderr == "fxdiff: CUDA stub called: cublasCreate_v2\n"


def test_only_what_the_interpreter_cannot_load_is_absent(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_stubs, "symbols", lambda: {"libc.so.6": ("puts",), "libno_such_library.so.1": ("nothing",)})
    assert cuda_stubs.absent(sys.executable) == ("libno_such_library.so.1",)
    monkeypatch.undo()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))  # may be another one when the environment is used
    assert set(cuda_stubs.absent(sys.executable)) <= set(symbols())


def test_where_probing_them_kills_the_process_all_are_absent(tmp_path: Path) -> None:
    assert cuda_stubs.absent(str(fakes.script(tmp_path / "python", "kill -SEGV $$"))) == tuple(symbols())


def test_nothing_absent_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    build(tmp_path / "stubs", ())
    assert not (tmp_path / "stubs").exists()


def test_no_compiler_is_told_with_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(TargetUnavailable, match=r"no C compiler.*To mend it: install gcc or clang"):
        build(tmp_path / "stubs", tuple(symbols()))


def test_a_compiler_that_fails_is_told_with_its_message(tmp_path: Path) -> None:
    broken = fakes.script(tmp_path / "cc", "echo 'cannot find crti.o' >&2; exit 1")
    with pytest.raises(TargetUnavailable, match=r"cannot build libcublas.so.11: cannot find crti.o"):
        build(tmp_path / "stubs", ("libcublas.so.11",), compiler=(str(broken),))


def test_cc_names_the_compiler_with_its_flags(tmp_path: Path) -> None:
    mine = fakes.script(tmp_path / "mycc", "true")
    assert find_compiler({"CC": "mycc -m64", "PATH": str(tmp_path)}) == (str(mine), "-m64")
    assert find_compiler({"PATH": str(tmp_path)}) is None
    clang = fakes.script(tmp_path / "clang", "true")
    assert find_compiler({"PATH": str(tmp_path)}) == (str(clang),)
    assert find_compiler({"CC": "absent", "PATH": str(tmp_path)}) == (str(clang),)
