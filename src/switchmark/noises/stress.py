"""Workers of stress-ng repeat one operation, with one worker per CPU."""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGTERM

from switchmark.hosts.base import Host
from switchmark.hosts.programs import probe_version
from switchmark.model.plan import Plan, Spawn
from switchmark.model.version import Version
from switchmark.noises.base import Noise, Site, on_cpus


@dataclass(slots=True)
class Stress(Noise):
    """A class of stress-ng workers."""

    name: str
    """The name of the noise."""
    summary: str
    """The description of the noise, for lists."""
    stressor: str
    """The option of stress-ng for the number of workers."""
    options: tuple[str, ...] = ()
    """Further options of stress-ng."""

    def probe(self, host: Host) -> Version:
        """Return the version of stress-ng."""
        argv = ("stress-ng", "--version")
        hint = "apt-get install stress-ng"
        version, *_ = probe_version(host, argv, r"version (\S+?),? ", hint=hint)
        return Version(version, verified="verified")

    def start(self, site: Site) -> Plan:
        return (
            Spawn(
                f"noise: {self.summary}",
                f"{site.prefix}-noise",
                on_cpus(
                    site,
                    (
                        *("stress-ng", f"--{self.stressor}", str(site.workers), *self.options),
                        *("--timeout", "0", "--temp-path", site.run_dir, "--quiet"),
                    ),
                ),
                stop=(SIGTERM, 5.0),
            ),
        )


CPU = Stress("cpu", "computing", "cpu")
MEMORY = Stress("memory", "writing memory, 256 MiB per worker", "vm", ("--vm-bytes", "256m"))
CACHE = Stress("cache", "thrashing the cache that all CPUs share", "cache")
IO = Stress("io", "flushing pending writes to disks", "io")
