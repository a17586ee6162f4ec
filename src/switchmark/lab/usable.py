"""Check, before a run, whether hosts have what tests need. It uses the probes of a run and builds
nothing."""

from __future__ import annotations

from switchmark.errors import SwitchmarkError
from switchmark.hosts.base import Host
from switchmark.hosts.hosts import Hosts
from switchmark.lab.drawing import sketch
from switchmark.lab.probes import Probes
from switchmark.model.plan import Plan, Reserve
from switchmark.model.test import AXES, Test
from switchmark.path.assembly import construct
from switchmark.runs.hugepages import can_reserve

_OF_A_TRIAL = {
    name: axis.default
    for name, axis in AXES.items()
    if axis.changes == "trial" and axis.field.default_factory is None
}
"""Axes that only change the traffic or the measurement. They do not affect what a host must
have."""


class UsableHere:
    """Checks hosts and caches the results. Without `far`, other hosts are not contacted and count
    as suitable."""

    def __init__(self, hosts: Hosts, *, far: bool) -> None:
        self._far = far
        self._probes = Probes(hosts, keep_missing=True)
        self._known: dict[Test, bool] = {}

    def __call__(self, test: Test) -> bool:
        """Return whether the hosts of a valid test have everything that it needs."""
        path = test.model_copy(update={**_OF_A_TRIAL, "frame_size": test.frame_size})
        if path not in self._known:
            self._known[path] = self._looked(path)
        return self._known[path]

    def _looked(self, test: Test) -> bool:
        try:
            location = self._probes.locate(test)
            if location.names and not self._far:
                return True
            location.versions()
            path = sketch(location, lambda steps: _reservable(location.host, steps))
            return _reservable(location.host, construct(path))
        except SwitchmarkError:
            return False  # the run refuses the test with this reason


def _reservable(host: Host, steps: Plan) -> bool:
    return all(can_reserve(host, step.node) for step in steps if isinstance(step, Reserve))
