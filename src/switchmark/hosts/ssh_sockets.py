"""The sockets of connections by ssh are in folders of their own, by the process that made them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from switchmark.hosts.processes import start_time

_FOLDERS = "sm-ssh-"


def new_folder() -> Path:
    """Make a folder for the sockets of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))


def sweep() -> None:
    """Remove the folders of sockets of connections whose process is dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        pid = folder.name.removeprefix(_FOLDERS).partition("-")[0]
        if pid.isdecimal() and start_time(int(pid)) is None:
            shutil.rmtree(folder, ignore_errors=True)


def socket_name(name: str) -> str:
    """Return the name of the socket of a host: short, as the path of a socket must be."""
    return "ssh-" + re.sub(r"[^A-Za-z0-9]", "-", name)[:16]
