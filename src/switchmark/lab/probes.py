"""This module knows what this host has of the switches, environments and other parts that tests
name: each is probed once in a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial

from switchmark import __version__
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.lab.prepare import environments_of, followed
from switchmark.machine import profile
from switchmark.machine.host import Host
from switchmark.machine.placement import AUTO
from switchmark.model.spec import Test
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.versions import build_of, probe_asked

__all__ = ["Probes"]


class Probes:
    """This object asks a host for versions and modes, and keeps the answers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._probed: dict[tuple[str, str], Version] = {}

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return what a figure depends on beside its axes: versions, and the placement that this
        host makes of `auto`. Unavailable if something is missing."""
        switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
        probes = {("engine", engine.name): engine.probe}
        for name in environments_of(test):
            probes["environment", name] = ENVIRONMENTS[name].probe
        if test.noise is not None:
            kind, _ = parse_noise(test.noise)
            probes["noise", kind] = NOISES[kind].probe
        if test.profile is not None:
            probes["profile", "perf"] = profile.probe
        if not FUNCTIONS[test.function].played:
            probes["function", test.function] = FUNCTIONS[test.function].probe
        versions = {"switchmark": __version__}
        ours = self.of_switch(test)
        versions[f"switch {test.switch}"] = " ".join(filter(None, (ours.text, ours.mode)))
        if build := build_of(switch):
            versions["switch build"] = hashlib.sha256(self.host.read(build)).hexdigest()[:16]
        for (what, name), probe in probes.items():
            version = self.probe(what, name, probe)
            versions[f"{what} {name}"] = " ".join(filter(None, (version.text, version.mode)))
        if test.placement == AUTO:
            versions["placement"] = followed(self.host, test, ours.mode)
        return versions

    def of_switch(self, test: Test) -> Version:
        """Return the version and mode of a test's switch."""
        return self.probe("switch", test.switch, partial(probe_asked, SWITCHES[test.switch]))

    def of_environment(self, name: str) -> Version:
        """Return the version and mode of an environment, and what it lacks here."""
        return self.probe("environment", name, ENVIRONMENTS[name].probe)

    def probe(self, what: str, name: str, probe: Callable[[Host], Version]) -> Version:
        """Return what a probe finds on this host; it is asked once."""
        if (what, name) not in self._probed:
            self._probed[what, name] = probe(self.host)
        return self._probed[what, name]
