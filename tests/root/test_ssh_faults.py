"""These tests check what is said when a host that is reached by ssh is not as it should be: each
error names the host."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ssh_hosts import SshdHost, know
from switchmark.environments import inside
from switchmark.errors import NotReady, SetupFailed, Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.carried import Carried
from switchmark.hosts.programs import AGENT, program_path, require_programs
from switchmark.hosts.ssh import SshHost
from switchmark.model.plan import Check, Node, Run, Wait
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


@pytest.fixture
def host(ssh_host: SshdHost) -> Iterator[SshHost]:
    host = ssh_host.connect()
    yield host
    host.close()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Make a program that is carried: it says its version, as the traffic program does."""
    path = tmp_path / "switchmark-traffic"
    path.write_text("#!/bin/sh\necho carried\n")
    path.chmod(0o755)
    return path


def test_a_host_whose_key_changed_is_refused(ssh_host: SshdHost) -> None:
    known_hosts = ssh_host.folder / "known_hosts"
    right = known_hosts.read_text()
    try:
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{ssh_host.folder}/other"),
            check=True,
        )
        fields = (ssh_host.folder / "other.pub").read_text().split()
        known_hosts.write_text(f"{ssh_host.address} {fields[0]} {fields[1]}\n")
        with pytest.raises(Unavailable, match="(?s)host a cannot be reached.*key") as refused:
            ssh_host.connect().run(("true",))
        assert "known_hosts" in (refused.value.hint or "")
        known_hosts.write_text("")
        with pytest.raises(Unavailable, match="(?s)host a cannot be reached.*verification failed"):
            ssh_host.connect().run(("true",))
    finally:
        know(ssh_host.folder, ssh_host.address)
        assert known_hosts.read_text() == right


def test_a_host_that_takes_no_key_of_ours_is_refused_without_a_question(
    ssh_host: SshdHost,
) -> None:
    others = SshHost("a", f"root@{ssh_host.address}", ("IdentityFile=none", *ssh_host.options[1:]))
    with pytest.raises(Unavailable, match="(?s)host a cannot be reached.*Permission denied"):
        others.run(("true",))


def test_a_host_that_is_down_is_unavailable_and_not_asked_again_at_once(
    ssh_host: SshdHost,
) -> None:
    closed = SshHost("a", "root@127.0.0.1", (*ssh_host.options, "Port=1"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="(?s)host a cannot be reached.*refused"):
            closed.run(("true",))


def test_a_program_that_a_host_lacks_is_named_with_it(host: SshHost) -> None:
    with pytest.raises(Unavailable, match="'no-such-tool' is not installed on a"):
        host.run(("no-such-tool",))
    with pytest.raises(Unavailable, match="no-such-tool is not installed on a"):
        require_programs(host, {"no-such-tool": "no-such-package"})


def test_a_run_needs_root_there(ssh_host: SshdHost, tmp_path: Path) -> None:
    class AsNobody(SshHost):
        """A host that accepts a user who is not root."""

        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            return super().run(("setpriv", "--reuid", "65534", *argv), **options)

    host = AsNobody("a", f"root@{ssh_host.address}", ssh_host.options)
    step = Run("nothing", ("true",), Node("host", "host", host="a"))
    with Workspace() as workspace:
        executor = Executor({"a": host}, workspace, inside=inside, logs_dir=tmp_path / "logs")
        with pytest.raises(Unavailable, match="host a needs root"):
            executor.execute((step,))
        executor.unwind()
    host.close()


def test_a_check_that_does_not_answer_in_time_does_not_hold(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("switchmark.runs.executor._SHORTEST_CHECK_S", 0.1)
    node = Node("host", "host", host="a")
    plan = (Run("nothing", ("true",), node), Wait("it ends", Check(("sleep", "60"), node), 0.1))
    with Workspace() as workspace:
        executor = Executor({"a": host}, workspace, inside=inside, logs_dir=tmp_path / "logs")
        with pytest.raises(NotReady, match="sleep"):
            executor.execute(plan)
        executor.unwind()


def test_the_traffic_program_is_carried_once_and_an_older_copy_is_replaced(
    host: SshHost, program: Path
) -> None:
    carried = Carried(str(program)).to(host)[str(program)]
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    assert carried.endswith(f"/.cache/switchmark/{digest}/switchmark-traffic")
    inode = host.inodes(carried)
    assert Carried(str(program)).to(host) == {str(program): carried}
    assert host.inodes(carried) == inode
    host.write(carried, b"#!/bin/sh\necho old\n")
    assert Carried(str(program)).to(host) == {str(program): carried}
    assert host.run((carried,)).stdout == b"carried\n"


def test_a_host_runs_what_it_is_given_under_the_name_of_plans(
    ssh_host: SshdHost, program: Path
) -> None:
    host = SshHost(
        "a",
        f"root@{ssh_host.address}",
        ssh_host.options,
        there={"/opt/here": "/bin/echo"},
        carried=Carried(str(program)),
    )
    assert host.run((str(program),)).stdout == b"carried\n"
    assert host.run(("env", str(program))).stdout == b"carried\n"
    assert host.run(("/opt/here", "word")).stdout == b"word\n"
    host.close()


def test_a_program_goes_with_its_libraries_where_it_does_not_run_without(
    ssh_host: SshdHost, host: SshHost, tmp_path: Path
) -> None:
    # A loader that the host does not have stands for another distribution.
    source = tmp_path / "it.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("by its own"); return 0; }\n')
    loader = tmp_path / "ld-other.so"
    shutil.copy("/lib64/ld-linux-x86-64.so.2", loader)
    path = tmp_path / "switchmark-traffic"
    subprocess.run(("cc", "-o", path, source, f"-Wl,--dynamic-linker={loader}"), check=True)
    carried = Carried(str(path))
    plain = carried.to(host)[str(path)]
    assert host.run((plain,)).stdout == b"by its own\n"

    class Other(SshHost):
        """This host is another distribution: it has no such loader."""

        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            hidden = ("unshare", "--mount", "sh", "-c")
            script = f'mount --bind /bin/false {loader} && exec "$@"'
            return super().run((*hidden, script, "sh", *argv), **options)

    other = Other("a", host.address, ssh_host.options)
    there = Carried(str(path)).to(other)[str(path)]
    assert host.exists(f"{there.rpartition('/')[0]}/lib/libc.so.6")
    assert other.run((there,)).stdout == b"by its own\n"
    other.close()


CACHE = "home/.cache/switchmark"


@contextmanager
def mounted(host: SshHost, folder: Path, options: str) -> Iterator[None]:
    """Mount a file system of a host's own at the user's cache there."""
    path = str(folder / CACHE)
    assert host.run(("mkdir", "-p", path)).status == 0
    assert host.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", path)).status == 0
    try:
        yield
    finally:
        host.run(("umount", path))


def test_where_the_agent_may_not_run_is_refused_with_the_reason_and_the_cure(
    ssh_host: SshdHost, host: SshHost
) -> None:
    with (
        mounted(host, ssh_host.folder, "size=64m,noexec"),
        pytest.raises(Unavailable, match="(?s)does not run on host a.*denied") as refused,
    ):
        ssh_host.connect().run(("true",))
    assert "noexec" in (refused.value.hint or "")
    assert "[hosts.a.programs] agent" in (refused.value.hint or "")


def test_an_agent_for_another_processor_is_refused_with_the_reason_and_the_cure(
    ssh_host: SshdHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine of an ELF file is at 18: 183 is AArch64.
    foreign = bytearray(Path(program_path(AGENT)).read_bytes())
    foreign[18:20] = (183).to_bytes(2, "little")
    (tmp_path / "switchmark-agent").write_bytes(foreign)
    monkeypatch.setenv("SWITCHMARK_AGENT", str(tmp_path / "switchmark-agent"))
    with pytest.raises(Unavailable, match="(?s)not run on host a.*[Ff]ormat error") as refused:
        ssh_host.connect().run(("true",))
    assert "for its processor" in (refused.value.hint or "")


def test_an_agent_for_a_newer_libc_is_refused_with_the_reason_and_the_cure(
    ssh_host: SshdHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = tmp_path / "it.c", tmp_path / "switchmark-agent"
    source.write_text('#include <stdio.h>\nint main(void) { puts("up"); return 0; }\n')
    subprocess.run(("cc", "-o", path, source), check=True)
    # A version that no libc has yet.
    path.write_bytes(re.sub(rb"GLIBC_2\.(?=\d)", b"GLIBC_9.", path.read_bytes()))
    monkeypatch.setenv("SWITCHMARK_AGENT", str(path))
    with pytest.raises(Unavailable, match=r"(?s)not run on host a.*GLIBC_9\.") as refused:
        ssh_host.connect().run(("true",))
    assert "build this version of switchmark there" in (refused.value.hint or "")


def test_an_agent_that_the_host_file_names_is_that_which_runs(
    ssh_host: SshdHost, host: SshHost, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(program_path(AGENT), tmp_path / "bin/switchmark-agent")
    there = {program_path(AGENT): str(tmp_path)}
    named = SshHost("a", f"root@{ssh_host.address}", ssh_host.options, there=there)
    assert named.run(("true",)).status == 0
    assert named.path_of(program_path(AGENT)) == f"{tmp_path}/bin/switchmark-agent"
    named.close()


def test_a_cache_without_room_for_the_agent_is_told_with_its_host(
    ssh_host: SshdHost, host: SshHost
) -> None:
    with (
        mounted(host, ssh_host.folder, "size=64k"),
        pytest.raises(SetupFailed, match="(?s)copied to host a.*No space left") as refused,
    ):
        ssh_host.connect().run(("true",))
    assert "df -h" in (refused.value.hint or "")


def test_a_full_disk_there_is_told_with_its_host(
    ssh_host: SshdHost, host: SshHost, program: Path
) -> None:
    mount = ("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", f"{ssh_host.folder}/home/.cache")
    host.run(("mkdir", "-p", mount[-1]))
    program.write_bytes(program.read_bytes() + b"# " + b"x" * 200_000)
    try:
        assert host.run(mount).status == 0
        with pytest.raises(SetupFailed, match="(?s)copied to host a: No space left on device"):
            Carried(str(program)).to(host)
    finally:
        host.run(("umount", mount[-1]))


RELAY = """
import collections, os, select, socket, sys, time
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
ways, held = {0: far.fileno(), far.fileno(): 1}, collections.deque()
while True:
    wait = max(0, held[0][0] - time.monotonic()) if held else 5
    for source in select.select([*ways], [], [], wait)[0]:
        chunk = os.read(source, 65536)
        if not chunk:
            sys.exit()
        held.append((time.monotonic() + 0.05, ways[source], chunk))
    while held and held[0][0] <= time.monotonic():
        _, target, chunk = held.popleft()
        while chunk:
            chunk = chunk[os.write(target, chunk):]
"""


def test_a_slow_link_costs_one_round_trip_a_command(ssh_host: SshdHost, tmp_path: Path) -> None:
    # 100 ms there and back; a relay needs no netem in the kernel.
    (tmp_path / "relay.py").write_text(RELAY)
    slow = f"ProxyCommand={sys.executable} {tmp_path}/relay.py %h %p"
    host = SshHost("a", f"root@{ssh_host.address}", (*ssh_host.options, slow))

    def one_round_trip(call: Callable[[], object]) -> bool:
        """Say whether a call ever takes less than two: a busy machine makes some slower."""
        for _ in range(20):
            before = time.monotonic()
            call()
            if time.monotonic() - before < 0.19:
                return True
        return False

    host.run(("true",))
    assert one_round_trip(lambda: host.run(("true",), stdin=b"in"))
    assert one_round_trip(lambda: host.read_all("/proc/[0-9]*/stat", "/proc/sys/net/ipv4/*"))
    assert one_round_trip(lambda: host.read("/proc/stat"))
    host.close()
