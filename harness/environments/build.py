"""Build everything that fxdiff's targets need: `python -m harness.environments.build`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.environments.availability import installed, missing, other_version
from harness.environments.oneflow_build import build_oneflow
from harness.environments.oneflow_env import oneflow_python, write_launcher
from harness.environments.versions import pins
from harness.errors import FxdiffError, TargetUnavailable

UNAVAILABLE = 4


def say(line: str) -> None:
    """Tell the user what is being done, at once, since it may take minutes."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is not there yet; 0, or 4 where something stays missing and `--require` was given."""
    parser = argparse.ArgumentParser(prog="python -m harness.environments.build", description=__doc__)
    parser.add_argument("--require", action="store_true", help="exit with 4 where a target cannot be made available")
    parser.add_argument("--rebuild", action="store_true", help="build OneFlow's environment anew")
    parser.add_argument("--launcher", action="store_true", help="build nothing; print the command that starts OneFlow's interpreter")
    options = parser.parse_args(arguments)
    if options.launcher:
        print(oneflow_python().launcher)
        return 0
    complete = True
    for zygote in ("torch", "torch-mlir"):
        if (problem := missing(zygote)) is not None:
            complete = False
            say(f"warning: {problem}")
    for distribution in pins("main"):
        version = installed(distribution)
        if version is not None and other_version("main", distribution, version):
            say(f"note: {distribution} {version} is installed; fxdiff's known bugs were recorded with {pins('main')[distribution]}")
    try:
        environment = build_oneflow(say, rebuild=options.rebuild)
    except TargetUnavailable as error:
        complete = False
        say(f"warning: {error}")
    else:
        write_launcher(environment)
        say(f"OneFlow {environment.versions['oneflow']}: ready in {environment.root}")
    if not complete and not options.require:
        say("The other targets work without it; `fxdiff doctor` says what is missing.")
    return UNAVAILABLE if options.require and not complete else 0


def _run() -> int:
    try:
        return main()
    except FxdiffError as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted; the next build starts afresh")
        return 130


if __name__ == "__main__":
    sys.exit(_run())
