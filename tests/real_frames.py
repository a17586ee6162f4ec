"""Measures tests on a real path, and checks what must hold for every trial."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.switches import TABLE as SWITCHES

SINGLE_HOST = [name for name, switch in SWITCHES.items() if name != "null" and not switch.joins]
"""The switches that carry frames on one host."""


def is_busy() -> bool:
    """Return whether this host has more than two programs for each of its CPUs."""
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


def brief(duration_s: float) -> float:
    """Return a duration in seconds, three times as long on a busy host: each program that polls is
    to have a turn at its CPU."""
    return duration_s * (3 if is_busy() else 1)


class Measure:
    """Runs tests in a lab, short and at a low rate by default. `briefly` makes trials shorter still
    and leaves out the warm-up: the functional trial has warmed the path up. Afterwards, the host
    has the same interfaces as before."""

    def __init__(self, lab: Lab, *, briefly: bool) -> None:
        self._lab = lab
        self._briefly = briefly

    def __call__(self, **axes: Any) -> Record:
        (record,) = self.in_sequence(axes)
        return record

    def in_sequence(self, *tests: Mapping[str, Any]) -> list[Record]:
        """Run tests one after the other, on a common path if they can share it."""
        usual = {"duration": 0.15, "warmup": 0.05, "rate": "20k"}
        if self._briefly:
            usual |= {"duration": brief(0.1), "warmup": 0.0}
        if is_busy():  # a switch may have no CPU for so long, and the last frames in its rings
            usual["residual"] = 0.3
        # Several programs poll on each CPU of a busy host, and each is to have a turn.
        longer = {"duration": 0.4} if tests[0].get("engine") in ("dpdk", "memif") else {}
        requested = [Test(**{**usual, **longer, **axes}) for axes in tests]
        skip_unpackaged(requested[0].switch, requested[0].engine)
        before = interfaces(self._lab)
        records = []
        for test, following in zip(requested, [*requested[1:], None], strict=True):
            assert check(test) == []
            record = self._lab.run(test, then=following)
            if test.port == "memif" and "Segmentation fault" in (record.error or ""):
                # DPDK 22.11's server of a memif may end so while a client sets its rings up (3 of
                # 110 starts of testpmd with two queues): told, and none of ours.
                record = self._lab.run(test, then=following)
            assert record.status == "ok", record.error
            records.append(record)
        assert interfaces(self._lab) == before
        return records


@contextmanager
def measuring(folder: Path, *, briefly: bool = False) -> Iterator[Measure]:
    """Keep a lab in `folder`."""
    with Lab(folder) as lab:
        yield Measure(lab, briefly=briefly)


def interfaces(lab: Lab) -> set[str]:
    """Return the interfaces of the host, without interfaces of other runs."""
    names = {path.name for path in Path("/sys/class/net").iterdir()}
    prefix = f"{lab._workspace.run}-"
    return {
        name for name in names if name.startswith(prefix) or not re.match("sm[0-9a-f]{4}-", name)
    }


def skip_unpackaged(switch: str, engine: str = "null") -> None:
    """Skip a switch or an engine that is missing here and in all packages: its users build it and
    configure it by a variable, the kernel was built without it or lacks its module, or no NIC
    supports it. CI allows these reasons (`allowed-skips.txt`)."""
    try:
        SWITCHES[switch].probe(LocalHost())
        ENGINES[engine].probe(LocalHost())
    except Unavailable as missing:
        if "SWITCHMARK_" in (missing.hint or ""):
            pytest.skip(f"{missing.message}, and no package has it")
        of_this_host = ("was built without", "module is not loaded", "(SR-IOV)")
        if any(phrase in missing.message for phrase in of_this_host):
            pytest.skip(missing.message)


def skip_refused(**axes: Any) -> None:
    """Skip a combination that a switch does not support, with the reason."""
    if reasons := check(Test(**axes)):
        pytest.skip("; ".join(map(str, reasons)))


def only(record: Record) -> TrialResult:
    assert len(record.trials) == 1
    return record.trials[0]


def assert_every_frame_is_accounted_for(record: Record) -> TrialResult:
    """Check that the sent frames arrived once, in order and intact, or that their place of loss is
    known."""
    trial = only(record)
    assert trial.tx_frames > 0
    assert trial.rx_frames > 0
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
        expected = round(trial.spec.rate_pps * trial.spec.duration_s) * max(senders, 1)
        assert trial.tx_frames + trial.tx_unsent == expected
    return trial


def assert_nothing_is_lost(record: Record) -> TrialResult:
    """Check that each flow is sent, and that all of its frames arrive: on a busy host some of them
    after the receivers have waited for them."""
    trial = assert_every_frame_is_accounted_for(record)
    late = trial.lost_at.get(Place(PlaceKind.LATE), 0)
    assert trial.lost == late, trial.lost_at
    assert all(flow.tx > 0 for flow in trial.per_flow)
    assert late or all(flow.rx == flow.tx for flow in trial.per_flow)
    return trial


DISTURBED = {"host-busy", "cpu-stolen"}
"""Doubts of a trial whose processes did not get the CPU time that they needed."""

MOST_LOST = 0.2
"""The largest share of frames that a path may lose at a low rate if nothing disturbs it."""


def assert_nearly_all_arrive(record: Record) -> TrialResult:
    """Check that every frame is accounted for, and that a path at a low rate loses few."""
    trial = assert_every_frame_is_accounted_for(record)
    if not DISTURBED & {*record.doubts}:
        assert trial.lost <= MOST_LOST * trial.tx_frames * trial.copies, trial.lost_at
    return trial
