"""This plug-in puts tests into lanes. A lane is one worker of pytest-xdist in namespaces
(`lane.sh`), so that two tests at a time do not see each other, nor what else the machine does.

As root, tests of `netns` and `root` always run in a lane: without `-n` the whole of pytest does.
Elsewhere lanes are plain processes.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("lane.sh")
IN_A_LANE = "SWITCHMARK_TESTS_LANE"
"""The variable of a process in a lane."""

NEED_A_LANE = ("netns", "root")
"""Folders whose tests change namespaces, links and processes of the host."""


def _need_lanes(config: pytest.Config) -> bool:
    tests = Path(__file__).parent
    paths = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    of_lanes = [tests / name for name in NEED_A_LANE]
    asks = any(
        path.is_relative_to(folder) or folder.is_relative_to(path)
        for path in paths
        for folder in of_lanes
    )
    # Root may not be allowed to make namespaces, as in a container.
    return asks and os.geteuid() == 0 and not subprocess.run([SCRIPT, "true"]).returncode


@pytest.hookimpl
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Start workers in lanes; without workers, start this command again in a lane."""
    if IN_A_LANE in os.environ:
        config.option.basetemp = None  # of the lane: xdist names a folder of the host
        return
    if config.option.collectonly or not _need_lanes(config):
        return
    environment = {**os.environ, IN_A_LANE: "1"}
    if config.getoption("tx", None):
        python = shlex.join(["env", f"{IN_A_LANE}=1", str(SCRIPT), sys.executable])
        config.option.tx = [f"popen//python={python}" for _ in config.option.tx]
        return
    sys.stdout.flush()
    os.execve(SCRIPT, [str(SCRIPT), sys.executable, *sys.orig_argv[1:]], environment)


FOLDER = Path(__file__).parents[1] / "build/lanes"
"""What lanes share."""

_KEPT = FOLDER / "kept"


@contextmanager
def kept(run: str) -> Iterator[None]:
    """Tell other lanes that the control groups of a run are there between tests, too."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    name = _KEPT / run
    name.touch()
    try:
        yield
    finally:
        name.unlink(missing_ok=True)


def runs_kept() -> list[str]:
    """Return the runs of all lanes that are there between tests."""
    return [name.name for name in _KEPT.glob("sm*")]


class Turns:
    """The turns of lanes: tests run at the same time, except a test that runs alone.

    Two files are locked. A test that waits for its turn holds the first, so that a test that must
    run alone waits only for the tests that run.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._door, self._room = (
            os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600) for name in ("door", "room")
        )
        self._alone = False

    def enter(self, *, alone: bool) -> None:
        """Wait for a turn. A lane that has one to run alone keeps it for its next such test."""
        if self._alone and alone:
            return
        self.leave()
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            self._alone = alone
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)

    def leave(self) -> None:
        self._alone = False
        fcntl.flock(self._room, fcntl.LOCK_UN)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait in a test until the tests of other lanes have ended, and let no other test begin."""
        was_alone = self._alone
        self.enter(alone=True)
        try:
            yield
        finally:
            if not was_alone:
                self.enter(alone=False)
