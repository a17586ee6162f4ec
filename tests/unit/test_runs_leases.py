"""These tests let several roots, each with its own folder of runs, lease the values of one kernel,
in any order and with deaths at any moment."""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import SetupFailed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost
from switchmark.runs import leases
from switchmark.runs.clean import Cleaned, clean
from switchmark.runs.executor import lease
from switchmark.runs.journal import Command, Lease
from switchmark.runs.leases import Leases
from switchmark.runs.undo import carry_out
from switchmark.runs.workspace import Workspace

COUNT = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
SURPLUS = COUNT.replace("nr_", "surplus_")
SETTING = "/proc/sys/vm/x"
OF_A_NETWORK = "/proc/sys/net/ipv4/ip_forward"


class Killed(BaseException):
    """The process ends here, as by SIGKILL."""


class Kernel(LocalHost):
    """The kernel of this machine, but for its values. `dies_at` counts down to the write during
    which the writer is killed, when so many pages of it are made."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files
        self.dies_at: tuple[int, int] | None = None
        self.network = 1

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def inodes(self, *patterns: str) -> dict[str, int]:
        if patterns == ("/proc/self/ns/net",):
            return {patterns[0]: self.network}
        return {f"/proc/{pid}/ns/net": pid for pid in (1, 2)}

    def write(self, path: str, content: bytes) -> None:
        if self.dies_at is not None:
            left, pages = self.dies_at
            self.dies_at = (left - 1, pages)
            if left == 0:
                self.dies_at = None
                way = int(content) - int(self.files[path])
                done = min(pages, way) if way > 0 else max(-pages, way)
                self.files[path] = b"%d\n" % (int(self.files[path]) + done)
                raise Killed
        if path == COUNT and (surplus := int(self.files.get(SURPLUS, b"0"))):
            # Pages that are surplus count again, and are what a raise takes first.
            more = int(content) - (int(self.files[COUNT]) - surplus)
            surplus = max(0, surplus - more)
            self.files[SURPLUS] = b"%d\n" % surplus
            content = b"%d\n" % (int(content) + surplus)
        self.files[path] = content


class Root:
    """This root has its runs, which share the kernel with those of others."""

    def __init__(self, base: Path, host: Kernel) -> None:
        self.base, self.host = base, host
        self.live: list[Workspace] = []

    def start(self, pages: int) -> None:
        run = Workspace(self.base)
        try:
            run.journal.intend(Lease(host="local", path=COUNT))
            run.leases.add(run.run, self.host, COUNT, pages, unused=lambda: 0)
            lease(run, self.host, SETTING, b"1\n")
            self.live.append(run)
        except Killed:
            self.die(run)

    def end(self, run: Workspace) -> None:
        try:
            for number, undo in reversed(list(run.journal.pending.items())):
                carry_out(undo, run=run.run, hosts={"local": self.host}, leases=run.leases)
                run.journal.done(number)
            self.live.remove(run)
            run.close()
        except Killed:
            self.live.remove(run)
            self.die(run)

    def die(self, run: Workspace) -> None:
        run.leases.close()
        run.journal.close()

    def clean(self) -> None:
        try:
            clean(self.base, hosts={"local": self.host})
        except Killed:
            for run in self.base.glob("sm*"):
                assert (run / "journal").exists()


@pytest.fixture(autouse=True)
def machine_wide(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path_factory.mktemp("dev") / "leases")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_order_of_roots_and_deaths_changes_what_the_machine_has(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """What the administrator adds meanwhile stays; what live runs of any root have added is
    there."""
    leases.MACHINE_WIDE.unlink(missing_ok=True)
    count = data.draw(st.integers(0, 9), "pages")
    host = Kernel({COUNT: b"%d\n" % count, SURPLUS: b"0\n", SETTING: b"0\n"})
    roots = [Root(tmp_path_factory.mktemp("root"), host) for _ in range(2)]
    pages: dict[str, int] = {}
    for _ in range(data.draw(st.integers(1, 12), "events")):
        root = roots[data.draw(st.integers(0, 1), "root")]
        if data.draw(st.booleans(), "killed"):
            host.dies_at = (data.draw(st.integers(0, 2)), data.draw(st.integers(0, 9)))
        match data.draw(st.sampled_from(["start", "end", "die", "clean", "add"])):
            case "start":
                wanted = data.draw(st.integers(1, 9))
                root.start(wanted)
                pages |= {run.run: pages.get(run.run, wanted) for run in root.live[-1:]}
            case "end" if root.live:
                root.end(data.draw(st.sampled_from(root.live)))
            case "die" if root.live:
                run = data.draw(st.sampled_from(root.live))
                root.live.remove(run)
                root.die(run)
            case "clean":
                root.clean()
            case "add" if host.dies_at is None:
                more = data.draw(st.integers(1, 5))
                with Leases(root.base)._ledger_of(host) as (ledger, _):
                    if not ledger.unmade:  # what was added over a death is not told apart
                        host.files[COUNT] = b"%d\n" % (int(host.files[COUNT]) + more)
                        count += more
        host.dies_at = None
        live = sum(pages[run.run] for each in roots for run in each.live)
        assert int(host.files[COUNT]) >= count + live
    for root in roots:
        for run in list(root.live):
            root.end(run)
    for root in roots:
        root.clean()
    assert (int(host.files[COUNT]), host.files[SETTING].strip()) == (count, b"0")
    assert not leases.MACHINE_WIDE.exists()


def test_pages_of_a_root_that_is_gone_are_given_back_by_any_other(tmp_path: Path) -> None:
    host = Kernel({COUNT: b"3\n", SETTING: b"0\n"})
    for name in ("gone", "other"):
        (tmp_path / name).mkdir()
    gone = Root(tmp_path / "gone", host)
    gone.start(8)
    run = gone.live[0]
    assert clean(tmp_path / "other", hosts={"local": host}) == []
    assert host.files[COUNT] == b"11\n"
    gone.die(run)
    (cleaned,) = clean(tmp_path / "other", hosts={"local": host}, dry_run=True)
    given_back = (f"give back {COUNT}", f"give back {SETTING}")
    assert cleaned == Cleaned(run.run, "dead", given_back)
    assert host.files[COUNT] == b"11\n"
    (cleaned,) = clean(tmp_path / "other", hosts={"local": host})
    assert cleaned == Cleaned(run.run, "cleaned", given_back)
    assert (host.files[COUNT], host.files[SETTING].strip()) == (b"3\n", b"0")


def test_what_leases_have_added_is_their_sum(tmp_path: Path) -> None:
    host = Kernel({COUNT: b"3\n", SETTING: b"0\n"})
    root = Root(tmp_path, host)
    assert Leases(tmp_path).added(host, COUNT) == 0
    root.start(8)
    root.start(2)
    assert Leases(tmp_path).added(host, COUNT) == 10
    assert Leases(tmp_path).added(host, SETTING) == 0
    root.end(root.live[0])
    assert Leases(tmp_path).added(host, COUNT) == 2
    root.end(root.live[0])
    assert Leases(tmp_path).added(host, COUNT) == 0


def test_each_undo_of_a_dead_run_is_carried_out_once(tmp_path: Path) -> None:
    host = RecordingHost()
    dead = Workspace(tmp_path)
    undos = [Command(host="local", argv=("undo", str(number))) for number in range(2)]
    for undo in undos:
        dead.journal.intend(undo)
    dead.leases.close()
    dead.journal.close()
    (cleaned,) = clean(tmp_path, hosts={"local": host})
    assert cleaned.state == "cleaned"
    assert [argv for argv in host.ran if argv[0] == "undo"] == [("undo", "1"), ("undo", "0")]


def test_pages_that_go_with_their_program_are_not_counted_as_there(tmp_path: Path) -> None:
    """A run was given back while its program still had the pages: they are surplus."""
    host = Kernel({COUNT: b"8\n", SURPLUS: b"8\n", SETTING: b"0\n"})
    root = Root(tmp_path, host)
    root.start(5)
    assert (host.files[COUNT], host.files[SURPLUS]) == (b"8\n", b"3\n")
    host.files |= {COUNT: b"5\n", SURPLUS: b"0\n"}  # the program has ended
    root.end(root.live[0])
    assert host.files[COUNT] == b"0\n"


def test_a_ledger_is_there_only_while_something_is_leased(tmp_path: Path) -> None:
    host = Kernel({SETTING: b"0\n"})
    run = Leases(tmp_path)
    run.take("sm0001", host, SETTING, b"1")
    assert leases.MACHINE_WIDE.exists()
    run.give_back("sm0001", host, SETTING)
    assert not leases.MACHINE_WIDE.exists()
    assert run.held_by("sm0001") == []
    assert not leases.MACHINE_WIDE.exists()


def test_a_run_lives_in_the_ledger_that_was_made_anew(tmp_path: Path) -> None:
    host = Kernel({SETTING: b"0\n"})
    run, other = Leases(tmp_path), Leases(tmp_path)
    run.take("sm0001", host, SETTING, b"1")
    keeps_the_first_inode = leases.MACHINE_WIDE.open()
    run.give_back("sm0001", host, SETTING)
    run.take("sm0001", host, SETTING, b"1")
    with pytest.raises(SetupFailed, match="run sm0001 needs it to be 1"):
        other.take("sm0002", host, SETTING, b"2")
    keeps_the_first_inode.close()


@pytest.mark.parametrize("byte", [0, 1, leases._LENGTH - 1])
def test_a_run_lives_while_it_locks_its_byte(
    byte: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {leases._LENGTH: byte}
    chosen = SimpleNamespace(randbelow=bounds.__getitem__)
    monkeypatch.setattr(leases, "secrets", chosen)
    host = Kernel({SETTING: b"0\n"})
    run, other = Leases(tmp_path), Leases(tmp_path)
    run.take("sm0001", host, SETTING, b"1")
    with pytest.raises(SetupFailed, match="run sm0001 needs it to be 1"):
        other.take("sm0002", host, SETTING, b"2")
    run.close()
    other.take("sm0002", host, SETTING, b"2")
    assert host.files[SETTING] == b"2"


def test_a_ledger_that_is_removed_while_a_run_waits_for_it_is_let_go(tmp_path: Path) -> None:
    host = Kernel({SETTING: b"0\n"})
    run = Leases(tmp_path)
    with leases.MACHINE_WIDE.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = Thread(target=run.take, args=("sm0001", host, SETTING, b"1"))
        waiting.start()
        inode = f":{os.fstat(file.fileno()).st_ino} "
        while not re.search(f"->.*{inode}", Path("/proc/locks").read_text()):
            time.sleep(0.01)
        leases.MACHINE_WIDE.unlink()
    waiting.join()
    assert run.held_by("sm0001") == [("local", SETTING)]


def test_lines_of_a_later_version_are_kept_and_read_as_far_as_they_are_known(
    tmp_path: Path,
) -> None:
    host = Kernel({COUNT: b"3\n", SETTING: b"0\n"})
    root = Root(tmp_path, host)
    root.start(8)
    run = root.live[0]
    lines = leases.MACHINE_WIDE.read_text().replace('{"host"', '{"new":1,"host"')
    leases.MACHINE_WIDE.write_text(f'{lines}{{"entry":"unheard of"}}\n')
    root.end(run)
    assert (host.files[COUNT], host.files[SETTING].strip()) == (b"3\n", b"0")
    assert "unheard of" in leases.MACHINE_WIDE.read_text()


def test_a_value_that_the_administrator_set_meanwhile_stays(tmp_path: Path) -> None:
    host = Kernel({SETTING: b"0\n"})
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SETTING, b"1\n")
        host.files[SETTING] = b"2\n"
        run.leases.give_back(run.run, host, SETTING)
    assert host.files[SETTING] == b"2\n"


def test_a_value_that_is_gone_with_its_module_needs_no_restoring(tmp_path: Path) -> None:
    host = Kernel({SETTING: b"0\n"})
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SETTING, b"1\n")
        host.files.clear()
        run.leases.give_back(run.run, host, SETTING)
        assert run.leases.held_by(run.run) == []
    assert host.files == {}


@pytest.mark.parametrize("now", [b"0\n", b"1\n"], ids=["as it was", "changed"])
def test_a_run_that_died_as_the_kernel_refused_its_value_leaves_nothing_to_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: bytes
) -> None:
    """The kernel refuses to move some interrupts. A changed value that it does not restore is a
    failure."""
    host = Kernel({SETTING: b"0\n"})
    host.dies_at = (0, 0)
    run = Workspace(tmp_path)
    with pytest.raises(Killed):
        lease(run, host, SETTING, b"1\n")
    run.leases.close()
    host.files[SETTING] = now

    def refuse(path: str, content: bytes) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(host, "write", refuse)
    with nullcontext() if now == b"0\n" else pytest.raises(PermissionError):
        run.leases.give_back(run.run, host, SETTING)
    assert leases.MACHINE_WIDE.exists() == (now != b"0\n")


def test_each_network_namespace_has_its_value(tmp_path: Path) -> None:
    """The same path is another value there: it is neither refused nor restored for it."""
    here, there = (Kernel({OF_A_NETWORK: b"0\n"}) for _ in range(2))
    there.network = 2
    with Workspace(tmp_path) as one, Workspace(tmp_path) as two:
        one.leases.take(one.run, here, OF_A_NETWORK, b"1\n")
        there.files[OF_A_NETWORK] = b"7\n"
        two.leases.take(two.run, there, OF_A_NETWORK, b"0\n")
        with pytest.raises(SetupFailed, match="set in another network namespace") as refused:
            two.leases.give_back(two.run, here, OF_A_NETWORK)
        assert refused.value.hint == "nsenter --net=/proc/2/ns/net switchmark clean"
        two.leases.give_back(two.run, there, OF_A_NETWORK)
        one.leases.give_back(one.run, here, OF_A_NETWORK)
    assert (here.files[OF_A_NETWORK], there.files[OF_A_NETWORK]) == (b"0\n", b"7\n")


def test_a_value_of_a_namespace_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    here, gone = (Kernel({OF_A_NETWORK: b"0\n"}) for _ in range(2))
    gone.network = 3  # no process is in it
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, gone, OF_A_NETWORK, b"1\n")
        here.files[OF_A_NETWORK] = b"1\n"  # this namespace's own
        run.leases.give_back(run.run, here, OF_A_NETWORK)
        assert run.leases.held_by(run.run) == []
    assert here.files[OF_A_NETWORK] == b"1\n"
