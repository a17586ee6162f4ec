"""The hosts of a test, and the results of probes there: the versions and modes of the switch, the
environments, the engine and more. A run executes a successful probe once per host."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import PurePath

from switchmark import __version__
from switchmark.environments.base import Environment
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.images import in_words
from switchmark.lab import profile
from switchmark.lab.prepare import followed
from switchmark.model.plan import HOST
from switchmark.model.test import Test
from switchmark.model.topology import Between, Findings, PortKind
from switchmark.model.version import Version
from switchmark.observe.facts import cpu_model, identity
from switchmark.path.hosts import home_of, hosts_of
from switchmark.path.images import engine_of
from switchmark.path.placement import AUTO
from switchmark.path.resolving import drivers_of
from switchmark.runs.pci import VFIO
from switchmark.switches.versions import is_build, probe_asked


class Probes:
    """Probes hosts for versions and modes, and caches the results.

    What is missing is probed again for the next test, as it may have come meanwhile. A command that
    asks for many tests at once remembers it, too (`keep_missing`)."""

    def __init__(self, hosts: Hosts, *, keep_missing: bool = False) -> None:
        self.hosts = hosts
        self._keep_missing = keep_missing
        self._probed: dict[tuple[Host, str, str], Version | Unavailable] = {}

    def locate(self, test: Test) -> Location:
        """Return the location of a test. Raise UsageError if it names too many hosts or too few."""
        return Location(test, self)

    def probe(self, kind: str, name: str, probe: Callable[[Host], Version], host: Host) -> Version:
        """Return the result of a probe on a host. A probe that finds something runs only once."""
        key = (host, kind, name)
        if key not in self._probed:
            try:
                self._probed[key] = probe(host)
            except Unavailable as error:
                if not self._keep_missing:
                    raise
                self._probed[key] = error
        result = self._probed[key]
        if isinstance(result, Unavailable):
            raise result.with_traceback(None)
        return result


class Location:
    """The hosts of a test, with the results of probes. Probes run when their result is needed. They
    raise Unavailable if something is missing."""

    def __init__(self, test: Test, probes: Probes) -> None:
        self.test = test
        self.names = hosts_of(test)
        """The names of the hosts that the test names, the sender's host first."""
        self.home = home_of(test)
        """The host for commands that name no host."""
        self._drivers = drivers_of(test)
        self._probes = probes

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """Return the hosts by name, the sender's host first. Without names, this is the local
        host."""
        return {name: self._probes.hosts[name] for name in self.names or (HOST.host,)}

    @cached_property
    def between(self) -> Between:
        """Return the connection between the two hosts."""
        return self._probes.hosts.between(self.names, self.test.switch)

    @property
    def host(self) -> Host:
        """Return the host of the measurement. With two hosts, this is the sender's host, or the
        local host if it is both."""
        apart = len(self.names) > 1 and self.between.foreign
        return self._probes.hosts[self.names[0] if apart else self.home]

    @property
    def far(self) -> Host | None:
        """Return the second host of a test between two machines."""
        apart = len(self.names) > 1 and not self.between.one_machine
        return self.hosts[self.names[1]] if apart else None

    def versions(self) -> Mapping[str, str]:
        """Return the versions that the figures depend on in addition to the axes, and the placement
        that this host uses for `auto`."""
        drivers, test = self._drivers, self.test
        probes: dict[tuple[str, str], Callable[[Host], Version]] = {
            ("switch", test.switch): self._ask_switch,
            ("engine", drivers.engine.name): drivers.engine.probe,
        }
        for name, switch in drivers.next_switches.items():
            probes["switch", name] = partial(probe_asked, switch)
        for environment in drivers.environments:
            probes["environment", environment.name] = environment.probe
        if drivers.noise is not None:
            probes["noise", drivers.noise.name] = drivers.noise.probe
        if test.profile is not None:
            probes["profile", "perf"] = profile.probe
        if not drivers.function.played:
            probes["function", test.function] = drivers.function.probe
        versions = {"switchmark": __version__}
        mode = self.switch.mode
        for host in self.hosts.values():
            on = f" on {host.name}" * (host.name != HOST.host)
            for (kind, name), probe in probes.items():
                version = self._probes.probe(kind, name, probe, host)
                versions[f"{kind} {name}{on}"] = " ".join(
                    filter(None, (version.text, version.mode))
                )
            if image := self._probed_switch(host).image:
                versions[f"switch image{on}"] = in_words(image)
            if is_build(drivers.switch):
                program = self._probed_switch(host).program
                content = host.read(str(PurePath(program, drivers.switch.program_file)))
                digest = hashlib.sha256(content).hexdigest()[:16]
                versions[f"switch build{on}"] = digest
            if on:
                versions[on.strip()] = identity(host)
        if PortKind.NIC_PCI in drivers.switch.port_kinds and (handed := self.between.handed):
            words = (f"{nic.driver or VFIO} of {host}" for (host, _), nic in handed.items())
            versions["cable by"] = ", ".join(words)
        if test.placement == AUTO:
            versions["placement"] = followed(self.host, test, mode, self.far)
        return versions

    @cached_property
    def booted(self) -> tuple[str, str]:
        """Return the boot ids and the processors of the hosts. Every location reads them again,
        because a host may have rebooted."""
        hosts = self.hosts.values()
        return ", ".join(map(boot_id, hosts)), ", ".join(map(cpu_model, hosts))

    @property
    def switch(self) -> Version:
        """Return the version and mode of the switch, which must be the same on both hosts."""
        found = [(name, self._probed_switch(host)) for name, host in self.hosts.items()]
        (near, one), (far, other) = found[0], found[-1]
        if not self._drivers.switch.is_alike(one, other):
            modes = f"{one.mode} on {near} and {other.mode} on {far}"
            raise Unavailable(f"switch {self.test.switch} is not the same on both hosts: {modes}")
        return one

    @property
    def findings(self) -> Findings:
        """Return the probe results that the path of the test depends on."""
        images = (version.image for version in self._programs.values())
        engines = (engine_of(image) for image in images if image)
        environments = dict.fromkeys((*self._drivers.environments, *engines))
        return Findings(
            between=self.between,
            mode=self.switch.mode,
            modes={
                environment.name: self.environment(environment).mode for environment in environments
            },
            programs=self._programs,
        )

    @property
    def _programs(self) -> Mapping[tuple[str, str], Version]:
        """Return the probe results by host and name, for the switch and for a function that is a
        program other than the traffic program."""
        function, name = self._drivers.function, self.test.function
        found = {
            (name, self.test.switch): self._probed_switch(self.hosts[name]) for name in self.hosts
        }
        for next_name, switch in self._drivers.next_switches.items():
            ask = partial(probe_asked, switch)
            found |= {
                (host_name, next_name): self._probes.probe("switch", next_name, ask, host)
                for host_name, host in self.hosts.items()
            }
        if not function.played:
            found |= {
                (host_name, name): self._probes.probe("function", name, function.probe, host)
                for host_name, host in self.hosts.items()
            }
        return found

    def environment(self, environment: Environment) -> Version:
        """Return the version and mode of an environment, and the features that it lacks on the last
        host of the test."""
        *_, last = self.hosts.values()
        return self._probes.probe("environment", environment.name, environment.probe, last)

    def _probed_switch(self, host: Host) -> Version:
        return self._probes.probe("switch", self.test.switch, self._ask_switch, host)

    def _ask_switch(self, host: Host) -> Version:
        return probe_asked(self._drivers.switch, host)
