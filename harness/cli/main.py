"""The `fxdiff` command: dispatches to verbs, and turns errors into one clear line and the right exit code."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.errors import FxdiffError, TargetUnavailable, UsageError

_VERBS = {
    "fuzz": ("harness.cli.fuzz", "fuzz_command", "Draw cases, run them on every target, and keep what disagrees."),
    "check": ("harness.cli.check", "check_command", "Run your own modules on every target and say where they disagree."),
    "replay": ("harness.cli.replay", "replay_command", "Run entries of a corpus, findings or case files again."),
    "show": ("harness.cli.show", "show_command", "Explain one finding: what disagreed, where, and how to run it."),
    "minimize": ("harness.cli.minimize", "minimize_command", "Shrink a finding further, or make findings of a case file."),
    "export": ("harness.cli.export", "export_command", "Write a finding as a script, an issue, or a test."),
    "corpus": ("harness.cli.corpus", "corpus_command", "Look after the entries of a corpus."),
    "doctor": ("harness.cli.doctor", "doctor_command", "Say what is installed, what is missing, and how to mend it."),
}


class _Lazy(click.Group):
    """A group that imports a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

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
    try:
        result: Any = cli.main(arguments, standalone_mode=False)
        code = int(result) if isinstance(result, int) else 0
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = ExitCode.INTERRUPTED
    except TargetUnavailable as error:
        click.echo(f"fxdiff: {error}", err=True)
        code = ExitCode.TARGET_UNAVAILABLE
    except UsageError as error:
        click.echo(f"fxdiff: {error}", err=True)
        code = ExitCode.USAGE
    except FxdiffError as error:
        click.echo(f"fxdiff: internal error: {error}", err=True)
        code = ExitCode.INTERNAL
    except BrokenPipeError:
        # The reader has gone, as with `| head`: there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.NOTHING_NEW
    except Exception as error:
        click.echo(f"fxdiff: internal error: {type(error).__name__}: {error}", err=True)
        click.echo(f"the traceback is in {_keep_traceback()}; please report it with the command that you ran", err=True)
        code = ExitCode.INTERNAL
    sys.exit(int(code))


def _keep_traceback() -> str:
    """Where the current exception's traceback was put: our user did not ask to read it."""
    with tempfile.NamedTemporaryFile("w", prefix="fxdiff-traceback-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name


if __name__ == "__main__":
    main()
