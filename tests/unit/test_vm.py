"""These tests check the environment vm, as far as no host is needed."""

from __future__ import annotations

import pytest

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import vm
from switchmark.environments.base import Attachment, Needs
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.qemu import QEMU_VARIABLE
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Node, Spawn, Wait
from switchmark.model.topology import Endpoint, PortKind, guest_devices

SWITCH, NODE = Node("sm0000-sw", "netns"), Node("sm0000-f0", "vm", run_dir="/run/switchmark/sm0000")
QEMU: dict[tuple[str, ...], bytes | Completed] = {
    ("qemu-system-x86_64", "--version"): b"QEMU emulator version 7.2.22 (Debian)\n"
}
KNOWN = "/cache/switchmark/kvm-c0ffee"
GUEST = {
    vm._guest("kernel"): b"",
    vm._guest("initramfs"): b"",
    "/proc/sys/kernel/random/boot_id": b"c0ffee\n",
}


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv(QEMU_VARIABLE, "qemu-system-x86_64")


def test_without_its_guest_it_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="the guest of environment vm was not built") as error:
        vm.ENVIRONMENT.probe(RecordingHost(QEMU))
    assert error.value.hint == "make setup PARTS=vm"


def test_kvm_is_used_only_if_a_guest_boots_on_it_and_that_is_found_out_once() -> None:
    boots: dict[tuple[str, ...], bytes | Completed] = {
        ("qemu-system-x86_64",): b"...\nswitchmark-agent 0.1.0\n",
        **QEMU,
    }
    host = RecordingHost(boots, files={**GUEST, "/dev/kvm": b""})
    assert vm.ENVIRONMENT.probe(host).mode == "kvm"
    assert host.files[KNOWN] == b"kvm"
    host = RecordingHost(QEMU, files={**GUEST, "/dev/kvm": b"", KNOWN: b"kvm"})
    assert vm.ENVIRONMENT.probe(host).mode == "kvm"
    assert len(host.ran) == 1
    fails: dict[tuple[str, ...], bytes | Completed] = {
        ("qemu-system-x86_64",): Completed(1, b"", b"KVM: entry failed"),
        **QEMU,
    }
    host = RecordingHost(fails, files={**GUEST, "/dev/kvm": b""})
    version = vm.ENVIRONMENT.probe(host)
    assert (version.text, version.mode) == ("7.2.22", "emulated (tcg)")


def test_vhost_net_is_used_where_it_is() -> None:
    host = RecordingHost(QEMU, files={**GUEST, "/dev/vhost-net": b""})
    mode = vm.ENVIRONMENT.probe(host).mode
    assert mode == "emulated (tcg), vhost-net"
    assert ",vhost=on" in " ".join(machine(mode).argv)
    assert ",vhost=off" in " ".join(machine(None).argv)


@pytest.mark.parametrize(
    ("version", "output", "missing"),
    [("7.2.22", b"emulated (tcg)", True), ("7.2.22", b"kvm", False), ("10.0.2", b"", False)],
)
def test_an_old_qemu_that_emulates_has_no_vhost_user_ports(
    version: str, output: bytes, missing: bool
) -> None:
    says: dict[tuple[str, ...], bytes | Completed] = {
        ("qemu-system-x86_64", "--version"): f"QEMU emulator version {version} (Debian)\n".encode()
    }
    files = {**GUEST, "/dev/kvm": b"", KNOWN: output}
    found = vm.ENVIRONMENT.probe(RecordingHost(says, files=files)).missing
    assert set(found) == ({PortKind.VHOST_USER} if missing else set())
    if missing:
        reason, hint = found[PortKind.VHOST_USER]
        assert "QEMU 7.2.22 crashes" in reason
        assert "QEMU 10.0 works" in reason
        assert hint.startswith("SWITCHMARK_QEMU=/")


def test_a_kernel_and_an_initramfs_can_be_named() -> None:
    argv = machine(None, image="/a b/vmlinuz:/x/initrd").argv
    assert argv[argv.index("-kernel") + 1] == "/a b/vmlinuz"
    assert argv[argv.index("-initrd") + 1] == "/x/initrd"
    for wrong in ("disk.qcow2", "/vmlinuz:", ":/initrd"):
        with pytest.raises(UsageError, match="must be KERNEL:INITRAMFS, not") as error:
            machine(None, image=wrong)
        assert "--image KERNEL:" in (error.value.hint or "")


def machine(mode: str | None, image: str | None = None) -> Spawn:
    end = Endpoint(PortKind.TAP, "02:53:4d:00:00:00", "sm0000-e0", "sm0000-p0")
    needs = Needs(mode=mode, image=image, attachments=(Attachment(end, SWITCH),))
    (spawn,) = vm.ENVIRONMENT.create(NODE, needs)
    assert isinstance(spawn, Spawn)
    return spawn


def test_a_machine_runs_on_kvm_where_the_probe_found_that_a_guest_boots_on_it() -> None:
    argv = machine("kvm").argv
    assert argv[argv.index("-accel") + 1] == "kvm"


def test_the_guest_has_programs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_AGENT", "/a b/switchmark-agent")
    argv = vm.ENVIRONMENT.inside(NODE, ("/a b/switchmark-traffic", "serve"))
    socket = "/run/switchmark/sm0000/sm0000-f0.sock"
    enter = ("/a b/switchmark-agent", "enter", socket, "--")
    assert argv == (*enter, "switchmark-traffic", "serve")
    assert vm.ENVIRONMENT.inside(NODE, ("ip", "link")) == (*enter, "ip", "link")


def test_a_port_is_an_interface_of_the_guest_or_a_device_past_its_kernel() -> None:
    socket = Endpoint(PortKind.VHOST_USER, "02:53:4d:00:00:00", path="/run/p0.sock")
    inside = vm.ENVIRONMENT.seen_inside(socket, 1, "sm0000-e1", past_kernel=False)
    assert (inside.ifname, inside.guest_device) == ("sm0000-e1", "")
    inside = vm.ENVIRONMENT.seen_inside(socket, 1, "sm0000-e1", past_kernel=True)
    assert (inside.ifname, inside.guest_device) == ("", "0000:00:11.0")
    assert guest_devices((socket, inside)) == ("0000:00:11.0",)
    for name in ("host", "netns"):
        assert ENVIRONMENTS[name].seen_inside(socket, 1, "sm0000-e1", past_kernel=True) is socket


def test_a_machine_that_dies_ends_the_wait_for_it() -> None:
    end = Endpoint(PortKind.TAP, "02:53:4d:00:00:00", "sm0000-e0", "sm0000-p0")
    wait, *_ = vm.ENVIRONMENT.attach(NODE, (Attachment(end, SWITCH),))
    assert isinstance(wait, Wait)
    assert wait.unless_dead == machine(None).name
