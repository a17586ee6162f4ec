"""The command line leads from arguments to an exit status, and shows every error as a person reads
it.

The commands themselves are in `app`; nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

from switchmark.cli.output import OutputLost, give_up_output, open_streams
from switchmark.errors import Exit, Interrupted, SetupFailed, SwitchmarkError, UsageError
from switchmark.hosts.signals import check_interrupted, interruptible


def main() -> NoReturn:
    """Run the command of `sys.argv` and end with its exit status."""
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
    except BrokenPipeError:
        give_up_output()  # whoever read it has seen enough
        status = Exit.FAILED
    except OutputLost as error:
        give_up_output()
        status = _explain(error, error.exit_code, debug)
    except Exception as error:  # noqa: BLE001 (a bug is told as one, not as a traceback)
        known = _of_surroundings(error)
        status = _explain(known, known.exit_code, debug) if known else _confess(error, debug)
    try:
        sys.stdout.flush()
    except (OSError, AttributeError):  # it takes no more, or could not even be opened
        give_up_output()
    sys.exit(status)


def _run_to_its_end(arguments: list[str]) -> int:
    """Run a command. A library that was interrupted, or that misses the working directory, may say
    so in words of its own."""
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except Exception as error:
        # What a command has found out by itself needs no other reason.
        if isinstance(error, UsageError) or not isinstance(error, SwitchmarkError):
            check_interrupted(error)
            if not _has_folder():
                raise _LOST from error
        raise
    return status


def _run(arguments: list[str]) -> int:
    # Looking for plug-ins of pydantic reads every installed distribution: 20 ms of a start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import click

    from switchmark.cli.app import app

    try:
        asked = arguments or ["--help"]
        return app(asked, prog_name="switchmark", standalone_mode=False) or 0
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
"""What an OSError says where a disk, a limit of this process or the memory is used up."""


def _of_surroundings(error: Exception) -> SwitchmarkError | None:
    """Return what an unexpected error says of where the command runs, or of a name; None where
    neither is a reason for it."""
    if isinstance(error, MemoryError):
        return SetupFailed("there is not enough memory", hint="ulimit -a")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(f"no file can have such a name: {str(error.filename)[:60]}...")
    if isinstance(error, OSError) and error.errno in _USED_UP:
        return SetupFailed(f"a limit of this host or shell is reached: {error}", hint="ulimit -a")
    return None


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
    said = str(error) or "interrupted"
    wanted = isinstance(error, Interrupted | KeyboardInterrupt)
    print(said if wanted else f"error: {said}", file=sys.stderr)
    return status


def _confess(error: Exception, debug: bool) -> int:
    """Say that this is a bug, and keep the traceback where it can be sent from."""
    import tempfile
    import traceback

    if debug:
        traceback.print_exception(error)
    told = f"arguments: {sys.argv[1:]}\n{''.join(traceback.format_exception(error))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="switchmark-bug-", suffix=".log", delete=False, errors="backslashreplace"
        ) as log:
            log.write(told)
        kept = f"the traceback is in {log.name}"
    except OSError:
        print(told, file=sys.stderr)
        kept = "the traceback stands above, as no file could be written"
    print(
        f"error: a bug in switchmark: {type(error).__name__}: {error}\n"
        f"  {kept}\n\n"
        "hint: report it with that traceback; 'switchmark clean' undoes what the run left",
        file=sys.stderr,
    )
    return Exit.BUG
