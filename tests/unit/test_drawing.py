"""These tests check what the hosts of a test must have before its path is built."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import drawing
from switchmark.lab.probes import Location
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.model.version import Version
from switchmark.path.assembly import vm_megabytes
from switchmark.path.path import Path
from switchmark.path.resolving import resolve

MEMORY = b"MemTotal: 9000000 kB\nMemAvailable:    %d kB\nBuffers: 8 kB\n"
RPS = {"/sys/class/net/lo/queues/rx-0/rps_cpus": b"0"}


def path_of(**axes: Any) -> Path:
    return resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")


def checked(
    path: Path, *, kb: int = 2**20, files: dict[str, bytes] = RPS, missing: Any = None
) -> None:
    """Check a path against a host with so much memory, and environments that lack ports."""
    host = RecordingHost(files={"/proc/meminfo": MEMORY % kb, **files})
    probed = lambda environment: Version("1", missing=missing or {})  # noqa: E731
    location = SimpleNamespace(host=host, environment=probed)
    drawing._refuse_what_lacks(cast(Location, location), path)


def refused(path: Path, **options: Any) -> tuple[str, str | None]:
    """Return the reason why a host cannot build a path, and the hint."""
    with pytest.raises(Unavailable) as failed:
        checked(path, **options)
    return failed.value.message, failed.value.hint


@pytest.fixture
def rootless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "privileges", lambda: "user-namespace")


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "privileges", lambda: "root")


def test_what_a_host_has_is_not_refused() -> None:
    checked(path_of())
    checked(path_of(), files={}, kb=0)
    checked(path_of(switch_cores=2))
    checked(path_of(engine="dpdk", switch="testpmd"))


def test_a_kernel_without_rps_spreads_no_frames() -> None:
    assert refused(path_of(switch_cores=2), files={}) == (
        "this kernel has no RPS (CONFIG_RPS), by which frames are spread over CPUs behind a port "
        "that has one queue",
        "--switch-cores auto",
    )
    nics = {"scenario": "p2p", "nic": "a0=x:y,b0=z:w"}
    checked(path_of(switch_cores=2, **nics), files={})  # their queues are spread, without RPS
    refused(path_of(switch_cores=2, scenario="p2v", nic="a0=x:y"), files={})


def test_in_a_user_namespace_frames_are_not_spread(rootless: None) -> None:
    checked(path_of())
    assert refused(path_of(switch_cores=2)) == (
        "spreading frames over CPUs (RPS) needs real root, not root in a user namespace",
        "run it with sudo, or with --switch-cores auto",
    )


def test_an_engine_may_need_real_root(rootless: None) -> None:
    assert refused(path_of(engine="dpdk", switch="testpmd")) == (
        "engine dpdk needs real root, not root in a user namespace",
        "run it with sudo",
    )


def test_machines_need_as_much_memory_as_there_is() -> None:
    path = path_of(environment="vm")
    megabytes = vm_megabytes(path)
    assert megabytes > 0
    checked(path, kb=megabytes * 1024)
    checked(path, kb=megabytes * 1024 + 1023)
    assert refused(path, kb=megabytes * 1024 - 1) == (
        f"2 virtual machines need {megabytes} MB of memory; {megabytes - 1} MB are available",
        "--pairs with a smaller number",
    )


def test_a_port_that_its_environment_lacks_here_is_refused() -> None:
    lacks = {PortKind.VETH: ("no veth here", "modprobe veth")}
    assert refused(path_of(), missing=lacks) == ("no veth here", "modprobe veth")
    checked(path_of(scenario="p2p"), missing=lacks)  # its ends are in no environment
    checked(path_of(), missing={PortKind.TAP: ("no tap here", "modprobe tun")})


def test_a_reason_that_only_this_host_gives_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "refusal", "too little of it")
    assert refused(path_of()) == ("too little of it", None)


def test_a_limit_needs_a_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[object] = []
    monkeypatch.setattr(drawing, "check_cpu_limit", hosts.append)
    checked(path_of())
    assert hosts == []
    checked(path_of(cpu_limit="function:50"))
    assert [type(host) for host in hosts] == [RecordingHost]


def test_a_path_is_drawn_in_the_folder_of_a_run_or_under_placeholders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, ...]] = []
    path = path_of()

    def prepared(host: object, test: object, found: object, **options: Any) -> Path:
        asked.append((host, test, found, options))
        return path

    monkeypatch.setattr(drawing, "prepare", prepared)
    monkeypatch.setattr(
        drawing, "_refuse_what_lacks", lambda *arguments: asked.append(("lacks", *arguments))
    )
    monkeypatch.setattr(drawing, "check_capture", lambda path: asked.append(("capture", path)))
    location = cast(
        Location, SimpleNamespace(host="near", test="test", findings="found", far="far")
    )
    run: Any = SimpleNamespace(run="sm1a2b", folder="/run/x/sm1a2b")
    can: Any = object()
    names = {"prefix": "sm1a2b", "run_dir": "/run/x/sm1a2b", "can": can, "far": "far"}
    in_run = ("near", "test", "found", names)
    assert drawing.prepared(location, run, can) is path
    assert asked == [in_run]
    assert drawing.draw(location, run, can) is path
    assert drawing.draw(location, run, can, captured=True) is path
    lacks = ("lacks", location, path)
    assert asked[1:] == [in_run, lacks, in_run, lacks, ("capture", path)]
    asked.clear()
    assert drawing.sketch(location, can) is path
    placeholders = {**names, "prefix": "smPLAN", "run_dir": "/run"}
    assert asked == [("near", "test", "found", placeholders), lacks]
    asked.clear()
    drawing.sketch(location)
    assert asked[0][3]["can"](()) is True
