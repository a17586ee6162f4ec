"""Docker containers, in the user's daemon or, if it is not running, in a private daemon of the run.

The private daemon lives in PID, mount and network namespaces that end with a single process. When
that process dies, the containers and mounts disappear. Other processes do not see the daemon's
changes to system folders and sysctls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from signal import SIGKILL

from switchmark.environments.base import Needs
from switchmark.environments.containers import (
    ASLEEP,
    OfClient,
    cgroup_parent,
    cgroup_version,
    cgroups,
    configures_network,
    network,
    prefix_of,
    root_folder,
    root_of,
    version_of,
)
from switchmark.environments.netns import ENVIRONMENT as NETNS
from switchmark.environments.netns import no_ipv6
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.processes import MARK
from switchmark.model.plan import Check, Node, Plan, Run, Spawn, Wait
from switchmark.model.printable import last_lines
from switchmark.model.version import Version

_SOCKET = "unix:///var/run/docker.sock"
_USERS = re.compile(r"^daemon at unix://(\S.*?), cgroup ")
_LAYERED = ("/etc", "/opt")
"""Folders that the daemon reads and writes regardless of its options: a key in /etc/docker,
/opt/containerd. An overlay on each folder takes the writes."""
_KINDS = ("upper", "work")
_SYSCTLS = ("--security-opt", "systempaths=unconfined", "--security-opt", "apparmor=unconfined")


class Docker(OfClient):
    """`docker run` creates a container without a network; its namespace then gets the node's
    name."""

    name = "docker"
    create_s = 1.5

    def probe(self, host: Host) -> Version:
        """Return the version of the client; the mode names the daemon and the version of the host's
        control groups."""
        argv = ("docker", "version", "--format", "{{.Client.Version}}")
        text = self._client(host, argv)
        groups = cgroup_version(host)
        address = os.environ.get("DOCKER_HOST") or _SOCKET
        answer = host.run(("docker", "-H", address, "info", "--format", "{{.ServerVersion}}"))
        if answer.status == 0 and answer.stdout.strip():
            if not address.startswith("unix://"):
                raise Unavailable(
                    f"DOCKER_HOST names a daemon on another host, {address}: its containers "
                    "cannot be connected to a switch here",
                    hint="unset DOCKER_HOST",
                )
            return Version(text, mode=f"daemon at {address}, {groups}", verified="verified")
        if "DOCKER_HOST" in os.environ:
            raise Unavailable(
                f"the daemon at DOCKER_HOST={address} does not answer"
                f"\n  {last_lines(answer.stderr, 1)}",
                hint="unset DOCKER_HOST",
            )
        version_of(host, ("dockerd", "--version"), self.name)
        return Version(text, mode=f"private daemon, {groups}", verified="verified")

    def _client(self, host: Host, argv: tuple[str, ...]) -> str:
        """Return the client's version; without a running daemon the command prints it and exits
        with 1."""
        try:
            completed = host.run(argv)
        except Unavailable as missing:
            hint = f"make setup PARTS={self.name}"
            raise Unavailable("docker is not installed", hint=hint) from missing
        return completed.stdout.decode(errors="replace").strip() or "unknown"

    def create(self, node: Node, needs: Needs) -> Plan:
        users = _USERS.match(needs.mode or "")
        private = users is None
        if private and needs.image is not None and needs.mode is not None:
            raise Unavailable(
                f"the image {needs.image} is not available: no docker daemon is running here",
                hint="start the daemon (systemctl start docker), or name it with DOCKER_HOST",
            )
        empty = needs.image is None
        return (
            *cgroups(node),
            *(root_of(node) if empty else ()),
            *(_users_daemon(node, users[1]) if users else _private_daemon(node)),
            *(_image(node, needs, kept=private) if empty else ()),
            self.run(
                node,
                needs,
                (_image_name(node),),
                network="none",
                options=("--tmpfs", "/tmp", *(_SYSCTLS if configures_network(needs) else ())),
                undo=None if private else ("rm", "--force", node.name),
            ),
            *_named_network(node, private),
            no_ipv6(network(node)),
        )

    def hold(self, node: Node, folders: Sequence[str], mode: str | None) -> Plan:
        users = _USERS.match(mode or f"daemon at {_SOCKET}, cgroup ")
        if users is None:
            raise Unavailable(
                f"the image {node.image} is not available: no docker daemon is running here",
                hint="start the daemon (systemctl start docker), or name it with DOCKER_HOST",
            )
        return (
            *cgroups(node),
            *_users_daemon(node, users[1]),
            *self.holding(node, folders, options=(), undo=("rm", "--force", node.name)),
        )

    def client(self, node: Node) -> tuple[str, ...]:
        return _docker(node)


def _docker(node: Node) -> tuple[str, ...]:
    return ("docker", "-H", f"unix://{_socket(node)}")


def _socket(node: Node) -> str:
    return f"{node.run_dir}/docker.sock"


def _image_name(node: Node) -> str:
    return f"{prefix_of(node).lower()}-rootfs"


def _users_daemon(node: Node, path: str) -> Plan:
    return (
        Run(
            "the socket of the user's docker daemon",
            ("ln", "-sfn", path, _socket(node)),
            undo=("rm", "-f", _socket(node)),
        ),
    )


def _private_daemon(node: Node) -> Plan:
    """Start the run's private daemon. The steps are the same for all nodes of a run, so a plan
    contains them once."""
    home, place, name = f"{node.run_dir}/docker", _place(node), f"{prefix_of(node)}-dockerd"
    within = ("nsenter", f"--mount=/proc/${{{place}}}/ns/mnt")
    return (
        Run("a folder for docker", ("mkdir", "-p", f"{home}/tmp"), undo=("rm", "-rf", home)),
        Spawn(
            "namespaces that end with one process",
            place,
            (
                # In a separate network stack, the daemon does not turn on forwarding on the host.
                *("unshare", "--mount", "--propagation", "slave", "--net", "--pid", "--fork"),
                *("--kill-child", "--mount-proc", *ASLEEP),
            ),
            env={MARK: prefix_of(node)},
            stop=(SIGKILL, 5.0),
        ),
        Wait(
            "the namespaces are there",
            # The first process in the new namespaces carries the run's mark.
            Check(
                (
                    *("grep", "-z", f"^{MARK}={prefix_of(node)}$"),
                    f"/proc/${{{place}}}/root/proc/1/environ",
                )
            ),
            unless_dead=place,
        ),
        *_private_folders(node.run_dir, home, within),
        Spawn(
            "the run's private docker daemon",
            name,
            (
                *(*within, f"--net=/proc/${{{place}}}/ns/net"),
                *(f"--pid=/proc/${{{place}}}/ns/pid_for_children", "dockerd"),
                *("--data-root", f"{home}/data", "--exec-root", f"{home}/exec"),
                *("--pidfile", f"{home}/pid", "-H", f"unix://{_socket(node)}"),
                *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false"),
                *("--userland-proxy=false", "--exec-opt", "native.cgroupdriver=cgroupfs"),
                *("--cgroup-parent", cgroup_parent(node)),
            ),
            # containerd, as root, writes its stacks there under a predictable name.
            env={"TMPDIR": f"{home}/tmp"},
            stop=(SIGKILL, 5.0),
        ),
        Wait(
            "the docker daemon answers",
            Check((*_docker(node), "version")),
            timeout_s=20.0,
            unless_dead=name,
        ),
    )


def _private_folders(visible: str, home: str, within: tuple[str, ...]) -> Plan:
    """Replace host folders in the daemon's mount namespace: a /run that contains only the folder
    `visible`, because containerd and docker always create sockets there, and overlays on the
    folders that it also reads."""
    run = f"{home}/run{visible.removeprefix('/run')}"
    layers = {folder: f"{home}{folder}" for folder in _LAYERED}
    return (
        Run(
            "folders that no option of the daemon moves",
            (
                "mkdir",
                "-p",
                run,
                *(f"{name}-{kind}" for name in layers.values() for kind in _KINDS),
            ),
        ),
        *(
            Run(
                f"the daemon's writes to {folder} stay in the run's folder",
                (
                    *(*within, "mount", "-t", "overlay", "overlay", "-o"),
                    f"lowerdir={folder},upperdir={layer}-upper,workdir={layer}-work",
                    folder,
                ),
            )
            for folder, layer in layers.items()
        ),
        Run(f"{visible} in a private /run", (*within, "mount", "--bind", visible, run)),
        Run(
            "the daemon sees the private /run", (*within, "mount", "--rbind", f"{home}/run", "/run")
        ),
    )


def _place(node: Node) -> str:
    return f"{prefix_of(node)}-docker"


def _image(node: Node, needs: Needs, *, kept: bool) -> Plan:
    """Create an image of the empty root; the run's private daemon takes its image along when it
    ends."""
    root, name = root_folder(node), _image_name(node)
    return (
        Run("the root as an archive", ("tar", "-C", root, "-cf", f"{root}.tar", ".")),
        Run(
            "an image of the archive",
            (*_docker(node), "import", f"{root}.tar", name),
            undo=None if kept else (*_docker(node), "rmi", "--force", name),
            timeout_s=30.0,
        ),
    )


def _named_network(node: Node, private: bool) -> Plan:
    pid = f"{node.name}-pid"
    inspected = Run(
        f"the first process of {node.name}",
        (*_docker(node), "inspect", "--format", "{{.State.Pid}}", node.name),
        save=pid,
    )
    undo = ("ip", "netns", "del", node.name)
    why = f"its network namespace is named {node.name}"
    if not private:
        return (inspected, Run(why, ("ip", "netns", "attach", node.name, f"${{{pid}}}"), undo=undo))
    # The PID is from the daemon's PID namespace.
    path = f"/proc/${{{_place(node)}}}/root/proc/${{{pid}}}/ns/net"
    place = NETNS.netns(node) or ""
    return (
        inspected,
        # `ip` also turns its folder into a separate mount. If that happened later, for another
        # namespace, the recursive bind would mount this namespace twice, and it would never
        # disappear.
        Run("a mount point for a network namespace", ("ip", "netns", "add", node.name), undo=undo),
        Run("its initial namespace is removed", ("umount", "--lazy", place)),
        Run(why, ("mount", "--bind", path, place)),
    )


ENVIRONMENT = Docker()
