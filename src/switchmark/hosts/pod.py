"""A pod of a Kubernetes cluster as a host: `kubectl exec` runs the agent in its container."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.hosts.carried import Carried
from switchmark.hosts.ssh import SshHost


class PodHost(SshHost):
    """A pod. `kubectl` is the command with its options for the cluster; `container` is the
    container of the pod that gets the programs. `owner` is the run on this computer that deletes
    the pod."""

    joined_by = "pods"

    def __init__(
        self,
        name: str,
        pod: str,
        container: str,
        kubectl: Sequence[str],
        *,
        owner: str,
        carried: Carried | None = None,
    ) -> None:
        super().__init__(name, pod, carried=carried)
        self.owner = owner
        self._exec = (*kubectl, "exec", "-i", pod, "--container", container, "--")

    def _session(self) -> tuple[str, ...]:
        return (*self._exec, "/bin/sh", "-c")
