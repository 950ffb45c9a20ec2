"""The `fxdiff` command: dispatches to verbs, and turns errors into one clear line and the right exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.errors import FormatError, FxdiffError, TargetUnavailable, UnknownName, UsageError
from harness.printable import PrintableStream

_VERBS = {
    "fuzz": ("harness.cli.fuzz", "fuzz_command", "Draw cases, run them on every target, and keep what disagrees."),
    "check": ("harness.cli.check", "check_command", "Run your own modules on every target and say where they disagree."),
    "replay": ("harness.cli.replay", "replay_command", "Run entries of a corpus, findings or case files again."),
    "show": ("harness.cli.show", "show_command", "Explain one finding: what disagreed, where, and how to run it."),
    "pipeline": ("harness.cli.pipeline", "pipeline_command", "Follow one program through torch-mlir, pass by pass."),
    "minimize": ("harness.cli.minimize", "minimize_command", "Shrink a finding further, or make findings of a case file."),
    "export": ("harness.cli.export", "export_command", "Write a finding as a script, an issue, or a test."),
    "profile": ("harness.cli.profile", "profile_command", "Say how long each node of a program takes in OneFlow."),
    "corpus": ("harness.cli.corpus", "corpus_command", "Look after the entries of a corpus."),
    "doctor": ("harness.cli.doctor", "doctor_command", "Say what is installed, what is missing, and how to mend it."),
}


_GIVEN = "fxdiff.arguments"


class _Lazy(click.Group):
    """A group that imports a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UnknownName as error:
            from harness.cli.configured import place_of

            place = place_of(ctx.obj, error.name) if error.name not in ctx.meta[_GIVEN] else ""
            if not place:
                raise
            raise FormatError(str(error), where=place) from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, attribute, _ = _VERBS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _VERBS, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_VERBS)}"
            raise click.UsageError(f"unknown command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _VERBS.items()])


# What a disk says that is full or may not be written to, or a terminal that is closed: no fault of ours.
_MACHINES_FAULT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


def _version() -> str:
    try:
        return version("fxdiff")
    except PackageNotFoundError:
        return "unknown (not installed)"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, epilog=epilog())
@click.version_option(_version(), prog_name="fxdiff")
@click.option(
    "--config", "config", type=click.Path(), envvar="FXDIFF_CONFIG", help="Configuration to use instead of the nearest one upward."
)
@click.pass_context
def cli(ctx: click.Context, config: str | None) -> None:
    """Find, minimize and keep disagreements between eager PyTorch and its compiler backends.

    Options not given are taken from fxdiff.toml or [tool.fxdiff] in pyproject.toml, the nearest upward.
    """
    from harness.cli.configured import load_configuration, option_defaults

    ctx.obj = load_configuration(Path(config) if config is not None else None)
    ctx.default_map = option_defaults(ctx.obj)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code; an error is one message on stderr, never a traceback."""
    _open_standard_streams()
    try:
        result: Any = cli.main(arguments, standalone_mode=False)
        code = int(result) if isinstance(result, int) else 0
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        code = ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        code = ExitCode.INTERRUPTED
    except TargetUnavailable as error:
        _say(f"fxdiff: {error}")
        code = ExitCode.TARGET_UNAVAILABLE
    except UsageError as error:
        _say(f"fxdiff: {error}")
        code = ExitCode.USAGE
    except FxdiffError as error:
        _say(f"fxdiff: internal error: {error}")
        code = ExitCode.INTERNAL
    except (BrokenPipeError, SystemExit):  # click and rich make the one into the other, with the code of a new finding
        # The reader has gone, as with `| head`: there is nobody left to tell.
        _drop(sys.stdout)
        code = ExitCode.NOTHING_NEW
    except OSError as error:
        if error.errno not in _MACHINES_FAULT:
            code = _internal(error)
        else:
            place = f"{error.filename}: " if error.filename is not None else ""
            _say(f"fxdiff: {place}{error.strerror}; make room or allow it, or have the output go to another place")
            _drop(sys.stdout)
            code = ExitCode.USAGE
    except Exception as error:
        code = _internal(error)
    try:
        sys.stderr.flush()
    except OSError:
        # A full disk shows at a later flush than the write's own where stderr is buffered.
        _drop(sys.stderr)
    sys.exit(int(code))


def _open_standard_streams() -> None:
    """Have descriptors 0 to 2 open, as with `>&-` they are not: what is opened next would take their places.

    What a terminal's encoding lacks is written as an escape, and so is what would command the terminal.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - for as long as the process lives
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, PrintableStream(stream))


def _drop(stream: TextIO) -> None:
    """Let what is still to be printed go nowhere, so that the interpreter does not trip over it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(text: str) -> None:
    """Print to stderr, which may be full or gone; the exit code still tells."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def _internal(error: Exception) -> ExitCode:
    _say(f"fxdiff: internal error: {type(error).__name__}: {error}")
    _say(f"the traceback is in {_keep_traceback()}; please report it with the command that you ran")
    return ExitCode.INTERNAL


def _keep_traceback() -> str:
    """Where the current exception's traceback was put: our user did not ask to read it."""
    with tempfile.NamedTemporaryFile("w", prefix="fxdiff-traceback-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name


if __name__ == "__main__":
    main()
