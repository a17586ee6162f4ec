"""This module replays each case once for all tests of this folder."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from replay_runs import Case, replay


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a replay starts a process or waits")


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """Return the run folder of the replay of a case, which starts no process and does not wait."""
    folders: dict[str, Path] = {}

    def replayed(case: Case) -> Path:
        if case.name not in folders:
            folder = tmp_path_factory.mktemp("replay")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subprocess, "Popen", _refuse)
                patch.setattr(os, "posix_spawn", _refuse)
                patch.setattr(time, "sleep", _refuse)
                patch.setattr(select, "poll", _refuse)
                patch.setattr(os, "fdatasync", lambda descriptor: None)
                patch.setattr(os, "fsync", lambda descriptor: None)
                folders[case.name] = replay(case, folder)
        return folders[case.name]

    return replayed


@pytest.fixture
def golden(golden: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Compare text with tests/replay/texts/NAME."""
    return lambda name, text: golden(f"../replay/texts/{name}", text)
