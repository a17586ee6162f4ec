"""This module runs the cases that are recorded and replayed."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recorded import RECORDINGS
from replaying import Names, Recording, ReplayedClock, ReplayedHost
from switchmark import clock
from switchmark.campaign.load import from_options
from switchmark.campaign.run import run
from switchmark.campaign.store import RunFolder, read_records
from switchmark.clock import Clock
from switchmark.hosts.base import Host
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import OTHER_PROGRAMS, program_variable
from switchmark.lab.drawing import _prepared
from switchmark.lab.turns import Turns
from switchmark.metrics.family import further_repeats
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.plugins import load_plugins
from switchmark.runs.own_run import OwnRun
from switchmark.switches import TABLE
from switchmark.switches.base import Switch

TESTS = Path(__file__).parent
PLUGINS = TESTS / "plugins"
TRUTH = TESTS.parent / "build/wheel/traffic/truth-switch"
ROOTS = Path("/run/switchmark")
"""The folder of the runs of root."""
QEMU = "/usr/bin/qemu-system-x86_64"

Shows = Callable[[Sequence[Record]], None]
Change = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run that is recorded. `axes` are options of the command line, `options` those of the lab.

    `faults` are the options of the switch `truth`, and `expected` what it claims to do with frames.
    `shows` checks the records by name. `code` changes the code, in a replay as well; `disturb`
    changes what is recorded: it is not there in a replay, nor is the `host`.
    """

    name: str
    axes: Mapping[str, str]
    shows: Shows
    faults: tuple[str, ...] = ()
    expected: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    code: Change = lambda patch: None
    disturb: Change = lambda patch: None
    host: Callable[[], Host] = LocalHost

    def check(self, run: Path) -> None:
        """Check that a run folder reports the injected faults."""
        self.shows(read_records(run))

    @property
    def recording(self) -> Path:
        return RECORDINGS / f"{self.name}.jsonl"

    @property
    def records(self) -> Path:
        return RECORDINGS / f"{self.name}.records.jsonl"


USUAL = {
    "switch": "linux-bridge",
    "engine": "raw-mmsg",
    "rate": "5k",
    "duration": "0.1",
    "warmup": "0.02",
}


# --- how a case is run ------------------------------------------------------------------------


class Silent:
    """This progress says nothing."""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        pass

    def trial(self, result: TrialResult) -> None:
        pass

    def end(self, record: Record) -> None:
        pass


def names_of(folder: Path) -> Names:
    """Return the names of a run in `folder`. LXC names mounts without their first slash."""
    return Names(
        {
            str(folder): "/var/opt/run",
            sys.prefix: "/opt/switchmark",
            sys.prefix[1:]: "opt/switchmark",
            str(TESTS.parent): "/opt/source",
        }
    )


def measured(case: Case, host: Host, its_clock: Clock, folder: Path) -> Path:
    """Run a case on a host; return the run folder."""
    with ExitStack() as stack:
        stack.callback(time.tzset)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        _no_settings_of_the_user(patch, folder)
        patch.syspath_prepend(str(PLUGINS))
        table = load_plugins("switchmark.switches", Switch, TABLE.values())  # type: ignore[type-abstract]
        for name in ("truth", "truth-dpdk"):
            truth = table[name]
            patch.setattr(truth, "program", str(TRUTH), raising=False)
            patch.setattr(truth, "faults", case.faults, raising=False)
            patch.setattr(truth, "expected", case.expected, raising=False)
        stack.enter_context(TABLE.replaced_by(table))
        case.code(patch)
        campaign = from_options({**USUAL, **case.axes}, check)
        options = {"calibrate": "never", "gate": "refuse", **case.options}
        stack.enter_context(clock.replaced_by(its_clock))
        with RunFolder.create(folder, campaign, FACTS, case.name) as run_folder:
            lab = Turns(run_folder.path, hosts=Hosts(OwnRun, {"local": host}), **options)
            run(run_folder, lab, Silent(), further_repeats)
        assert lab.left == ()
    return run_folder.path


FACTS = {
    "kernel": "6.18.44",
    "cpu_model": "a_cpu",
    "cores_usable": 2,
    "virtual": True,
    "versions": {"switchmark": "1", "commit": None, "python": "3", "dpdk": "22.11.4"},
}
"""The facts about the host of all records: what the lab finds does not depend on them."""


def _no_settings_of_the_user(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a run depend on nothing that this user or this machine has."""
    for name in list(os.environ):
        if name.startswith(("SWITCHMARK_", "DOCKER_", "CONTAINERS_", "STORAGE_")):
            patch.delenv(name)
    patch.setenv("TZ", "UTC")
    time.tzset()
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.setenv("SWITCHMARK_HOST_FILE", os.devnull)
    patch.setenv("SWITCHMARK_MACHINE_LOCK", os.devnull)
    for setting, program in OTHER_PROGRAMS.items():
        path = QEMU if setting == "qemu" else f"{sys.prefix}/bin/{program}"
        patch.setenv(program_variable(setting), path)


def _prepared_below(base: Path) -> Callable[..., Any]:
    """Return the function that prepares a path, with the folders of a run named as recorded."""

    def prepared(location: Any, prefix: str, folder: str, can: Any) -> Any:
        return _prepared(location, prefix, folder.replace(str(base), str(ROOTS)), can)

    return prepared


def as_recorded(patch: pytest.MonkeyPatch, base: Path) -> None:
    """Let a replay act as root, whoever runs it, in a separate folder of runs."""
    patch.setattr("switchmark.runs.workspace.default_base", lambda: base)
    patch.setattr("switchmark.lab.drawing._prepared", _prepared_below(base))
    patch.setattr("switchmark.runs.leases.MACHINE_WIDE", base.parent / "leases")
    # In this module alone: a workspace is of the user who runs the tests.
    patch.setattr("switchmark.switches.kernel_probes.os", SimpleNamespace(geteuid=lambda: 0))
    for module in ("lab.drawing", "environments.containers"):
        patch.setattr(f"switchmark.{module}.privileges", lambda: "root")


def replay(case: Case, folder: Path, lines: Iterable[str] | None = None) -> Path:
    """Replay the recording of a case, or these lines, in a folder; return the run folder."""
    base = folder / "base"
    folder.mkdir(parents=True, exist_ok=True)
    lines = case.recording.read_text().splitlines() if lines is None else lines
    recording = Recording(case.recording.name, lines, names_of(folder))
    with pytest.MonkeyPatch.context() as patch:
        as_recorded(patch, base)
        try:
            run = measured(case, ReplayedHost(recording), ReplayedClock(recording), folder)
        except BaseException:
            if recording.failure is not None:
                raise recording.failure from None
            raise
    recording.finish()
    return run


VOLATILE = ("key",)
"""Members of a record that differ though the run is the same: the key hashes the version."""


def without_run(text: str) -> str:
    """Return a text with the same id for every run: errors show commands that name it."""
    return re.sub(r"\bsm[0-9a-f]{4}(?=-)", "sm0000", text)


def stored_lines(run: Path) -> list[str]:
    """Return the records of a run folder as stored, without volatile members."""
    lines = []
    for line in (run / "records.jsonl").read_text().splitlines():
        entry = json.loads(line)
        for name in VOLATILE:
            del entry["record"][name]
        entry["versions"].pop("switchmark", None)
        lines.append(without_run(json.dumps(entry)) + "\n")
    return lines
