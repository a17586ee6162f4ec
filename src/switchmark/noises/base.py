"""This module says what a noise must offer: other work on the host while a test is measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan
from switchmark.model.version import Version


@dataclass(frozen=True, slots=True)
class Site:
    """This record says where a noise is made. `prefix` begins the names of all that it makes,
    `run_dir` is the run's folder. `cpus` are those that it keeps to (empty: wherever the kernel
    likes), `workers` how many of them it is to keep busy."""

    prefix: str
    run_dir: str
    cpus: tuple[int, ...]
    workers: int


class Noise(ABC):
    """A noise keeps CPUs of the host busy. A driver says its name, a summary, `probe` and `start`.
    Its processes are Spawns, which must live until they are stopped."""

    name: str
    summary: str

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with what is missing."""

    @abstractmethod
    def start(self, site: Site) -> Plan:
        """Return the steps that start the noise."""


def on_cpus(site: Site, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argv that keeps a command, and what it starts, on the site's CPUs."""
    return ("taskset", "-c", ",".join(map(str, site.cpus)), *argv) if site.cpus else argv
