"""Runs a command of switchmark in a separate process, for Python programs such as notebooks:
signals and the user namespace of a run belong to a whole process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress


def run_command(arguments: Sequence[str]) -> tuple[int, str]:
    """Run `switchmark ARGUMENTS...` to its end, and return its exit code and what it wrote to
    stderr. An interruption is passed on, so that the command undoes what it did before it ends."""
    with subprocess.Popen(
        (sys.executable, "-m", "switchmark", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        errors="replace",
        encoding="utf-8",
    ) as process:
        try:
            _, said = process.communicate()
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    return process.returncode, said
