"""This module decides which tests can be measured on one path, one after the other. Pure; it reads
no table."""

from __future__ import annotations

from collections.abc import Hashable

from switchmark.model.test import AXES, Test
from switchmark.model.units import mtu_for

RX_BURST = 64
"""Frames that a receiver takes at once: every port has buffers for so many."""

_OF_A_PATH = tuple(name for name, axis in AXES.items() if axis.changes != "trial")
"""The axes of which another value needs another path; all others are what the traffic program is
told for each trial, and who makes noise beside it."""


def path_key(test: Test) -> Hashable:
    """Return what a path depends on: tests of one key can be measured on one, one after the other.

    Every axis but those that only a trial needs. Interfaces have the MTU of a longer frame, and
    DPDK's ports the buffers for a longer burst: no figure depends on which other tests there are.
    """
    fixed = tuple(getattr(test, axis) for axis in _OF_A_PATH)
    return (*fixed, mtu_for(test.frame_size), max(test.burst, RX_BURST))


def shares_path(a: Test, b: Test | None) -> bool:
    """Say whether what is up for `a` serves `b` too."""
    return b is not None and path_key(a) == path_key(b)
