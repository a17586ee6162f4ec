"""This module knows what this host has of the switches, environments and other parts that tests
name: each is probed once in a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath

from switchmark import __version__
from switchmark.environments.base import Environment
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.hosts import Hosts
from switchmark.lab import profile
from switchmark.lab.prepare import followed
from switchmark.model.plan import HOST
from switchmark.model.test import Test
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.observe.facts import cpu_model, identity
from switchmark.path.hosts import home_of, hosts_of
from switchmark.path.placement import AUTO
from switchmark.path.resolving import drivers_of
from switchmark.switches.versions import is_build, probe_asked


class Probes:
    """This object asks hosts for versions and modes, and keeps the answers."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self._probed: dict[tuple[Host, str, str], Version] = {}

    def host_of(self, test: Test) -> Host:
        """Return the host that a test is on; of two the sender's, or this one if it is both."""
        names = hosts_of(test)
        apart = len(names) > 1 and self.hosts.between(names).foreign
        return self.hosts[names[0] if apart else home_of(test)]

    def far_of(self, test: Test) -> Host | None:
        """Return the second host of a test between two machines."""
        names = hosts_of(test)
        apart = len(names) > 1 and not self.hosts.between(names).one_machine
        return self.hosts[names[1]] if apart else None

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return what a figure depends on beside its axes: versions, and the placement that this
        host makes of `auto`. Unavailable if something is missing."""
        drivers = drivers_of(test)
        switch, engine = drivers.switch, drivers.engine
        ask = partial(probe_asked, switch)
        probes: dict[tuple[str, str], Callable[[Host], Version]] = {
            ("switch", test.switch): ask,
            ("engine", engine.name): engine.probe,
        }
        for environment in drivers.environments:
            probes["environment", environment.name] = environment.probe
        if test.noise is not None:
            kind, _ = parse_noise(test.noise)
            probes["noise", kind] = NOISES[kind].probe
        if test.profile is not None:
            probes["profile", "perf"] = profile.probe
        if not drivers.function.played:
            probes["function", test.function] = drivers.function.probe
        versions = {"switchmark": __version__}
        ours = self.of_switch(test)
        for host in (self.hosts[name] for name in hosts_of(test) or (HOST.host,)):
            on = f" on {host.name}" * (host.name != HOST.host)
            for (what, name), probe in probes.items():
                version = self.probe(what, name, probe, host)
                told = " ".join(filter(None, (version.text, version.mode)))
                versions[f"{what} {name}{on}"] = told
            if is_build(switch):
                program = self.probe("switch", test.switch, ask, host).program
                content = host.read(str(PurePath(program, switch.program_file)))
                digest = hashlib.sha256(content).hexdigest()[:16]
                versions[f"switch build{on}"] = digest
            if on:
                versions[on.strip()] = identity(host)
        if test.placement == AUTO:
            versions["placement"] = followed(self.host_of(test), test, ours.mode, self.far_of(test))
        return versions

    def booted(self, test: Test) -> tuple[str, str]:
        """Return the boot and the processor of a test's host, or of both: they are asked anew, as a
        host may have been booted since."""
        hosts = [self.hosts[name] for name in hosts_of(test) or (HOST.host,)]
        return ", ".join(map(boot_id, hosts)), ", ".join(map(cpu_model, hosts))

    def of_switch(self, test: Test) -> Version:
        """Return the version and mode of a test's switch, on two hosts the same."""
        ask = partial(probe_asked, drivers_of(test).switch)
        names = hosts_of(test) or (HOST.host,)
        one, *other = (self.probe("switch", test.switch, ask, self.hosts[name]) for name in names)
        if any(each.mode != one.mode for each in other):
            modes = f"{one.mode} on {names[0]} and {other[0].mode} on {names[1]}"
            raise Unavailable(f"switch {test.switch} is not the same on both hosts: {modes}")
        return one

    def of_programs(self, test: Test) -> Mapping[tuple[str, str], Version]:
        """Return what was found of the switch of a test, and of the function that it names unless
        the traffic program plays it, by host and name."""
        drivers = drivers_of(test)
        probes: dict[tuple[str, str], Callable[[Host], Version]] = {
            ("switch", test.switch): partial(probe_asked, drivers.switch)
        }
        if not drivers.function.played:
            probes["function", test.function] = drivers.function.probe
        return {
            (host, name): self.probe(what, name, probe, self.hosts[host])
            for host in hosts_of(test) or (HOST.host,)
            for (what, name), probe in probes.items()
        }

    def of_environment(self, environment: Environment, test: Test) -> Version:
        """Return the version and mode of an environment, and what it lacks where a test is."""
        host = self.hosts[(hosts_of(test) or (HOST.host,))[-1]]
        return self.probe("environment", environment.name, environment.probe, host)

    def probe(self, what: str, name: str, probe: Callable[[Host], Version], host: Host) -> Version:
        """Return what a probe finds on a host; it is asked once."""
        if (host, what, name) not in self._probed:
            self._probed[host, what, name] = probe(host)
        return self._probed[host, what, name]
