"""A switch across two hosts is an instance of it on each, joined by uplinks: to a test it is one
switch, whose plans have steps for both hosts. Pure.

To an instance the uplink is a physical port in the place of the function that is behind it on the
other host: of its number, and so with its addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from switchmark.hosts.base import Host
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.plan import HOST, Node, Plan, Run, on_host
from switchmark.model.topology import Endpoint, Flow, Port, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counters, Counting, Switch, program_at

_OWN = frozenset(
    {"name", "semantics", "port_kinds", "counters", "program", "program_folders", "bound_to"}
)
_OF_DRIVER = (*_OWN, "resources", "own_stack", "capabilities", "devices", "routes_by_port")
_SIDES = "ab"
_OF_HOST = ":"  # in the name of an uplink's end, as in no other port's


@dataclass(frozen=True, slots=True)
class Uplink:
    """An uplink joins the two instances. `ends` are its interfaces, on the first host and on the
    second; `made` says that it is a cable of the test's own, a veth pair between both hosts."""

    name: str
    ends: tuple[str, str]
    made: bool


class Across(Switch):
    """The instance of the first host is at `Wiring.at`, the other one at `far`, on `far_cores`.
    `named` are the interfaces of real cables between the hosts, in pairs; without them the cables
    are made."""

    def __init__(
        self,
        switch: Switch,
        far: Node,
        *,
        named: Sequence[tuple[str, str]] = (),
        far_cores: tuple[int, ...] = (),
        probed: Mapping[tuple[str, str], Version] = MappingProxyType({}),
    ) -> None:
        for name in _OF_DRIVER:
            setattr(self, name, getattr(switch, name))
        self.instance = switch
        self.counters = Counting(self._commands, self._parsed)
        self._far = far
        self._named = tuple(named)
        self._far_cores = far_cores
        self._probed = probed

    @property
    def path(self) -> str:
        return self.instance.path

    def probe(self, host: Host) -> Version:
        return self.instance.probe(host)

    @property
    def takes_uplink(self) -> bool:
        return self.instance.takes_uplink

    def own_core(self, mode: str | None) -> bool:
        return self.instance.own_core(mode)

    def hosts(self, wiring: Wiring) -> tuple[str, str]:
        """Return the names of both hosts."""
        return wiring.at.host, self._far.host

    def uplinks(self, wiring: Wiring) -> tuple[Uplink, ...]:
        """Return the uplinks: one where the instances learn who is behind it, else one for each
        pair."""
        shared = wiring.semantics is Semantics.LEARNING
        count = 1 if shared else len(self._pairs(wiring))
        ends = self._named or tuple(
            (wiring.name(f"a-up{number}"), wiring.name(f"b-up{number}")) for number in range(count)
        )
        pairs = enumerate(ends[:count])
        return tuple(Uplink(f"u{n}", pair, made=not self._named) for n, pair in pairs)

    def halves(self, wiring: Wiring) -> tuple[Wiring, Wiring]:
        """Return the wirings of both instances."""
        near, far = (self._half(wiring, side) for side in (0, 1))
        return near, far

    def accepts(self, wiring: Wiring) -> str | None:
        pairs = self._pairs(wiring)
        cables = len(self.uplinks(wiring))
        if wiring.semantics is not Semantics.LEARNING and cables < len(pairs):
            return (
                f"{self.name} ({wiring.semantics}) takes a cable for each pair: for {len(pairs)} "
                f"pairs there {'is' if cables == 1 else 'are'} {cables}"
                f"\n\nhint: --pairs {cables}, or a switch that is learning"
            )
        return next(filter(None, map(self.instance.accepts, self.halves(wiring))), None)

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        return {
            flow: replace(addressing, routed=2 * addressing.routed)
            for flow, addressing in self.instance.addressing(wiring).items()
        }

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        near, far = map(self.instance.endpoints, self.halves(wiring))
        ends = {**near, **far}
        return {port.id: ends[port.id] for port in wiring.ports}

    def start(self, wiring: Wiring) -> Plan:
        return self._cables(wiring) + self._both(wiring, self.instance.start)

    def folders(self, wiring: Wiring) -> Plan:
        """Return the steps that make a folder of the run on each host, for what needs one."""
        remove = 'rm -rf "$1"; rmdir --ignore-fail-on-non-empty "${1%/*}"'
        return tuple(
            Run(
                f"the run's folder on {half.at.host}",
                ("mkdir", "-p", "-m", "700", half.run_dir, half.ports_dir, half.own_dir),
                at=_itself(half),
                undo=("sh", "-c", remove, "sh", half.run_dir),
            )
            for half in self.halves(wiring)
        )

    def join(self, wiring: Wiring) -> Plan:
        return self._both(wiring, self.instance.join)

    def settled(self, wiring: Wiring) -> Plan:
        return self._both(wiring, self.instance.settled)

    def _both(self, wiring: Wiring, plan: Callable[[Wiring], Plan]) -> Plan:
        return tuple(
            step for half in self.halves(wiring) for step in on_host(plan(half), half.at.host)
        )

    def _commands(self, wiring: Wiring) -> tuple[Run, ...]:
        steps: tuple[Run, ...] = ()
        for half in self.halves(wiring):
            there = on_host(self.instance.counters.commands(half), half.at.host)
            steps += tuple(step for step in there if isinstance(step, Run))
        return steps

    def _parsed(self, wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        near, far = self.halves(wiring)
        count = len(self.instance.counters.commands(near))
        if not outputs:
            return Counters()
        parse = self.instance.counters.parse
        both = parse(near, outputs[:count]), parse(far, outputs[count:])
        return Counters(
            {**both[0].ports, **both[1].ports},
            _sum(each.busy_cycles for each in both),
            _sum(each.idle_cycles for each in both),
            _sum(each.slow_path for each in both),
        )

    def _pairs(self, wiring: Wiring) -> list[tuple[Port, Port]]:
        """Return the ports between which frames go, that of the first host first."""
        pairs = {}
        for flow in wiring.flows:
            ends = [wiring.port(flow.source), wiring.port(flow.sink)]
            ends.sort(key=lambda port: port.node.host == self._far.host)
            pairs[ends[0].id, ends[1].id] = (ends[0], ends[1])
        return list(pairs.values())

    def _half(self, wiring: Wiring, side: int) -> Wiring:
        """Return what one instance is told: the ports of its host, and its ends of the uplinks."""
        at = (wiring.at, self._far)[side]
        uplinks = self.uplinks(wiring)
        pairs = self._pairs(wiring)
        here = tuple(dict.fromkeys(pair[side] for pair in pairs))
        ups: dict[str, Port] = {}
        behind: dict[str, Port] = {}
        for number, pair in enumerate(pairs):
            uplink = uplinks[min(number, len(uplinks) - 1)]
            own = Port(
                id=f"{at.host}{_OF_HOST}{uplink.name}",
                index=pair[1 - side].index,
                part=f"{at.host}{_OF_HOST}{uplink.name}",
                physical=True,
                nic=uplink.ends[side],
                uplink="made" if uplink.made else "named",
                node=at,
            )
            behind[pair[1 - side].id] = ups.setdefault(uplink.name, own)
        flows: dict[tuple[str, str], Flow] = {}
        for flow in wiring.flows:
            source = behind.get(flow.source, wiring.port(flow.source)).id
            sink = behind.get(flow.sink, wiring.port(flow.sink)).id
            flows.setdefault((source, sink), replace(flow, source=source, sink=sink))
        half = replace(
            wiring,
            prefix=f"{wiring.prefix}-{side_name(side)}",
            run_dir=at.run_dir,
            at=at,
            ports=(*here, *ups.values()),
            flows=tuple(flows.values()),
            cores=self._far_cores if side else wiring.cores,
        )
        return program_at(half, self.instance, self._probed)

    def _cables(self, wiring: Wiring) -> Plan:
        """Return the steps that make the cables: veth pairs, one end on each host, whose network is
        found here by a process in it."""
        halves = self.halves(wiring)
        made = [uplink for uplink in self.uplinks(wiring) if uplink.made]
        steps: Plan = ()
        for side, half in enumerate(halves if made else ()):
            network, process = (f"{wiring.prefix}-{side_name(side)}-{of}" for of in ("net", "pid"))
            find = 'lsns -n -r -t net -o NS,PID | sed -n "s/^$1 //p"'
            steps += (
                Run(
                    f"the network of {half.at.host}, by its number",
                    ("stat", "-L", "-c", "%i", "/proc/self/ns/net"),
                    at=_itself(half),
                    save=network,
                ),
                Run(
                    f"a process in the network of {half.at.host}",
                    ("sh", "-c", find, "sh", f"${{{network}}}"),
                    save=process,
                ),
            )
        pids = [f"${{{wiring.prefix}-{side_name(side)}-pid}}" for side in (0, 1)]
        for uplink, *ports in zip(made, *map(_ups, halves), strict=bool(made)):
            ends = [
                (
                    *(pair[0], "mtu", str(wiring.mtu), "address", self.mac_of(half, port)),
                    *("netns", pid),
                )
                for half, port, pid, *pair in zip(halves, ports, pids, uplink.ends, strict=True)
            ]
            undo = ("ip", "link", "del", uplink.ends[0])
            told = f"cable {uplink.name} from {halves[0].at.host} to {halves[1].at.host}"
            steps += (
                Run(f"{told} will go with the run", ("true",), at=_itself(halves[0]), undo=undo),
                Run(
                    told,
                    ("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]),
                ),
            )
        return steps

    def mac_of(self, half: Wiring, uplink: Port) -> str:
        """Return the MAC of an end of an uplink. A router sends to that of the function behind it,
        whose place the router of the other host is in."""
        if half.semantics is not Semantics.ROUTED:
            return mac_address(uplink.index, router=True)
        flow = next(f for f in half.flows if uplink.id in (f.source, f.sink))
        own = flow.source if flow.sink == uplink.id else flow.sink
        return mac_address(half.port(own).index)


def _itself(half: Wiring) -> Node:
    """Return the host that an instance is on."""
    return replace(HOST, host=half.at.host, run_dir=half.run_dir)


def _ups(half: Wiring) -> list[Port]:
    return [port for port in half.ports if port.uplink]


def side_name(side: int) -> str:
    """Return the letter that the names of a host's nodes and interfaces have behind the run's
    prefix: those of both hosts differ, as they may be one machine."""
    return _SIDES[side]


def far_switch(host: str) -> str:
    """Return the name that the instance of the second host has among parts."""
    return f"switch@{host}"


def wirings_of(switch: Switch, wiring: Wiring) -> tuple[Wiring, ...]:
    """Return the wirings of the instances of a switch: its own, or one for each of two hosts."""
    return switch.halves(wiring) if isinstance(switch, Across) else (wiring,)


def named_ends(switch: Switch, wiring: Wiring) -> tuple[tuple[Node, str, str], ...]:
    """Return the real NICs that join two hosts: where each is, its name, and its MAC for a run."""
    if not isinstance(switch, Across):
        return ()
    return tuple(
        (_itself(half), port.nic, switch.mac_of(half, port))
        for half in switch.halves(wiring)
        for port in _ups(half)
        if port.uplink == "named" and port.nic
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
