"""The folders for sockets of cables between virtual machines, named by the process that made
them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from switchmark.hosts.processes import start_time

_FOLDERS = "sm-ssh-"


def new_folder() -> Path:
    """Make a folder for the sockets of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))


def sweep() -> None:
    """Remove socket folders of dead processes."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        pid = folder.name.removeprefix(_FOLDERS).partition("-")[0]
        if pid.isdecimal() and start_time(int(pid)) is None:
            shutil.rmtree(folder, ignore_errors=True)
