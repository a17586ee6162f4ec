"""A small libpcap bridge copies frames between two ports, as in Bonafiglia 2015. Its program is
`traffic/src/pcap_bridge.c`."""

from __future__ import annotations

import json
from signal import SIGTERM

from switchmark.engines.base import KERNEL_PORTS
from switchmark.functions.base import Function, Hosted
from switchmark.hosts.base import Host
from switchmark.hosts.programs import OTHER_PROGRAMS, probe_version, program_path
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait
from switchmark.model.version import Version
from switchmark.switches.base import Counters, Counting

_PROGRAM = OTHER_PROGRAMS["pcap-bridge"]
_HINT = "apt-get install libpcap-dev, then make setup"


def _counts(hosted: Hosted) -> str:
    return f"{hosted.wiring.ports_dir}/{hosted.node.name}.counts"


def _counter_commands(hosted: Hosted) -> tuple[Run, ...]:
    return (
        Run(
            f"counts of the bridge at {hosted.node.name}", ("cat", _counts(hosted)), at=hosted.node
        ),
    )


def _parse_counters(hosted: Hosted, outputs: tuple[bytes, ...]) -> Counters:
    """Return the frames per port, with those that libpcap had no room for and those that a port
    refused."""
    try:
        printed = json.loads(outputs[0])
        counts = [
            PortCounters(*(int(printed[name][side]) for name in ("in", "out", "missed", "failed")))
            for side in (0, 1)
        ]
    except (KeyError, TypeError, IndexError) as missing:
        raise ValueError(f"pcap-bridge reported no count of {missing}") from missing
    return Counters({port.id: count for port, count in zip(hosted.ports, counts, strict=True)})


class PcapBridge(Function):
    """The bridge is one process, which sleeps while no frame waits. It keeps its counts in a file
    of the run, and updates the file whenever no frame waits."""

    name = "pcap-bridge"
    summary = "a bridge of two ports on libpcap, as in Bonafiglia 2015"
    capabilities = frozenset({"NET_RAW"})
    port_kinds = KERNEL_PORTS
    counters = Counting(_counter_commands, _parse_counters)

    def probe(self, host: Host) -> Version:
        """Return the versions of the bridge and of libpcap."""
        text, *_ = probe_version(
            host,
            (program_path(_PROGRAM), "version"),
            r"^\s*(.*\S)",
            hint=_HINT,
            missing=f"{_PROGRAM} was not built: libpcap is missing",
        )
        return Version(text, verified="verified")

    def start(self, hosted: Hosted) -> Plan:
        counts = _counts(hosted)
        return (
            Run("no old counts", ("rm", "-f", counts), undo=("rm", "-f", counts)),
            Spawn(
                f"the bridge at {hosted.node.name}",
                _process(hosted),
                (program_path(_PROGRAM), hosted.ends[0].ifname, hosted.ends[1].ifname, counts),
                at=hosted.node,
                stop=(SIGTERM, 2.0),
            ),
        )

    def settled(self, hosted: Hosted) -> Plan:
        return (
            Wait(
                f"the bridge at {hosted.node.name} forwards",
                Check(("test", "-s", _counts(hosted)), at=hosted.node),
                unless_dead=_process(hosted),
            ),
        )


def _process(hosted: Hosted) -> str:
    return f"bridge-{hosted.node.name}"


FUNCTION = PcapBridge()
