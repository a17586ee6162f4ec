"""This module says whether hosts have what tests need, before any of them is run: by looking, as a
run itself looks, and without building anything."""

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
"""A host is not asked again for what is only sent or measured otherwise."""


class UsableHere:
    """This object asks hosts and keeps the answers. Other hosts are asked only if they may be
    (`far`): without that all is taken to be there."""

    def __init__(self, hosts: Hosts, *, far: bool) -> None:
        self._far = far
        self._probes = Probes(hosts)
        self._known: dict[Test, bool] = {}

    def __call__(self, test: Test) -> bool:
        """Say whether a test that can work has all that it needs where it is."""
        path = test.model_copy(update={**_OF_A_TRIAL, "frame_size": test.frame_size})
        if path not in self._known:
            self._known[path] = self._looked(path)
        return self._known[path]

    def _looked(self, test: Test) -> bool:
        try:
            at = self._probes.locate(test)
            if at.names and not self._far:
                return True
            at.versions()
            path = sketch(at, lambda steps: _reservable(at.host, steps))
            return _reservable(at.host, construct(path))
        except SwitchmarkError:
            return False  # the run refuses it, with the reason


def _reservable(host: Host, steps: Plan) -> bool:
    return all(can_reserve(host, step.node) for step in steps if isinstance(step, Reserve))
