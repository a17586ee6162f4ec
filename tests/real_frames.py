"""This module measures tests on a real path, and checks what must hold of every trial on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import Unavailable
from switchmark.lab.measure import Lab
from switchmark.layout.resolve import check
from switchmark.machine.host import LocalHost
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test
from switchmark.switches import TABLE as SWITCHES

__all__ = [
    "Measure",
    "assert_every_frame_is_accounted_for",
    "measuring",
    "only",
    "skip_refused",
    "skip_unpackaged",
]

Measure = Callable[..., Record]
"""Runs the test of these axes, short and slow unless they say otherwise."""


@contextmanager
def measuring(folder: Path) -> Iterator[Measure]:
    """Keep a lab in `folder`; after each test the host has the interfaces that it had before."""
    with Lab(folder) as lab:

        def run(**axes: Any) -> Record:
            test = Test(**{"duration": 0.15, "warmup": 0.05, "rate": "20k", **axes})
            skip_unpackaged(test.switch)
            assert check(test) == []
            before = interfaces(lab)
            record = lab.run(test)
            if test.port == "memif" and "Segmentation fault" in (record.error or ""):
                # DPDK 22.11's server of a memif may end so while a client sets its rings up (3 of
                # 110 starts of testpmd with two queues): told, and none of ours.
                record = lab.run(test)
            assert record.status == "ok", record.error
            assert interfaces(lab) == before
            return record

        yield run


def interfaces(lab: Lab) -> set[str]:
    """Return the host's interfaces, but for what other runs have there beside this one's."""
    names = {path.name for path in Path("/sys/class/net").iterdir()}
    own = f"{lab._workspace.run}-"
    return {name for name in names if name.startswith(own) or not re.match("sm[0-9a-f]{4}-", name)}


def skip_unpackaged(switch: str) -> None:
    """Skip a switch that is not here and that no package has: its users build it and name it by a
    variable, the kernel was built without it, or no NIC has it. CI allows that by the switch's name
    (`allowed-skips.txt`)."""
    try:
        SWITCHES[switch].probe(LocalHost())
    except Unavailable as missing:
        if "SWITCHMARK_" in (missing.hint or ""):
            pytest.skip(f"{missing.message}, and no package has it")
        if "was built without" in missing.message or "(SR-IOV)" in missing.message:
            pytest.skip(missing.message)


def skip_refused(**axes: Any) -> None:
    """Skip what a switch cannot be asked for, with its reason."""
    if reasons := check(Test(**axes)):
        pytest.skip("; ".join(map(str, reasons)))


def only(record: Record) -> TrialResult:
    assert len(record.trials) == 1
    return record.trials[0]


def assert_every_frame_is_accounted_for(record: Record) -> TrialResult:
    """Check that what was sent arrived, once, in order and whole, or is placed where it was
    lost."""
    trial = only(record)
    assert trial.tx_frames > 0
    assert trial.rx_frames > 0
    assert trial.tx_frames == trial.rx_frames - trial.duplicated + trial.lost
    assert trial.unaccounted == 0, (trial.lost, trial.lost_at)
    assert trial.duplicated == trial.reordered == trial.corrupted == trial.stray == 0
    assert trial.foreign == 0
    if record.gate is not None:
        unseen = record.gate.unseen  # in a container, where sockets need no NET_RAW else
        assert unseen is None or record.test.environment in ("lxc", "docker", "podman"), unseen
        arrived = record.gate.frames * trial.copies
        assert record.gate.headers == (0 if unseen else arrived)
    if trial.spec.rate_pps is not None:
        senders = len({counts.flow.split("-")[0] for counts in trial.per_flow})
        wanted = round(trial.spec.rate_pps * trial.spec.duration_s) * max(senders, 1)
        assert trial.tx_frames + trial.tx_unsent == wanted
    return trial
