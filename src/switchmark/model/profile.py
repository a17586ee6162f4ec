"""This module says what CPUs did, as samples of it told: of one trial, and of a test.

Shares are of the time at work: a CPU that is idle does nothing. What is not known is None.
"""

from __future__ import annotations

from pydantic import Field

from switchmark.model.written import Written


class Shares(Written):
    """These shares say what some CPUs, or the threads of one part, spent their time on."""

    roles: tuple[str, ...] = ()
    """What is done there, where it is a part."""

    samples: int
    """How often they were met at work."""

    groups: dict[str, float]
    """By group of functions: `user` is all that is no kernel's, `guest` what a virtual machine ran,
    `other` all of the kernel that no group names."""

    symbols: dict[str, float]
    """By function of the kernel, the greatest first: those of 0.1 % and more, at most 40."""


class Profile(Written):
    """A profile says what the CPUs of a test did, by samples of `perf record`."""

    missing: str | None = None
    """Why there is none."""

    event: str
    """What was sampled: `cycles`, or `cpu-clock` where the processor has no counters."""

    hz: int
    """Samples a second of each CPU, at most."""

    lost: int = 0
    """Samples that perf could not keep."""

    sample_ns: float | None = None
    """What a sample took of its CPU, as a busy loop saw it before; None where it could not tell."""

    busy: float | None = None
    """The share of the samples that met a CPU at work; None of `cycles`, which stand still in a CPU
    that is not."""

    whole: Shares | None = None
    """Of all CPUs of the test."""

    cpus: dict[str, Shares] = Field(default_factory=dict)
    """By CPU."""

    parts: dict[str, Shares] = Field(default_factory=dict)
    """By place: `switch`, a part, or parts of one process joined by `+`."""
