"""Test hosts: network namespaces of this machine, each with its own sshd, keys, processes, /run and
home. They listen only on the addresses of the test.

`two_hosts()` and `one_host()` make them; the fixtures `ssh_host` and `ssh_hosts` of conftest.py use
these. `SshdHost.options` are the options of an ssh client for one of them, and `write_host_file`
writes the host file of a user.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from switchmark.hosts.base import Host
from switchmark.hosts.ssh import SshHost

SSHD = "/usr/sbin/sshd"
_READY_S = 20.0

_CONFIG = """\
ListenAddress {address}:22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
X11Forwarding no
AllowTcpForwarding no
MaxStartups 100
SetEnv HOME={folder}/home XDG_CACHE_HOME={folder}/home/.cache XDG_RUNTIME_DIR=
{more}
"""

_BEGIN = """\
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -m 755 /run/sshd /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup
exec /usr/sbin/sshd -D -e -f "$1"
"""


@dataclass
class SshdHost:
    """A test host: its name, the address of its sshd, and its network namespace. Its clocks are
    `ahead_s` ahead of this machine's."""

    name: str
    address: str
    netns: str
    folder: Path
    options: tuple[str, ...]
    more: str = ""
    ahead_s: int = 0
    sshd: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the command that enters its network namespace only."""
        return ("nsenter", f"--net=/run/netns/{self.netns}")

    def connect(self) -> SshHost:
        """Return the host as switchmark reaches it. The caller closes it."""
        return SshHost(self.name, f"root@{self.address}", self.options)

    def boot(self) -> None:
        """Start it: its sshd is the first process of its PID namespace."""
        config = self.folder / "sshd_config"
        config.write_text(_CONFIG.format(address=self.address, folder=self.folder, more=self.more))
        apart = (
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            *(("--time", "--monotonic", str(self.ahead_s)) if self.ahead_s else ()),
        )
        with (self.folder / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(
                (*self.enter, *apart, "sh", "-c", _BEGIN, "sh", str(config)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_S
        while b"Server listening" not in (self.folder / "sshd.log").read_bytes():
            assert self.sshd.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def die(self) -> None:
        """End it like a power cut: all of its processes at once. Its addresses stay."""
        if self.sshd is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.sshd.pid, signal.SIGKILL)
        self.sshd.wait()
        self.sshd = None
        (self.folder / "sshd.log").write_bytes(b"")

    def drop_connections(self) -> None:
        """End its connections, as a broken link eventually does."""
        self.exec("sh", "-c", "ss -K state established sport = :22 >/dev/null")

    def exec(self, *argv: str) -> str:
        """Run a command in its network namespace, next to its sshd. Return its output."""
        return subprocess.run(
            (*self.enter, *argv), check=True, capture_output=True, text=True
        ).stdout

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text(errors="replace")


def write_host_file(path: Path, hosts: Sequence[SshdHost], extra: str = "") -> Path:
    """Write the host file that names these hosts; return its path."""
    text = ""
    for host in hosts:
        options = ", ".join(f'"{option}"' for option in host.options)
        text += (
            f'[hosts.{host.name}]\naddress = "root@{host.address}"\nssh-options = [{options}]\n\n'
        )
    path.write_text(text + extra)
    return path


@contextmanager
def one_host(folder: Path, name: str = "a", text: str = "", ahead_s: int = 0) -> Iterator[SshdHost]:
    """Make a test host of that name; `text` has further lines of its sshd's configuration."""
    tag = secrets.token_hex(2)
    netns, near, far = f"st{tag}-{name}", f"st{tag}{name}0", f"st{tag}{name}1"
    # Others may have test hosts on this machine, too.
    net = f"198.{18 + secrets.randbelow(2)}.{secrets.randbelow(256)}.{4 * secrets.randbelow(64)}"
    start, _, last = net.rpartition(".")
    local_ip, theirs = f"{start}.{int(last) + 1}", f"{start}.{int(last) + 2}"
    folder = folder / name
    (folder / "home").mkdir(parents=True)
    for key in ("host_key", "user_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"{folder}/{key}")
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    know(folder, theirs)
    options = (
        f"IdentityFile={folder}/user_key",
        "IdentitiesOnly=yes",
        f"UserKnownHostsFile={folder}/known_hosts",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
    )
    host = SshdHost(name, theirs, netns, folder, options, text, ahead_s)
    with ExitStack() as stack:
        _run("ip", "netns", "add", netns)
        stack.callback(_run, "ip", "netns", "del", netns)
        _run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", netns)
        stack.callback(subprocess.run, ("ip", "link", "del", near), capture_output=True)
        _run("sysctl", "-q", "-w", f"net.ipv6.conf.{near}.disable_ipv6=1")
        _run("ip", "addr", "add", f"{local_ip}/30", "dev", near)
        _run("ip", "link", "set", near, "addrgenmode", "none")
        _run("ip", "link", "set", near, "up")
        _run("ip", "-n", netns, "addr", "add", f"{theirs}/30", "dev", far)
        _run("ip", "-n", netns, "link", "set", far, "up")
        _run("ip", "-n", netns, "link", "set", "lo", "up")
        stack.callback(host.die)
        host.boot()
        yield host


@contextmanager
def two_hosts(folder: Path, ahead_s: int = 0) -> Iterator[tuple[SshdHost, SshdHost]]:
    """Make the test hosts `a` and `b`, whose clocks are ahead. Only this machine joins them."""
    with one_host(folder, "a") as a, one_host(folder, "b", ahead_s=ahead_s) as b:
        yield a, b


def left_on(host: SshdHost, connection: Host | None = None) -> list[str]:
    """Return the remains of a run on a test host: namespaces, interfaces, files and processes.
    `connection` is used if there is one; otherwise a new one is made."""
    output = host.exec("ip", "-o", "link")
    links = [line for line in output.splitlines() if ": sm" in line]
    ssh = connection or host.connect()
    try:
        spaces = ssh.run(("ip", "netns", "list")).stdout.decode().split()
        files = ssh.run(("find", "/run/switchmark", "-mindepth", "2")).stdout.decode().split()
        ended = ssh.run(("pgrep", "-f", "switchmark-traffic serve")).stdout.decode().split()
        return [*links, *spaces, *files, *ended]
    finally:
        if connection is None:
            ssh.close()


def know(folder: Path, address: str) -> None:
    """Write the host's key into the file of known hosts, as its administrator would."""
    fields = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"{address} {fields[0]} {fields[1]}\n")


def require() -> None:
    """Skip the test if no test host can be made."""
    if os.geteuid() != 0:
        pytest.skip("test hosts are network namespaces, which are made as root")
    for program in (SSHD, "ssh", "ssh-keygen"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: make setup-all")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
