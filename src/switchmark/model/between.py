"""This module holds what is between the two hosts of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Between:
    """`cables` are the interfaces that join the hosts, those of the first with those of the second;
    without any, veth pairs are made. `foreign` are the hosts that have a kernel, and so a clock, of
    their own; `one_machine` says that both hosts are the same machine. `emulated` says in what way
    the cables are none. `programs` are the paths of the traffic program on hosts that have it
    elsewhere. `doubts` are those that every trial there has."""

    cables: tuple[tuple[str, str], ...] = ()
    foreign: frozenset[str] = frozenset()
    one_machine: bool = False
    emulated: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


NOTHING = Between()
"""What is between the ends of a local test."""
