"""The pods of a measurement in a Kubernetes cluster: made by kubectl, and deleted by it at the end
of the run or by `clean`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from switchmark.hosts.base import Host
from switchmark.hosts.carried import Carried
from switchmark.hosts.host_file import LOCAL
from switchmark.hosts.local import LocalHost
from switchmark.hosts.pod import PodHost
from switchmark.hosts.programs import TOOL, TRAFFIC, program_path
from switchmark.model.plan import Plan, Run
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace

IMAGE = "debian:stable-slim"
"""The image of the pods: the agent and the traffic program need its shell, its coreutils and a
glibc that is as old as this computer's, or newer."""

SENDER, SAME, OTHER = "sender", "same-node", "other-node"
CONTAINER = "traffic"
_LABEL = "switchmark"
_READY_S = 180
_DELETE_S = 60
_DEADLINE_S = 86400


@dataclass(frozen=True, slots=True)
class Cluster:
    """The way to a cluster, and the pods to make there."""

    kubeconfig: Path | None = None
    """The file for kubectl; None for its default."""
    context: str | None = None
    """The context in that file; None for the current one."""
    namespace: str | None = None
    """The namespace of the pods; None for that of the context."""
    image: str = IMAGE
    """The image of the pods."""
    node: str | None = None
    """The node of the sender; None if the cluster chooses."""
    receivers: tuple[str, ...] = (SAME, OTHER)
    """The pods that receive."""

    @property
    def kubectl(self) -> tuple[str, ...]:
        """Return the command with its options for the cluster."""
        options = (
            ("--kubeconfig", self.kubeconfig and str(self.kubeconfig.absolute())),
            ("--context", self.context),
            ("--namespace", self.namespace),
        )
        return ("kubectl", *(word for name, value in options if value for word in (name, value)))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the pods as hosts."""
        return (SENDER, *self.receivers)


def pod_name(run: str, host: str) -> str:
    """Return the name of a pod in the cluster."""
    return f"switchmark-{run}-{host}"


def manifest(cluster: Cluster, run: str, host: str) -> Mapping[str, Any]:
    """Return the manifest of a pod. A receiver refers to the node of the sender by the name that
    `pods_plan` saves."""
    node = f"${{{run}-node}}"
    placed: dict[str, Any] = {}
    if host == SENDER and cluster.node:
        placed = {"nodeName": cluster.node}
    elif host == SAME:
        placed = {"nodeName": node}
    elif host == OTHER:
        elsewhere = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [elsewhere]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        placed = {"affinity": {"nodeAffinity": required}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(run, host), "labels": {_LABEL: run}},
        "spec": {
            **placed,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            # The pod ends by itself if this computer is gone for good.
            "activeDeadlineSeconds": _DEADLINE_S,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": cluster.image,
                    "command": ["sleep", "infinity"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def pods_plan(cluster: Cluster, run: str) -> Plan:
    """Return the steps that make the pods and wait until they run: the sender, then the receivers,
    which depend on its node."""
    kubectl = cluster.kubectl
    # Without this step, an undo would be left that needs a cluster out of reach.
    may = (*kubectl, "auth", "can-i", "create", "pods")
    steps: Plan = (Run("the cluster lets this user make pods", may, timeout_s=_READY_S),)
    for host in cluster.names:
        name = pod_name(run, host)
        delete = (*kubectl, "delete", "pod", name, "--ignore-not-found", "--grace-period=1")
        steps += (
            Run(
                f"the pod {name}",
                (*kubectl, "create", "-f", "-"),
                stdin=json.dumps(manifest(cluster, run, host)).encode(),
                undo=(*delete, "--wait=true", f"--timeout={_DELETE_S}s"),
                timeout_s=_DELETE_S,
            ),
            Run(
                f"{name} runs",
                (
                    *(*kubectl, "wait", "--for=condition=Ready", f"pod/{name}"),
                    f"--timeout={_READY_S}s",
                ),
                timeout_s=_READY_S + 10.0,
            ),
        )
        if host == SENDER:
            path = "jsonpath={.spec.nodeName}"
            get = (*kubectl, "get", "pod", name, "-o", path)
            steps += (Run(f"the node of {name}", get, save=f"{run}-node"),)
    return steps


class Pods:
    """The pods of a measurement, within a `with` block. `hosts` are the pods as hosts, by name."""

    def __init__(self, cluster: Cluster, logs_dir: Path) -> None:
        self._cluster = cluster
        self._logs_dir = logs_dir
        self._ending = ExitStack()
        self.hosts: Mapping[str, Host] = {}
        self.left: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        with ExitStack() as ending:
            workspace = ending.enter_context(Workspace())
            executor = Executor(
                {LOCAL: LocalHost()},
                workspace,
                inside=lambda node, argv: argv,
                logs_dir=self._logs_dir,
            )
            ending.callback(self._delete, executor)
            executor.execute(pods_plan(self._cluster, workspace.run))
            programs = tuple(program_path(name) for name in (TRAFFIC, TOOL))
            self.hosts = {
                host: PodHost(
                    host,
                    pod_name(workspace.run, host),
                    CONTAINER,
                    self._cluster.kubectl,
                    owner=workspace.run,
                    carried=Carried(*programs),
                )
                for host in self._cluster.names
            }
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *ended: object) -> None:
        for host in self.hosts.values():
            host.close()
        self._ending.close()

    def _delete(self, executor: Executor) -> None:
        self.left = tuple(executor.unwind())


def hosts_axes(cluster: Cluster) -> Sequence[str]:
    """Return the values of the axis `hosts`: the sender with each receiver."""
    return [f"{SENDER},{receiver}" for receiver in cluster.receivers]
