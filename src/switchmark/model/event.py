"""Events: what happens to a switch at a moment of a trial, as users write it and as records keep
it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from switchmark.errors import UsageError
from switchmark.model.units import parse_duration, parse_load_share
from switchmark.model.written import Written

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "restart": "stop the switch and start it again with the same configuration",
        "kill": "kill the switch (SIGKILL) and start it again",
        "pause": "stop the processes of the switch for 100 ms (SIGSTOP)",
        "port-down": "set a link of the switch down and up",
        "reconfigure": "add something harmless to the configuration and remove it",
        "upgrade": "stop the switch and start another version of it: upgrade:NAME@VERSION",
        "load": "offer another share of the rate from then on, such as load:50%",
    }
)
"""The kinds of events, with their descriptions."""

RESTART, LOAD, UPGRADE = "restart", "load", "upgrade"
"""Kinds that other modules ask for. `load` changes the traffic, and all others happen to the
switch. An `upgrade` has the steps of a `restart`, with the program of another version."""

REPLACING = frozenset({"restart", "kill", UPGRADE})
"""The kinds of events after which other processes are the switch."""

OF_PROCESSES = REPLACING | {"pause"}
"""The kinds of events that signal the processes of a switch, if it has any."""

_EVENT = re.compile(r"(upgrade:[^@]+@[^@]+|load:[^@]+|[a-z-]+)(?:@([^@]+))?")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a trial."""

    kind: str
    """The kind, from `KINDS`."""
    at_s: float | None = None
    """The moment from the start of the measured phase, in seconds; None for the default."""
    share: float | None = None
    """The share of the rate that is offered from then on; None for an event of the switch."""
    to: str | None = None
    """The version of the switch that is started, such as `vpp@26.10`; None for another event."""

    def __str__(self) -> str:
        share = None if self.share is None else f"{100 * self.share:g}%"
        kind = ":".join(filter(None, (self.kind, self.to, share)))
        return kind if self.at_s is None else f"{kind}@{self.at_s:g}"


def parse_events(text: str) -> tuple[Event, ...]:
    """Parse events joined by `+`, such as `kill@2s`, `load:50%@1+load:100%@3` or
    `upgrade:vpp@26.10`. Raise UsageError for an unknown kind, or an invalid moment or share."""
    events = []
    for word in map(str.strip, str(text).split("+")):
        match = _EVENT.fullmatch(word)
        kind, _, value = match[1].partition(":") if match else ("", "", "")
        if match is None or kind not in KINDS or bool(value) is not (kind in (LOAD, UPGRADE)):
            raise UsageError(
                f"'{word}' is not an event",
                hint="write KIND or KIND@TIME, such as restart@2s, load:50%@2s or "
                f"upgrade:NAME@VERSION; kinds: {', '.join(KINDS)}",
            )
        events.append(
            Event(
                kind,
                None if match[2] is None else parse_duration(match[2]),
                parse_load_share(value) if kind == LOAD else None,
                value if kind == UPGRADE else None,
            )
        )
    return tuple(events)


def written_events(text: str) -> str:
    """Return events in their usual spelling: `kill@2` for `kill@2000ms`."""
    return "+".join(map(str, parse_events(text)))


def moments_s(events: Sequence[Event], duration_s: float) -> tuple[float, ...]:
    """Return the moments of events in a trial, in seconds. Events without a moment are spread: a
    single one takes place after a quarter of the trial."""
    count = len(events)
    return tuple(
        duration_s * (4 * number + 1) / (4 * count) if event.at_s is None else event.at_s
        for number, event in enumerate(events)
    )


def load_steps(events: Sequence[Event], duration_s: float) -> tuple[tuple[float, float], ...]:
    """Return the changes of the load among events of a trial, in order: the moment in seconds, and
    the share of the rate from then on."""
    loads = [event for event in events if event.kind == LOAD]
    moments = zip(moments_s(loads, duration_s), loads, strict=True)
    return tuple(sorted((at_s, event.share) for at_s, event in moments if event.share is not None))


class EventResult(Written):
    """An event that took place in a trial. Times are from the start of the measured phase."""

    kind: str
    """The kind of event."""

    due_ns: int
    """The moment at which it was to begin."""

    began_ns: int
    """The moment before its first command."""

    disturbed_ns: int
    """The moment at which the disturbance was complete: the process had ended, or the link was
    down."""

    restored_ns: int | None = None
    """The moment at which all commands had ended that bring the switch back; None if one failed."""

    settled_ns: int | None = None
    """The moment at which the switch reported all of its links; None if it did not."""

    proof: tuple[str, ...] = ()
    """The observations which show that the event took place."""

    failure: str | None = None
    """Why the switch did not come back; None if it did."""
