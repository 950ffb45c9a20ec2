"""Stand-ins for the CUDA libraries that OneFlow's wheel wants at load, for machines that have none.

Each library is a few kilobytes: every symbol is there, under the version node that OneFlow was linked against. Asking
for a version or a property answers 0, which `nn.Graph` needs; anything else means that a CUDA kernel was reached on a
machine without CUDA, and aborts with its name.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from harness.environments.missing import Missing

_SYMBOLS = Path(__file__).with_name("cuda_symbols.txt")
_COMPILE_SECONDS = 120
_DETECT = "import ctypes, sys\nfor name in sys.argv[1:]:\n    try:\n        ctypes.CDLL(name)\n    except OSError:\n        print(name)\n"

_PRELUDE = """\
#include <stdio.h>
#include <stdlib.h>

static int unreachable(const char *name) {
    fprintf(stderr, "fxdiff: CUDA stub called: %s\\n", name);
    abort();
}
"""
_QUERY = "int {symbol}(void *subject, int *answer) {{ (void)subject; *answer = 0; return 0; }}\n"
_OTHER = 'int {symbol}(void) {{ return unreachable("{symbol}"); }}\n'


@functools.cache
def symbols() -> Mapping[str, tuple[str, ...]]:
    """The symbols that OneFlow takes from each library, by the library's name."""
    result: defaultdict[str, list[str]] = defaultdict(list)
    for line in _SYMBOLS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            library, symbol = line.split()
            result[library].append(symbol)
    return MappingProxyType({library: tuple(names) for library, names in result.items()})


def source(library: str) -> str:
    """The C source of one stub library."""
    lines = [_PRELUDE]
    for symbol in symbols()[library]:
        lines.append((_QUERY if "GetProperty" in symbol or "GetVersion" in symbol else _OTHER).format(symbol=symbol))
    return "\n".join(lines)


def version_script(library: str) -> str:
    """The linker script that puts every symbol under the version node that OneFlow asks for."""
    return f"{library} {{ global: {' '.join(f'{symbol};' for symbol in symbols()[library])} local: *; }};\n"


def absent(python: str) -> tuple[str, ...]:
    """The libraries that `python` cannot load on this machine by the loader's default paths.

    LD_LIBRARY_PATH is left out, since it may be another one when the stubs are used.
    """
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    process = subprocess.run([python, "-I", "-c", _DETECT, *symbols()], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if process.returncode != 0:
        return tuple(symbols())  # loading a real one killed the process: a library that cannot be used is absent
    return tuple(process.stdout.split())


def find_compiler(environ: Mapping[str, str] | None = None) -> tuple[str, ...] | None:
    """The C compiler's command: `CC`, cc, gcc or clang, whichever is there first."""
    env = os.environ if environ is None else environ
    for command in (shlex.split(env.get("CC", "")), ["cc"], ["gcc"], ["clang"]):
        program = shutil.which(command[0], path=env.get("PATH")) if command else None
        if program is not None:
            return (program, *command[1:])
    return None


NO_COMPILER = Missing(
    "no C compiler (cc, gcc or clang)",
    "Small stubs must be compiled in place of the CUDA libraries that OneFlow's wheel wants at load.",
    "install gcc or clang (on Debian or Ubuntu: apt-get install gcc libc6-dev), or name one in CC, then: "
    "python -m harness.environments.build",
)


def build(folder: Path, libraries: tuple[str, ...], *, compiler: tuple[str, ...] | None = None) -> None:
    """Compile stubs of `libraries` into `folder`.

    Raises TargetUnavailable where there is no compiler or it fails.
    """
    if not libraries:
        return
    command = compiler or find_compiler()
    if command is None:
        raise NO_COMPILER.unavailable()
    folder.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        code, script = folder / f"{library}.c", folder / f"{library}.map"
        code.write_text(source(library), encoding="utf-8")
        script.write_text(version_script(library), encoding="utf-8")
        _compile(command, code, script, folder / library)
        code.unlink()
        script.unlink()


def _compile(compiler: tuple[str, ...], code: Path, script: Path, output: Path) -> None:
    flags = ["-shared", "-fPIC", "-O1", "-s", f"-Wl,-soname,{output.name}", f"-Wl,--version-script,{script}"]
    try:
        process = subprocess.run(
            [*compiler, *flags, "-o", str(output), str(code)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_SECONDS,
        )
        failure = process.stderr.strip() if process.returncode != 0 else None
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure is not None:
        raise Missing(
            f"the C compiler {shlex.join(compiler)} cannot build {output.name}: {failure[-400:]}", NO_COMPILER.why, NO_COMPILER.mend
        ).unavailable()
