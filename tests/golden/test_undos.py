"""These tests read every undo of every plan: it touches what the plan made, by the run's prefix or
below the run's folder, or gives back what the user lent."""

from __future__ import annotations

import itertools
import re
import shlex
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.model.plan import HOST, Folder, Plan, Reserve, Run, Spawn, Wait, Write
from switchmark.model.test import Test
from switchmark.noises import TABLE as NOISES
from switchmark.noises.base import Site
from switchmark.path.assembly import build
from switchmark.path.refusals import can_work
from switchmark.path.resolving import resolve
from switchmark.runs.pci import Device, _give, _remember
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES

RUN, FOLDER = "sm3f2a", "/run/switchmark/sm3f2a"
_WAYS = ("raw-mmsg", "udp-mmsg", "dpdk", "netmap")
_WITH_NODES = ("p2v", "loopback")

NAME = rf"{RUN}-[\w.-]+"
FILE = rf"{FOLDER}(?:/[\w-][\w.-]*)+"
NIC = r"(?:NIC|nic\d|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
DEVICE = r"/sys/bus/pci/devices/0000:03:00\.0"
PODMAN = rf"(?:env CONTAINERS_CONF={FILE} )?podman (?:--[\w-]+ [\w./=-]+ )+"
ALLOWED = (
    rf"ip netns del {NAME}",
    rf"ip link del {NAME}",
    rf"ip link set (?:{NAME}|{NIC}) nomaster",
    rf"ip link set dev {NAME} xdp\w+ off",
    rf"tc qdisc del dev {NAME} clsact",
    rf"ip -n {NAME} link set {NIC} netns 1",
    rf"rm -r?f (?:--one-file-system )?(?:{FILE}|/dev/shm/{NAME})(?: {FILE}| /dev/shm/{NAME})*",
    rf"sh -c 'rm -rf \"\$1\"; rmdir --ignore-fail-on-non-empty \"\${{1%/\*}}\"' sh {FILE}",
    rf"rmdir /sys/fs/cgroup(?:/cpu)?/{NAME}",
    rf"find /sys/fs/cgroup -depth -type d -path '\*/{RUN}-\*' -delete",
    rf"lxc-stop -n {NAME} -k",
    rf"{PODMAN}rm --force --ignore --time 0 {NAME}",
    r"sh -c 'timeout 5 tail --pid=\"\$\(cat \"\$1\"\)\" -s 0\.01 -f /dev/null 2>/dev/null "
    rf"\|\| true' sh {FILE}",
    rf"docker -H unix://{FILE} (?:rm|rmi) --force {NAME}",
    rf"nft delete table ip {NAME}",
    rf"unshare --mount sh {FILE} DEL {NAME} /usr/lib/cni/[\w-]+ /run/netns/{NAME} {FILE}"
    r" /var/lib/cni /run/cni <\{.*\}",
    rf"vale-ctl -d vale{RUN}\w*:{NAME}",
    r"tee /sys/bus/pci/drivers_probe <0000:03:00\.0",
    rf"tee {DEVICE}/driver_override <",
    r"tee /sys/bus/pci/drivers/vfio-pci/unbind <0000:03:00\.0",
    rf"sh -c '\[ -e \"\$1\" \] \|\| exit 0; for n in .*' sh {DEVICE} eth1 up",
)
"""How undos look. One that looks otherwise is refused, until somebody has read it and put it
here."""

WRITTEN = (
    FILE,
    rf"/sys/fs/cgroup(?:/cpu)?/{NAME}/cpu\.(?:max|cfs_quota_us)",
    rf"/sys/class/net/{NIC}/(?:flags|mtu|device/sriov_\w+)",
)
SETTINGS = r"/proc/sys/net/[\w./-]+"


def _engines(switch: str) -> list[str]:
    """Return engines that a switch can join."""
    kinds = set(SWITCHES[switch].port_kinds)
    return [name for name in _WAYS if kinds & ENGINES[name].port_kinds]


def plans() -> Iterator[tuple[str, Plan]]:
    """Yield the plan of every switch in every scenario and environment, of functions and of the
    switch, with the ports that it can have, and what else has undos."""
    variants: tuple[dict[str, Any], ...] = (
        {"chain": 2, "direction": "bi"},
        {"pairs": 2},
        {"cpu_limit": "function:50"},
        {"cpu_limit": "50", "memory": "no-huge"},
        {"nic": "a0=nic0:nic1"},
        {"locality": "remote", "hosts": "left,right"},
    )
    places = (
        {"environment": environment, "switch_environment": place, "scenario": scenario}
        for environment in ENVIRONMENTS
        for place in dict.fromkeys(("netns", "host", environment))
        for scenario in (SCENARIOS if (environment, place) == ("netns", "netns") else _WITH_NODES)
    )
    for switch, axes in itertools.product(SWITCHES, [*places, *variants]):
        for engine in _engines(switch):
            test = Test.model_validate({"switch": switch, "engine": engine, **axes})
            if can_work(test):
                yield f"{switch} {axes}", build(resolve(test, prefix=RUN, run_dir=FOLDER))
                break
    for kind, noise in NOISES.items():
        site = Site(prefix=RUN, run_dir=FOLDER, cpus=(0, 2), workers=2)
        yield kind, noise.start(site)
    device = Device("0000:03:00.0", "8086:1572", "i40e", ("eth1",), "7")
    yield "a NIC", (*_remember([device], {device.address: ["eth1"]}), *_give(device, "vfio-pci"))


def strange(plan: Plan) -> Iterator[str]:
    """Yield what a plan would take back that it did not make."""
    for step in plan:
        match step:
            case Run(undo=tuple(undo)):
                fed = "" if step.undo_stdin is None else f" <{step.undo_stdin.decode().strip()}"
                text = f"{shlex.join(undo)}{fed}"
                if not any(re.fullmatch(pattern, text) for pattern in ALLOWED):
                    yield text
            case Write() if step.at.environment == HOST.environment:
                allowed = (SETTINGS,) if step.machine_wide else WRITTEN
                if not any(re.fullmatch(pattern, step.path) for pattern in allowed):
                    yield f"write {step.path}"
            case Folder() if step.path.count("/") < 2 or ".." in step.path:
                yield f"folder {step.path}"
            case Spawn() if step.stop[0] not in (0, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
                yield f"signal {step.stop[0]}"
            case Run() | Write() | Folder() | Spawn() | Wait() | Reserve():
                pass


def test_every_undo_touches_what_its_plan_made_and_nothing_else() -> None:
    count = 0
    wrong: dict[str, str] = {}
    for name, plan in plans():
        count += 1
        wrong |= {undo: name for undo in strange(plan) if undo not in wrong}
    assert wrong == {}
    assert count > 300


@pytest.mark.parametrize(
    "undo",
    [
        ("rm", "-rf", ""),
        ("rm", "-rf", "/"),
        ("rm", "-rf", FOLDER),
        ("rm", "-rf", f"{FOLDER}/../sm0000"),
        ("rm", "-rf", f"{FOLDER}/a", "/home"),
        ("ip", "link", "del", "eth0"),
        ("ip", "netns", "del", "sm0000-sw"),
        ("ip", "netns", "del", ""),
        ("rmdir", f"/sys/fs/cgroup/{RUN}"),
        ("find", "/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*", "-delete"),
        ("kill", "-9", "-1"),
    ],
    ids=shlex.join,
)
def test_an_undo_of_something_else_is_strange(undo: tuple[str, ...]) -> None:
    assert list(strange((Run("", ("true",), undo=undo),))) == [shlex.join(undo)]
