"""The places on a path where frames are counted or lost.

A place has a single spelling in records: `f0@switch in`, `ring f1`. A place that this version does
not know stays as written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_AT_SWITCH = "@switch"
_OF_HOST = ":"


def part_of(port: str) -> str:
    """Return the part of a port: `f1` for `f1.0`."""
    return port.partition(".")[0]


@dataclass(frozen=True, slots=True)
class PortEnd:
    """An end of a port: `f0` at its part, or `f0@switch` at the switch."""

    port: str
    """The port, such as `f0` or `f1.0`."""

    at_switch: bool = False
    """Whether it is the end at the switch, not the end that the part has opened."""

    @classmethod
    def parse(cls, text: str) -> PortEnd:
        """Parse an end of a port."""
        return cls(text.removesuffix(_AT_SWITCH), text.endswith(_AT_SWITCH))

    def __str__(self) -> str:
        return self.port + _AT_SWITCH * self.at_switch


class PlaceKind(StrEnum):
    """The kinds of places where frames are lost."""

    RING = "ring"
    """A receiver's socket or ring was full."""

    ENGINE = "engine"
    """The engine of a part dropped the frame at a port."""

    FUNCTION = "function"
    """A function of a chain did not forward the frame."""

    OUT = "out"
    """An end of a port had no room to send the frame."""

    IN = "in"
    """An end of a port had no room to receive the frame."""

    TO_SWITCH = "to switch"
    """The frame was sent and did not enter the switch; the port is unknown."""

    INSIDE_SWITCH = "inside switch"
    """The frame entered the switch (in a remote test, the switch of a host) and did not leave it,
    and no counter shows why."""

    FROM_SWITCH = "from switch"
    """The frame left the switch and was not received; the port is unknown."""

    CABLE = "cable"
    """The frame left a host on a cable and did not arrive at the other host."""

    CORRUPTED = "corrupted"
    """The frame arrived with a wrong checksum or wrong bytes."""

    STRAY = "stray"
    """The frame reached a receiver that it was not addressed to."""

    LATE = "late"
    """The frame arrived after the end of the trial."""

    BEYOND = "beyond"
    """The frame arrived after so many later frames that it may be a duplicate."""

    OTHER = ""
    """A place that this version does not know."""


_OF_PARTS = (PlaceKind.RING, PlaceKind.ENGINE, PlaceKind.FUNCTION)
_OF_ENDS = (PlaceKind.OUT, PlaceKind.IN)
_OF_HOSTS = (PlaceKind.CABLE, PlaceKind.INSIDE_SWITCH)
_OF_PATH = frozenset(PlaceKind) - {*_OF_PARTS, *_OF_ENDS, PlaceKind.OTHER}


@dataclass(frozen=True, slots=True)
class Place:
    """A place where frames are lost: a kind, and a port or a function."""

    kind: PlaceKind
    """The kind of the place."""

    at: str = ""
    """The port, the function, the host or the cable; empty if the kind is enough. For `OTHER`, the
    whole text."""

    at_switch: bool = False
    """Whether it is at the switch's end of the port, not at the part's."""

    @classmethod
    def ring(cls, port: str) -> Place:
        """Return the place of a receiver's socket or ring."""
        return cls(PlaceKind.RING, port)

    @classmethod
    def engine(cls, port: str) -> Place:
        """Return the place of an engine at a port."""
        return cls(PlaceKind.ENGINE, port)

    @classmethod
    def function(cls, part: str) -> Place:
        """Return the place of a function."""
        return cls(PlaceKind.FUNCTION, part)

    @classmethod
    def out(cls, end: PortEnd) -> Place:
        """Return the place where frames leave at an end of a port."""
        return cls(PlaceKind.OUT, end.port, end.at_switch)

    @classmethod
    def into(cls, end: PortEnd) -> Place:
        """Return the place where frames come in at an end of a port."""
        return cls(PlaceKind.IN, end.port, end.at_switch)

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parse a place."""
        word, _, rest = text.partition(" ")
        if word in _OF_PARTS and rest:
            return cls(PlaceKind(word), rest)
        if text in _OF_PATH:
            return cls(PlaceKind(text))
        for kind in _OF_HOSTS:
            if text.startswith(f"{kind} "):
                return cls(kind, text.removeprefix(f"{kind} "))
        name, _, direction = text.rpartition(" ")
        if direction in _OF_ENDS and name:
            end = PortEnd.parse(name)
            return cls(PlaceKind(direction), end.port, end.at_switch)
        return cls(PlaceKind.OTHER, text)

    @property
    def part(self) -> str:
        """Return its part; empty if the kind has no part."""
        return "" if self.kind in (PlaceKind.OTHER, *_OF_HOSTS) else part_of(self.at)

    @property
    def of_uplink(self) -> bool:
        """Say whether it is an end of a cable to another host, such as `left:u0`."""
        return _OF_HOST in self.at and self.kind not in (PlaceKind.OTHER, *_OF_HOSTS)

    def __str__(self) -> str:
        if self.kind in _OF_PARTS or (self.kind in _OF_HOSTS and self.at):
            return f"{self.kind} {self.at}"
        if self.kind in _OF_ENDS:
            return f"{PortEnd(self.at, self.at_switch)} {self.kind}"
        return self.kind or self.at


def _end(value: object) -> object:
    return PortEnd.parse(value) if isinstance(value, str) else value


def _place(value: object) -> object:
    return Place.parse(value) if isinstance(value, str) else value


_TEXT = WithJsonSchema({"type": "string"})

WrittenEnd = Annotated[PortEnd, BeforeValidator(_end), PlainSerializer(str, return_type=str), _TEXT]
"""An end of a port, as a member of a record."""

WrittenPlace = Annotated[
    Place, BeforeValidator(_place), PlainSerializer(str, return_type=str), _TEXT
]
"""A place, as a member of a record."""
