"""This module holds what is between the two hosts of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["NOTHING", "Between"]


@dataclass(frozen=True, slots=True)
class Between:
    """`cables` are the interfaces that join the hosts, those of the first with those of the second;
    without any, veth pairs are made. `foreign` are the hosts that have a kernel, and so a clock, of
    their own; `one_machine` says that both hosts are the same machine. `programs` are the paths of
    the traffic program on hosts that have it elsewhere."""

    cables: tuple[tuple[str, str], ...] = ()
    foreign: frozenset[str] = frozenset()
    one_machine: bool = False
    programs: Mapping[str, str] = field(default_factory=dict)


NOTHING = Between()
"""What is between the ends of a local test."""
