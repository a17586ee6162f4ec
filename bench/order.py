"""The comparison `order` is between the engines that `--engine auto` may choose, on a bare cable of
veth: it says whether this host agrees with their order in the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from bench.bed import Track
from bench.comparison import Comparison, Session
from bench.ours import trial
from bench.pairs import Limit, interleaved
from bench.report import Row, compared
from switchmark.engines import TABLE as ENGINES
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.metrics.throughput import steady_pps
from switchmark.model.cable import CABLE
from switchmark.model.topology import PortKind
from switchmark.path.choosing import candidates

_BURST = 32
_AS_MUCH = 1.0
"""What stands first carries at least what stands next: a row is missed if the whole interval of
their ratio lies below."""


def in_order() -> list[str]:
    """Return the engines of the table that open interfaces themselves, in its order: each can take
    the place of another. Those that go through the IP stack, or open interfaces by DPDK's drivers
    or netmap's emulation, stand behind them whatever they carry."""
    return [
        name
        for name in candidates()
        if PortKind.VETH in ENGINES[name].port_kinds
        and not (ENGINES[name].needs_ip or ENGINES[name].user_memory)
        and PortKind.NETMAP not in ENGINES[name].port_kinds
    ]


def contradicted(rows: Sequence[Row]) -> str | None:
    """Return which neighbours in the table this host puts the other way round; None if none."""
    wrong = [f"{row.b} before {row.a}" for row in rows if row.verdict == "missed"]
    if not wrong:
        return None
    return f"the order of src/switchmark/engines/__init__.py is contradicted: {'; '.join(wrong)}"


def _order(session: Session) -> list[Row]:
    names = [name for name in in_order() if _usable(session, name)]
    tracks = {name: session.bed.track(CABLE, name, port=PortKind.VETH) for name in names}
    slots: dict[str, Callable[[], float]] = {
        name: partial(_mpps, session, tracks[name], name) for name in names
    }
    slots["again"] = slots[names[0]]
    samples = interleaved(session.pairs, slots, session.say)
    return [
        compared(
            f"order, {first} to {second}",
            first,
            second,
            "Mpps",
            {
                "A": samples[first],
                "B": samples[second],
                **({"A again": samples["again"]} if first == names[0] else {}),
            },
            Limit("at least", _AS_MUCH),
            (f"64 B, a bare veth pair, received; bursts of {_BURST}",),
        )
        for first, second in pairwise(names)
    ]


def _usable(session: Session, name: str) -> bool:
    try:
        ENGINES[name].probe(LocalHost())
    except Unavailable as missing:
        session.say(f"{name} is left out: {missing.message}")
        return False
    return True


def _mpps(session: Session, track: Track, name: str) -> float:
    result = trial(
        session.bed, track, sender=name, receiver=name, burst=_BURST, seconds=session.seconds
    )
    return steady_pps(result) / 1e6


ORDER = Comparison(
    "order", "the engines that --engine auto chooses from, each against the next", _order
)
