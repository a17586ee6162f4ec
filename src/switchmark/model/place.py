"""Places on a path where frames are counted, and where they are lost.

A place has one spelling, which records keep: `f0@switch in`, `ring f1`. A place that this version
does not know is kept as it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_AT_SWITCH = "@switch"
_OF_HOST = ":"


def part_of(port: str) -> str:
    """Return the part that a port is of: `f1` of `f1.0`."""
    return port.partition(".")[0]


@dataclass(frozen=True, slots=True)
class PortEnd:
    """One of the two ends of a port: `f0`, at its part, or `f0@switch`, at the switch."""

    port: str
    """The port, such as `f0` or `f1.0`."""

    at_switch: bool = False
    """It is the end at the switch, not the one that the part has opened."""

    @classmethod
    def parse(cls, text: str) -> PortEnd:
        """Return the end that is written like this."""
        return cls(text.removesuffix(_AT_SWITCH), text.endswith(_AT_SWITCH))

    def __str__(self) -> str:
        return self.port + _AT_SWITCH * self.at_switch


class PlaceKind(StrEnum):
    """The kinds of places where frames are lost."""

    RING = "ring"
    """A receiver's socket or ring was full."""

    ENGINE = "engine"
    """The engine of a part dropped it, at one of its ports."""

    FUNCTION = "function"
    """A function of a chain did not pass it on."""

    OUT = "out"
    """An end of a port had no room for it when it was to leave there."""

    IN = "in"
    """An end of a port had no room for it when it came in there."""

    TO_SWITCH = "to switch"
    """It was sent and did not enter the switch; nobody says at which port."""

    INSIDE_SWITCH = "inside switch"
    """It entered the switch, between two hosts that of one, and did not leave it, and no counter
    says why."""

    FROM_SWITCH = "from switch"
    """It left the switch and was not received; nobody says at which port."""

    CABLE = "cable"
    """It left one host by a cable and did not come in at the other."""

    CORRUPTED = "corrupted"
    """It came with a wrong checksum or wrong bytes."""

    STRAY = "stray"
    """It came to a receiver which it was not for."""

    LATE = "late"
    """It came when the trial was over."""

    BEYOND = "beyond"
    """So many later ones came before it that nobody can tell whether it had come already."""

    OTHER = ""
    """What this version has no word for."""


_OF_PARTS = (PlaceKind.RING, PlaceKind.ENGINE, PlaceKind.FUNCTION)
_OF_ENDS = (PlaceKind.OUT, PlaceKind.IN)
_OF_HOSTS = (PlaceKind.CABLE, PlaceKind.INSIDE_SWITCH)
_OF_PATH = frozenset(PlaceKind) - {*_OF_PARTS, *_OF_ENDS, PlaceKind.OTHER}


@dataclass(frozen=True, slots=True)
class Place:
    """A place where frames are lost: of some kind, at a port or a function."""

    kind: PlaceKind
    """What kind of place it is."""

    at: str = ""
    """The port, the function, the host or the cable that it is at; empty where the kind says all.
    Of `other` the whole text."""

    at_switch: bool = False
    """It is at the switch's end of the port, not at the part's."""

    @classmethod
    def ring(cls, port: str) -> Place:
        """Return the place of a receiver's socket or ring."""
        return cls(PlaceKind.RING, port)

    @classmethod
    def engine(cls, port: str) -> Place:
        """Return the place of an engine, at a port."""
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
        """Return the place that is written like this."""
        word, _, rest = text.partition(" ")
        if word in _OF_PARTS and rest:
            return cls(PlaceKind(word), rest)
        if text in _OF_PATH:
            return cls(PlaceKind(text))
        for kind in _OF_HOSTS:
            if text.startswith(f"{kind} "):
                return cls(kind, text.removeprefix(f"{kind} "))
        where, _, direction = text.rpartition(" ")
        if direction in _OF_ENDS and where:
            end = PortEnd.parse(where)
            return cls(PlaceKind(direction), end.port, end.at_switch)
        return cls(PlaceKind.OTHER, text)

    @property
    def part(self) -> str:
        """Return the part at which it is; empty where the kind names none."""
        return "" if self.kind in (PlaceKind.OTHER, *_OF_HOSTS) else part_of(self.at)

    @property
    def of_uplink(self) -> bool:
        """Say whether it is at the end of a cable to another host, such as `left:u0`."""
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
"""An end of a port as a member of a record."""

WrittenPlace = Annotated[
    Place, BeforeValidator(_place), PlainSerializer(str, return_type=str), _TEXT
]
"""A place as a member of a record."""
