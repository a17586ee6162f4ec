"""This module knows the programs that switchmark is compared with: where they are, or how to get
them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer is a program that does the same work. `variable` names it in the environment;
    `program` is its name on PATH, None where no package has it. `how` says how to get it."""

    name: str
    variable: str
    program: str | None
    how: str


class MissingPeer(Exception):
    """A peer is not on this host; the message says how to get it."""


NFV_TESTPERF = Peer(
    "nfv-testperf",
    "NFV_TESTPERF",
    None,
    "it is the application of github.com/gabrieleara/nfv-testperf, expected as a corrected build: "
    "as published, its raw frames carry their addresses the wrong way round and reach nobody",
)
TRAFGEN = Peer("trafgen", "TRAFGEN", "trafgen", "make setup PARTS=peers")
XDP_TRAFFICGEN = Peer(
    "xdp-trafficgen",
    "XDP_TRAFFICGEN",
    None,
    "it is of xdp-tools 1.6, as Debian sid has it: 1.3 and 1.5 do not load on kernel 6.18",
)
SOCKPERF = Peer("sockperf", "SOCKPERF", "sockperf", "make setup PARTS=peers")
TESTPMD = Peer("dpdk-testpmd", "TESTPMD", "dpdk-testpmd", "make setup")
PKTGEN = Peer(
    "pktgen", "PKTGEN", "pktgen", "it is Pktgen-DPDK, of github.com/pktgen/Pktgen-DPDK: build it"
)


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
