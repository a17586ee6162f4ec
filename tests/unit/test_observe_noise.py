"""These tests ask a host, before it measures, which of its CPUs others keep busy."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.cpus import Cpu
from switchmark.observe import noise
from switchmark.observe.noise import busy_cpus


@pytest.mark.parametrize(
    ("lost", "busy"),
    [
        ((0.0, 0.01), []),
        ((0.0, 0.84), ["1"]),
        ((0.0, 0.19), []),
        ((0.84, 0.0, 0.0, 0.01), []),  # three others are enough for a test
        ((0.84, 0.5, 0.0, 0.01), ["0", "1"]),
    ],
)
def test_a_host_is_too_busy_where_a_test_would_share_its_cpus(
    monkeypatch: pytest.MonkeyPatch, lost: Sequence[float], busy: list[str]
) -> None:
    monkeypatch.setattr(noise, "read_cpus", lambda _: [Cpu(number) for number in range(len(lost))])
    cpus = [
        {"cpu": cpu, "lost_ns": share * 1e8, "elapsed_ns": 1e8, "max_ns": 0, "histogram": []}
        for cpu, share in enumerate(lost)
    ]
    host = RecordingHost({("traffic", "jitter"): json.dumps({"cpus": cpus}).encode()})
    assert [*busy_cpus(host, "traffic")] == busy


def test_a_host_that_cannot_be_asked_is_not_called_busy() -> None:
    assert busy_cpus(RecordingHost({("traffic",): Completed(1, b"", b"")}), "traffic") == {}
