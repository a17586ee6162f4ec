"""The command line leads from arguments to an exit status, and shows every error as a person reads
it.

The commands themselves are in `app`; nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import NoReturn

from switchmark.errors import Exit, Interrupted, SwitchmarkError, UsageError

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command of `sys.argv` and end with its exit status."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without bars is no bug
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except (SwitchmarkError, Interrupted) as error:
        status = _explain(error, error.exit_code, debug)
    except KeyboardInterrupt as error:
        status = _explain(error, Exit.INTERRUPTED, debug)
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing may be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = Exit.FAILED
    except FileNotFoundError as error:
        status = _confess(error, debug) if _has_folder() else _explain(_LOST, Exit.USAGE, debug)
    except Exception as error:  # noqa: BLE001 (a bug is told as one, not as a traceback)
        status = _confess(error, debug)
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    # Looking for plug-ins of pydantic reads every installed distribution: 20 ms of a start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import typer

    from switchmark.cli.app import app
    from switchmark.cli.completion import enable_completion

    # Errors of the command line are typer's own class, wherever this version of it is kept.
    command_line_error = typer.BadParameter.__mro__[2]
    enable_completion()
    try:
        asked = arguments or ["--help"]
        return app(asked, prog_name="switchmark", standalone_mode=False) or 0
    except typer.Abort:
        return Exit.INTERRUPTED
    except Exception as error:
        if not isinstance(error, command_line_error):
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "switchmark"
        print(f"error: {error.format_message()}", file=sys.stderr)  # type: ignore[attr-defined]
        print(f"\nhint: {command} --help", file=sys.stderr)
        return Exit.USAGE


_LOST = UsageError(
    "the folder that this was started in was removed", hint="cd to one that is there, and repeat it"
)


def _has_folder() -> bool:
    """Say whether the working directory is still there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _explain(error: BaseException, status: int, debug: bool) -> int:
    if debug:
        sys.excepthook(type(error), error, error.__traceback__)
    print(f"error: {str(error) or 'interrupted'}", file=sys.stderr)
    return status


def _confess(error: Exception, debug: bool) -> int:
    """Say that this is a bug, and keep the traceback where it can be sent from."""
    import tempfile
    import traceback

    if debug:
        traceback.print_exception(error)
    with tempfile.NamedTemporaryFile(
        "w", prefix="switchmark-bug-", suffix=".log", delete=False
    ) as log:
        log.write(f"arguments: {sys.argv[1:]}\n")
        traceback.print_exception(error, file=log)
    print(
        f"error: a bug in switchmark: {type(error).__name__}: {error}\n"
        f"  the traceback is in {log.name}\n\n"
        "hint: report it with that file; 'switchmark clean' undoes what the run left",
        file=sys.stderr,
    )
    return Exit.BUG
