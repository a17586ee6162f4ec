"""The entry point of the command line: it runs a command, prints readable errors and exits with the
command's status.

`app` contains the commands; heavy modules are imported only when needed.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

from switchmark.cli.output import OutputLost, ReaderGone, give_up_output, open_streams
from switchmark.errors import Exit, Interrupted, SetupFailed, SwitchmarkError, UsageError
from switchmark.hosts.signals import check_interrupted, interruptible


def main() -> NoReturn:
    """Run the command in `sys.argv` and exit with its status."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        open_streams()
        with interruptible():
            status = _run_to_its_end(arguments)
    except (SwitchmarkError, Interrupted) as error:
        status = _explain(error, error.exit_code, debug)
    except KeyboardInterrupt as error:
        status = _explain(error, Exit.INTERRUPTED, debug)
    except ReaderGone:
        give_up_output()
        status = Exit.FAILED
    except OutputLost as error:
        give_up_output()
        status = _explain(error, error.exit_code, debug)
    except Exception as error:  # noqa: BLE001 (a bug gets a message, not a traceback)
        expected = _of_surroundings(error)
        status = (
            _explain(expected, expected.exit_code, debug) if expected else _confess(error, debug)
        )
    try:
        sys.stdout.flush()
    except (OSError, ReaderGone, AttributeError):  # stdout is full, or was never open
        give_up_output()
    sys.exit(status)


def _run_to_its_end(arguments: list[str]) -> int:
    """Run a command. Errors of libraries that stem from an interrupt or a deleted working directory
    are replaced by the real cause."""
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except Exception as error:
        # Errors that a command itself reports already name the cause.
        if isinstance(error, UsageError) or not isinstance(error, SwitchmarkError):
            check_interrupted(error)
            if not _has_folder():
                raise _LOST from error
        raise
    return status


def _run(arguments: list[str]) -> int:
    # pydantic's search for plug-ins reads every installed distribution: 20 ms at start-up.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import click

    from switchmark.cli.app import app

    try:
        argv = arguments or ["--help"]
        return app(argv, prog_name="switchmark", standalone_mode=False) or 0
    except click.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context else "switchmark"
        print(f"error: {error.format_message()}", file=sys.stderr)
        print(f"\nhint: {command} --help", file=sys.stderr)
        return Exit.USAGE


_LOST = UsageError(
    "the folder that this was started in was removed", hint="cd to one that is there, and repeat it"
)

_USED_UP = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""The error numbers of an OSError for a full disk, an exhausted limit of the process, or lack of
memory."""


def _of_surroundings(error: Exception) -> SwitchmarkError | None:
    """Return the error for a cause in the environment or in a file name; None for any other
    cause."""
    if isinstance(error, MemoryError):
        return SetupFailed("there is not enough memory", hint="ulimit -a")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(f"no file can have such a name: {str(error.filename)[:60]}...")
    if isinstance(error, OSError) and error.errno in _USED_UP:
        return SetupFailed(f"a limit of this host or shell is reached: {error}", hint="ulimit -a")
    return None


def _has_folder() -> bool:
    """Return whether the working directory still exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _explain(error: BaseException, status: int, debug: bool) -> int:
    if debug:
        sys.excepthook(type(error), error, error.__traceback__)
    message = str(error) or "interrupted"
    is_interrupt = isinstance(error, Interrupted | KeyboardInterrupt)
    print(message if is_interrupt else f"error: {message}", file=sys.stderr)
    return status


def _confess(error: Exception, debug: bool) -> int:
    """Report a bug, and save the traceback for a bug report."""
    import tempfile
    import traceback

    if debug:
        traceback.print_exception(error)
    details = f"arguments: {sys.argv[1:]}\n{''.join(traceback.format_exception(error))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="switchmark-bug-",
            suffix=".log",
            delete=False,
            errors="backslashreplace",
            encoding="utf-8",
        ) as log:
            log.write(details)
        note = f"the traceback is in {log.name}"
    except OSError:
        print(details, file=sys.stderr)
        note = "the traceback stands above, as no file could be written"
    print(
        f"error: a bug in switchmark: {type(error).__name__}: {error}\n"
        f"  {note}\n\n"
        "hint: report it with that traceback; 'switchmark clean' undoes what the run left",
        file=sys.stderr,
    )
    return Exit.BUG
