"""This module knows the programs that switchmark is compared with: where they are, or how to get
them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer is a program that does the same work. `variable` names it in the environment;
    `program` is its name on PATH, None where no package has it. `how` says how to get it, and
    `checks` what it looks at in the frames that it receives."""

    name: str
    variable: str
    program: str | None
    how: str
    checks: str


class MissingPeer(Exception):
    """A peer is not on this host; the message says how to get it."""


NFV_TESTPERF = Peer(
    "nfv-testperf",
    "NFV_TESTPERF",
    None,
    "it is the application of github.com/gabrieleara/nfv-testperf, expected as a corrected build: "
    "as published, it receives no raw frames, because it cuts off the name of an interface after 8 "
    "characters and reads with too little room for addresses",
    "the addresses of raw frames and of those by DPDK; of UDP nothing",
)
_NOTHING_RECEIVED = "nothing: it only sends, and a counter behind it counts"
TRAFGEN = Peer("trafgen", "TRAFGEN", "trafgen", "make setup PARTS=peers", _NOTHING_RECEIVED)
XDP_TRAFFICGEN = Peer(
    "xdp-trafficgen",
    "XDP_TRAFFICGEN",
    None,
    "it is of xdp-tools 1.6, as Debian sid has it: 1.3 and 1.5 do not load on kernel 6.18",
    _NOTHING_RECEIVED,
)
SOCKPERF = Peer(
    "sockperf", "SOCKPERF", "sockperf", "make setup PARTS=peers", "the number of each answer"
)
TESTPMD = Peer(
    "dpdk-testpmd",
    "TESTPMD",
    "dpdk-testpmd",
    "make setup",
    "nothing: rxonly frees the frames unread",
)
PKTGEN = Peer(
    "pktgen-dpdk",
    "PKTGEN",
    "pktgen",
    "it is Pktgen-DPDK, of github.com/pktgen/Pktgen-DPDK, expected as a build that starts without "
    "a terminal, and where the MTU of a port cannot be set",
    _NOTHING_RECEIVED,
)
DPERF = Peer(
    "dperf",
    "DPERF",
    None,
    "it is of github.com/baidu/dperf, expected as a build that opens the device named by its port "
    "with the options of EAL in DPERF_EAL: as published, it opens PCI devices only",
    _NOTHING_RECEIVED,
)
TREX = Peer(
    "TRex",
    "TREX",
    None,
    "no package has it, and it is built with its bundled DPDK; there is no comparison with it yet",
    "in streams with statistics, the number and the time of each frame",
)
KERNEL_PKTGEN = Peer(
    "pktgen of the kernel",
    "",
    None,
    "the kernel needs CONFIG_NET_PKTGEN: modprobe pktgen",
    _NOTHING_RECEIVED,
)
PEERS = (
    NFV_TESTPERF,
    TRAFGEN,
    XDP_TRAFFICGEN,
    KERNEL_PKTGEN,
    SOCKPERF,
    TESTPMD,
    PKTGEN,
    DPERF,
    TREX,
)
"""All of them, in the order of the guide."""


def require_kernel_pktgen(folder: Path = Path("/proc/net/pktgen")) -> None:
    """Raise MissingPeer if this kernel has no packet generator, or its module is not loaded."""
    if not folder.is_dir():
        raise MissingPeer(f"{KERNEL_PKTGEN.name} is not here: {KERNEL_PKTGEN.how}")


def find(peer: Peer, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of a peer: what its variable names, else what PATH has. Raises
    MissingPeer."""
    named = environ.get(peer.variable)
    if named:
        program = shutil.which(named)
        if program is None:
            raise MissingPeer(f"{peer.variable} names no program: {named}")
        return os.path.abspath(program)  # noqa: PTH100 (a symbolic link keeps its own name)
    path = f"{environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}"
    program = shutil.which(peer.program, path=path) if peer.program else None
    if program is None:
        advice = f"{peer.how}; set" if peer.program is None else f"{peer.how}, or set"
        raise MissingPeer(f"{peer.name} is not here: {advice} {peer.variable} to its path")
    return program
