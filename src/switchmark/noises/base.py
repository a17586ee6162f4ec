"""The contract of a noise: background load on the host during a test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan
from switchmark.model.version import Version


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a noise."""

    prefix: str
    """The prefix of all its names."""
    run_dir: str
    """The folder of the run."""
    cpus: tuple[int, ...]
    """The CPUs that it uses; empty if the kernel chooses."""
    workers: int
    """The number of CPUs to keep busy."""


class Noise(ABC):
    """A noise keeps CPUs of the host busy. A driver defines its name, summary, `probe` and `start`.
    Its processes are Spawns, and must run until they are stopped."""

    name: str
    summary: str

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with the reason."""

    @abstractmethod
    def start(self, site: Site) -> Plan:
        """Return the steps that start the noise."""


def on_cpus(site: Site, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argv that pins a command and its children to the site's CPUs."""
    return ("taskset", "-c", ",".join(map(str, site.cpus)), *argv) if site.cpus else argv
