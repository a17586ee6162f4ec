"""These tests compare every refusal with a stored text. Refusals of tests that can never work have
the reason, the axes at fault with the best one to change first, the hint, and the changes that
would work; those of campaign files have the line. Long lists of names end after the third, so that
a new switch changes no refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden_cases import text_of_cases
from refused import MALFORMED, REFUSED
from switchmark.campaign.load import load
from switchmark.campaign.values import read_value, read_words, shortened
from switchmark.errors import UsageError
from switchmark.model.test import AXES, Test
from switchmark.path.refusals import check

_LATENCY = {"dimension": "latency", "rate": "1k"}
_OUTAGE = {"dimension": "outage", "event": "kill", "rate": "1k"}
_LOOPBACK = {"scenario": "loopback"}
_REMOTE = {"locality": "remote", "hosts": "left,right"}
_TESTPMD = {"switch": "testpmd", "engine": "dpdk"}
_PCI = {"nic": "a0=03:00.0:04:00.0"}

FURTHER: tuple[dict[str, Any], ...] = (
    # Loads and methods.
    {"finals": 3},
    {"search": "recovery", "touch": "none", "function_cores": 2, "flows": 2, "rate": "1k"},
    {"search": "mlr", "exceed_ratio": "0", "duration_sum": "60"},
    {"search": "latency-at-load", "touch": "none"},
    {"arrivals": "poisson", "search": "back-to-back"},
    {"rate": "15M", "line_rate": "10Gbps", "frame_size": 1518},
    {"rate": "1", "duration": "1"},
    {"rate": "1", "duration": "0.99"},
    # Frames, flows and queues.
    {"frame_size": 9600, "engine": "udp"},
    {"frame_size": "imix", "ip_version": 6, "vlan": 5},
    {"flows": 257, "engine": "udp-gso"},
    {"touch": "none", "engine": "null", "switch": "null"},
    {"engine": "xdp-live", **_LATENCY},
    {"engine": "xdp-live", "touch": "full"},
    {"queues": 2, **_TESTPMD},
    {"queues": 2, "flows": 2, **_TESTPMD, **_LATENCY},
    {"descriptors": 100, **_TESTPMD},
    {"descriptors": 128},
    {"memory": "no-huge"},
    {"function_cores": 2, "flows": 2, "function": "l2fwd", **_LOOPBACK, **_TESTPMD},
    {"queues": 4, "flows": 3, **_TESTPMD},
    {"queues": 3, "flows": 3, "function_cores": 2, **_TESTPMD},
    {"frame_size": 9600, "engine": "xdp-live"},
    {"encapsulation": "vxlan", "frame_size": 113},
    {"encapsulation": "vxlan6", "frame_size": 133},
    {"flows": "4M", "flows_by": "mac", "direction": "bi"},
    {"flows": "4194305", "flows_by": "mac", "direction": "bi"},
    {"flows": "1M", "flows_by": "mac", "pairs": 3, "chains": 3, **_LOOPBACK},
    {"flows": "8388608", "flows_by": "mac"},
    {"flow_order": "random", "flows": 7, "queues": 2, **_TESTPMD},
    # Places.
    {"engine": "udp", "environment": "host"},
    {"engine": "raw", "image": "mine:1"},
    {"image": "mine:1", "environment": "podman", "function": "l2fwd", **_LOOPBACK},
    {"environment": "vm", "switch_environment": "docker"},
    {"environment": "vm", "placement": "shared-process"},
    {"environment": "vm", "queues": 2, "flows": 2, **_TESTPMD},
    {"function_semantics": "mac", "function": "pcap-bridge", **_LOOPBACK},
    {"switch": "ovs@docker:mine:1", "switch_environment": "lxc"},
    {"switch": "direct", "environment": "vm"},
    {"noise": "cpu:switch", "placement": "unpinned:switch", "switch": "ovs"},
    {"cpu_limit": "function:50", "placement": "shared-process", "scenario": "p2p"},
    # Two hosts, and far ones.
    {**_REMOTE, **_TESTPMD},
    {**_REMOTE, "switch": "snabb", "engine": "dpdk", "port": "vhost-user"},
    {**_REMOTE, "placement": "shared-process", "switch_cores": 2},
    {**_REMOTE, "noise": "cpu", "cpu_limit": "function:50", "copies": 2},
    {**_REMOTE, "nic": "a0=x:y", "profile": 99},
    {**_REMOTE, **_OUTAGE, "switch": "ovs"},
    {"hosts": "left", "environment": "vm"},
    # Chains.
    {"chain": 2},
    {"chains": 2, "function": "l2fwd"},
    {"engine": "udp", **_LOOPBACK},
    {"placement": "shared-process", **_LOOPBACK},
    {"queues": 2, "flows": 2, **_LOOPBACK, **_TESTPMD},
    {"chain": 64, "chains": 9, **_LOOPBACK},
    {"chains": 2, "engine": "udp", **_LOOPBACK},
    {"chains": 2, "flows": 2, "flows_by": "mac", **_LOOPBACK},
    {"chains": 2, **_LATENCY, **_LOOPBACK},
    {"chain": 64, "chains": 8, **_LOOPBACK},
    {"chain": 3, "function": "basicfwd", "switch": "ovs", **_LOOPBACK},
    {"function": "pcap-bridge", "semantics": "static", "switch": "testpmd", **_LOOPBACK},
    # NICs, drivers and clocks.
    {**_PCI, "scenario": "p2v"},
    {"nic": "a0=x:y", "scenario": "p2v", **_TESTPMD},
    {"nic": "a0=x:y,b0=z:w", "scenario": "p2v"},
    {"driver": "af_packet"},
    {"driver": "vfio-pci", **_TESTPMD},
    {"driver": "af_packat", **_TESTPMD},
    {"driver": "memif", **_TESTPMD},
    {"driver": "memif", "engine": "dpdk", "switch": "linux-bridge"},
    {"listen": "functions", "port": "memif", **_TESTPMD},
    {"stamps": "device", "touch": "none", **_TESTPMD},
    # Copies.
    {"copies": 2, "placement": "shared-process", "scenario": "p2p"},
    {"copies": 2, **_LATENCY},
    # Events.
    {"event": "kill"},
    {"event": "kill", "switch": "ovs", **_LATENCY},
    {"event": "kill", "switch": "ovs", "search": "ndr"},
    {"event": "kill@9", "switch": "ovs", "duration": 4, "rate": "1k"},
    {"event": "kill@4", "switch": "ovs", "duration": 4, "rate": "1k"},
    {"event": "load:50%"},
    {"event": "load:50%@1+load:100%@1.05", "rate": "1k", "duration": 4, "interval": "100ms"},
    {"event": "upgrade:vpp@/opt/vpp", "switch": "ovs", "rate": "1k"},
    {"event": "upgrade:ovs@/opt/ovs", "switch": "ovs", "rate": "1k"},
    {"event": "upgrade:direct@/opt/direct", "switch": "direct", "rate": "1k"},
    {"event": "pause", "switch": "ovs", "switch_environment": "lxc", "rate": "1k"},
    {"event": "restart", "rate": "1k", **_TESTPMD},
    {"event": "restart", "rate": "1k", "port": "memif", **_TESTPMD},
    {"event": "kill", "rate": "1k", "switch": "direct"},
    {"dimension": "outage", "event": "kill+pause", "rate": "1k", "switch": "ovs"},
    {"dimension": "outage", "event": "kill+load:50%", "rate": "1k", "switch": "ovs"},
    {"dimension": "outage", "rate": "1k"},
    {**_OUTAGE, "rate": "max", "switch": "ovs"},
    {**_OUTAGE, "touch": "none", "switch": "ovs"},
    {**_OUTAGE, "function_cores": 2, "flows": 2, "switch": "ovs"},
    {**_OUTAGE, "copies": 2, "switch": "ovs", "semantics": "static"},
)


_LONG = re.compile(r"((?:[\w:-]+,(?: (?!and ))?){3})(?:[\w:-]+,(?: (?!and ))?){5,}[\w:-]+")


def test_every_refusal_in_full(golden: Callable[[str, str], None]) -> None:
    text = []
    for axes in (*(refused for refused, _ in REFUSED), *FURTHER):
        text.append(f"# {' '.join(f'{name}={value}' for name, value in axes.items())}")
        refusals = check(Test(**axes))
        text += [] if refusals else ["accepted"]
        for refusal in refusals:
            text.append(f"{', '.join(refusal.axes)}: {refusal.why}")
            if refusal.hint is not None:
                text.append(f"  hint: {refusal.hint}")
            if refusal.changes:
                text.append(f"  changes: {'; '.join(map('='.join, refusal.changes))}")
    golden("refusals.txt", _LONG.sub(r"\1...", "\n".join([*text, ""])))


def test_every_malformed_campaign_in_full(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    path, text = tmp_path / "c.yaml", []
    for title, (content, _) in MALFORMED.items():
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(UsageError) as refused:
            load(path, {}, check)
        message = str(refused.value).replace(f"{tmp_path}/", "")
        text += [f"# {title}", message]
    golden("malformed.txt", _LONG.sub(r"\1...", "\n".join([*text, ""])))


WORDS = ("x", "-1", "0", "1", "1.5", "nan", "inf", "1e12", "maybe", "none", "0%", "101%", "1s")
RANGES = (
    "1..3",
    "1..1..3",
    "3..1",
    "1..0..2",
    "1..2k..3k",
    "1..2",
    "a..b",
    "1..2..3..4",
    "1,",
    ",",
)


def test_the_meaning_of_words_on_axes(golden: Callable[[str, str], None]) -> None:
    """Axes whose values are names of a table or words of a list have texts of their own."""
    told = {}
    for name, axis in AXES.items():
        if axis.table or axis.choices:
            continue
        found = {word: str(outcome(read_value, name, word)) for word in WORDS}
        told[name] = [f"{word}: {read}" for word, read in found.items() if read != word]
    for name in ("frame_size", "flows", "rate", "loads", "switch"):
        read = [f"{word}: {outcome(read_words, name, word)}" for word in RANGES]
        told[f"ranges of {name}"] = read
    told["long ones"] = [
        str(outcome(read_words, "flows", "0..1..100000")),
        str(outcome(read_words, "flows", "1..1..100000"))[:60],
        *(f"'{shortened('x' * count)}'" for count in (60, 61)),
    ]
    golden("words/values.txt", text_of_cases(told))


def outcome(read: Callable[[str, str], Any], name: str, word: str) -> Any:
    """Return what a reader makes of a word, or why it refuses it."""
    try:
        return read(name, word)
    except UsageError as error:
        return f"refused: {error.message}; {error.hint}"
