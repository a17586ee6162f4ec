"""These tests check hugepages: what is added for whom, what is given back, and each way in which it
fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.prepare import prepare
from switchmark.model.plan import HOST, Node, Plan, Reserve, Run
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED
from switchmark.runs.clean import clean
from switchmark.runs.executor import Executor
from switchmark.runs.hugepages import can_reserve, find_pool
from switchmark.runs.journal import Lease
from switchmark.runs.leases import Leases
from switchmark.runs.script import describe
from switchmark.runs.workspace import Workspace

FOLDER = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"
MACHINE = "/sys/kernel/mm/hugepages/hugepages-2048kB"
MEMORY = b"MemTotal:  8 kB\nHugepagesize:       2048 kB\nHugetlb:  0 kB\n"


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv


class Kernel(RecordingHost):
    """This kernel has hugepages of 2 MiB: `total`, of which `used` are not free and `mapped` are
    reserved by a program that has not touched them, and memory for at most `room`. `locked` is its
    answer to a user who may not set their count."""

    def __init__(
        self,
        total: int = 0,
        *,
        used: int = 0,
        mapped: int = 0,
        room: int = 10_000,
        locked: bool = False,
        folder: str = FOLDER,
        fault: int | None = None,
    ) -> None:
        super().__init__(fault=fault)
        self.path, self.used, self.room, self.locked = f"{folder}/nr_hugepages", used, room, locked
        self.files = {"/proc/meminfo": MEMORY, self.path: b"%d\n" % total}
        self.files[f"{folder}/free_hugepages"] = b""
        self.files[f"{MACHINE}/resv_hugepages"] = b"%d\n" % mapped
        self.writes: list[bytes] = []

    @property
    def total(self) -> int:
        return int(self.files[self.path])

    def read(self, path: str) -> bytes:
        if path.endswith("free_hugepages"):
            return b"%d\n" % max(0, self.total - self.used)
        return super().read(path)

    def write(self, path: str, content: bytes) -> None:
        if path == self.path:
            if self.locked:
                raise PermissionError(13, "Permission denied", path)
            self.writes.append(content)
            content = b"%d\n" % min(int(content), self.room)
        super().write(path, content)


class Held:
    """This is a run of its own; `reserve` adds pages of 2 MiB, `end` gives all back."""

    def __init__(self, base: Path, host: Kernel) -> None:
        self.workspace = Workspace(base)
        logs = self.workspace.folder / "logs"
        self.executor = Executor({"local": host}, self.workspace, inside=inside, logs_dir=logs)

    def reserve(self, *pages: int) -> Held:
        self.executor.execute(tuple(Reserve("memory", 2 * count) for count in pages))
        return self

    def end(self) -> None:
        assert self.executor.unwind() == ()
        self.workspace.close()

    def die(self) -> None:
        """Unlock the journal and its byte of the ledger, as the kernel does when a run dies."""
        self.workspace.leases.close()
        self.workspace.journal.close()


Starter = Callable[[Kernel], Held]


@pytest.fixture
def start(tmp_path: Path) -> Starter:
    return lambda host: Held(tmp_path, host)


# --- how much is added -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "used", "requested", "after"),
    [(0, 0, 10, 10), (7, 0, 10, 10), (7, 5, 10, 15), (20, 10, 10, 20), (20, 15, 10, 25)],
)
def test_only_what_is_not_free_is_added_for_the_first(
    start: Starter, total: int, used: int, requested: int, after: int
) -> None:
    host = Kernel(total, used=used)
    run = start(host).reserve(requested)
    assert host.total == after
    run.end()
    assert host.total == total


def test_the_journal_has_what_was_added_before_it_is_added(tmp_path: Path) -> None:
    held = Held(tmp_path, Kernel(7, used=5))
    held.reserve(10)
    (undo,) = held.workspace.journal.pending.values()
    assert isinstance(undo, Lease)
    assert (undo.host, undo.added) == ("local", 8)
    held.end()


def test_what_another_program_has_mapped_and_not_touched_is_not_free(start: Starter) -> None:
    host = Kernel(40, mapped=34)
    run = start(host).reserve(10)
    assert host.total == 44
    run.end()
    assert host.total == 40


@pytest.mark.parametrize(("megabytes", "pages"), [(1, 1), (2, 1), (3, 2), (64, 32)])
def test_a_page_that_is_needed_in_part_is_needed(megabytes: int, pages: int) -> None:
    assert find_pool(Kernel(), 0).pages(megabytes) == pages


def test_what_is_free_is_not_counted_on_twice(start: Starter) -> None:
    host = Kernel(10)
    one = start(host).reserve(10)
    assert host.writes == []
    two = start(host).reserve(10)
    assert host.total == 20
    one.end()
    assert host.total == 20
    two.end()
    assert host.total == 10


@pytest.mark.parametrize("first", [0, 1])
def test_two_runs_have_their_own_and_the_last_restores(start: Starter, first: int) -> None:
    host = Kernel(3)
    runs = [start(host).reserve(8), start(host).reserve(5)]
    assert host.total == 8 + 5
    runs[first].end()
    assert host.total == (3 + 5, 8)[first]
    runs[1 - first].end()
    assert host.total == 3


def test_two_steps_of_a_run_have_their_own(start: Starter) -> None:
    host = Kernel(3)
    run = start(host).reserve(8)
    mark = run.executor.mark()
    run.reserve(5, 1)
    assert host.total == 8 + 5 + 1
    assert run.executor.unwind(to=mark) == ()
    assert host.total == 8
    run.end()
    assert host.total == 3


def test_the_machines_count_serves_where_the_node_has_none(start: Starter) -> None:
    host = Kernel(1, folder=MACHINE)
    run = start(host).reserve(4)
    assert host.files[f"{MACHINE}/nr_hugepages"] == b"4\n"
    run.end()
    assert host.total == 1


# --- deaths ----------------------------------------------------------------------------------


def test_the_pages_of_a_dead_run_are_given_back_by_clean(start: Starter, tmp_path: Path) -> None:
    host = Kernel(3)
    start(host).reserve(8, 5).die()
    assert host.total == 8 + 5
    (cleaned,) = clean(tmp_path, hosts={"local": host})
    assert (cleaned.state, cleaned.actions) == ("cleaned", (f"give back {host.path}",) * 2)
    assert host.total == 3
    assert not (tmp_path / "leases").exists()


@pytest.mark.parametrize("cleaned_first", [True, False])
def test_a_dead_run_neither_holds_pages_nor_lends_them(
    start: Starter, tmp_path: Path, cleaned_first: bool
) -> None:
    host = Kernel(3)
    start(host).reserve(8).die()
    run = start(host).reserve(5)  # of which 3 were free before the dead run came
    assert host.total == 8 + 2
    if cleaned_first:
        clean(tmp_path, hosts={"local": host})
        assert host.total == 3 + 2
        run.end()
    else:
        run.end()
        assert host.total == 3 + 5  # what it added, until it is cleaned up after
        clean(tmp_path, hosts={"local": host})
    assert host.total == 3


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_death_beside_the_raise_costs_a_live_run_no_page(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    host = Kernel(3)
    live = start(host).reserve(8)
    dead = start(host)

    def die(path: str, content: bytes) -> None:
        if moment == "behind":
            host.files[path] = content
        dead.die()
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(host, "write", die)
        dead.reserve(5)
    clean(tmp_path, hosts={"local": host})
    assert host.total == 8
    live.end()
    assert host.total == 3


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_giving_back_that_died_half_way_is_finished_once(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    host = Kernel(3)
    live = start(host).reserve(8)
    dead = start(host).reserve(5)

    def die(path: str, content: bytes) -> None:
        if moment == "behind":
            host.files[path] = content
        dead.die()
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(host, "write", die)
        dead.executor.unwind()
    clean(tmp_path, hosts={"local": host})
    assert host.total == 8
    live.end()
    assert host.total == 3


def test_pages_of_an_earlier_boot_are_never_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Kernel(3)
    leases = Leases(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr("switchmark.runs.leases.boot_id", lambda host: "earlier")
        leases.add("sm0000", host, host.path, 8, unused=lambda: 0)
    host.files[host.path] = b"100\n"
    leases.give_back("sm0000", host, host.path)
    assert host.total == 100


def test_leases_from_before_there_were_counts_are_still_read(tmp_path: Path) -> None:
    host = RecordingHost(files={"/x": b"7\n"})
    leases = Leases(tmp_path)
    leases.take("sm0000", host, "/x", b"512")
    lines = (tmp_path / "leases").read_text()
    (tmp_path / "leases").write_text(lines.replace(',"added":null', ""))
    leases.give_back("sm0000", host, "/x")
    assert host.files["/x"] == b"7\n"


# --- failures --------------------------------------------------------------------------------


def test_fewer_pages_than_wanted_are_put_back_and_told(start: Starter) -> None:
    host = Kernel(3, room=8)
    run = start(host)
    with pytest.raises(SetupFailed) as failed:
        run.executor.execute((Reserve("memory for the switch", 20),))
    assert str(failed.value) == (
        "memory for the switch: only 16 of 20 MB of hugepages can be had"
        " on NUMA node 0 of local\n"
        f"  {host.path}: 8 of 10 pages of 2048 KiB\n\n"
        "hint: switchmark clean; sysctl -w vm.compact_memory=1; or use --memory no-huge"
    )
    assert host.writes == [b"10\n", b"3\n"]
    assert run.workspace.leases.held_by(run.workspace.run) == []
    run.end()


def test_a_count_that_may_not_be_set_is_told_with_the_command(start: Starter) -> None:
    host = Kernel(3, locked=True)
    run = start(host)
    with pytest.raises(Unavailable) as failed:
        run.executor.execute((Reserve("memory for the switch", 20),))
    assert str(failed.value) == (
        f"memory for the switch: {host.path} cannot be set to 10: Permission denied\n\n"
        f"hint: echo 10 | sudo tee {host.path}"
    )
    assert run.workspace.leases.held_by(run.workspace.run) == []
    run.end()


def test_pages_that_are_free_need_no_privilege(start: Starter) -> None:
    host = Kernel(10, locked=True)
    run = start(host).reserve(10)
    host.files[host.path] = b"20\n"  # the administrator's, who may do so meanwhile
    run.end()
    assert host.total == 20


def test_a_kernel_without_hugepages_is_told(start: Starter) -> None:
    host = Kernel()
    run = start(host)
    for gone, evidence in (
        (host.path, f"{MACHINE}/nr_hugepages is not there"),
        ("/proc/meminfo", "/proc/meminfo names no Hugepagesize"),
    ):
        host.remove(gone)
        with pytest.raises(Unavailable) as failed:
            run.executor.execute((Reserve("memory", 2),))
        assert str(failed.value) == (
            f"memory: the kernel of local has no hugepages\n  {evidence}\n\n"
            "hint: use --memory no-huge"
        )
    run.end()


def test_a_reservation_that_failed_does_not_cost_an_earlier_one(start: Starter) -> None:
    host = Kernel(room=10)
    run = start(host).reserve(8)
    mark = run.executor.mark()
    with pytest.raises(SetupFailed, match="only 4 of 10 MB"):
        run.reserve(5)
    assert run.executor.unwind(to=mark) == ()
    assert host.total == 8
    run.end()
    assert host.total == 0


@settings(max_examples=30)
@given(st.integers(0, 9), st.integers(0, 9), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_undoing_after_a_failure_at_every_step_restores_the_count(
    tmp_path_factory: pytest.TempPathFactory, total: int, used: int, counts: list[int]
) -> None:
    base = tmp_path_factory.mktemp("runs")
    plan: list[Reserve | Run] = []
    for count in counts:
        plan += [Reserve("memory", 2 * count), Run("use it", ("use",), undo=("leave",))]
    for fault in range(len(plan)):
        host = Kernel(total, used=used, fault=fault)
        run = Held(base, host)
        with suppress(SetupFailed, Unavailable):  # where nothing lacks, less is done
            run.executor.execute(tuple(plan))
        host.fault = None
        run.end()
        assert host.total == total


def test_a_count_that_cannot_be_put_back_is_left_to_the_undoing(start: Starter) -> None:
    host = Kernel(room=8, fault=1)
    run = start(host)
    with pytest.raises(SetupFailed, match=f"memory: {host.path} cannot be set: injected fault"):
        run.reserve(10)
    assert host.total == 8
    run.end()
    assert host.total == 0


@settings(max_examples=50)
@given(st.data())
def test_no_order_of_runs_and_deaths_costs_a_live_run_its_pages(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    base = tmp_path_factory.mktemp("runs")
    first = data.draw(st.integers(0, 9), "total")
    host = Kernel(first)
    live: dict[Held, int] = {}
    for _ in range(data.draw(st.integers(1, 12), "events")):
        match data.draw(st.sampled_from(["reserve", "more", "end", "die", "clean"])):
            case "reserve":
                count = data.draw(st.integers(1, 9))
                live[Held(base, host).reserve(count)] = count
            case "more" if live:
                run = data.draw(st.sampled_from(list(live)))
                run.reserve(2)
                live[run] += 2
            case "end" if live:
                run = data.draw(st.sampled_from(list(live)))
                run.end()
                del live[run]
            case "die" if live:
                run = data.draw(st.sampled_from(list(live)))
                run.die()
                del live[run]
            case "clean":
                clean(base, hosts={"local": host})
        assert host.total >= max(first, sum(live.values()))
    for run in live:
        run.end()
    clean(base, hosts={"local": host})
    assert host.total == first
    assert [path.read_bytes() for path in base.iterdir()] in ([], [b""])


@pytest.mark.parametrize(("requested", "fits"), [((8,), True), ((5, 3), True), ((5, 5), False)])
def test_a_rehearsal_tells_whether_all_fit_and_leaves_nothing(
    start: Starter, requested: tuple[int, ...], fits: bool
) -> None:
    host = Kernel(1, room=9)
    run = start(host).reserve(1)
    steps = tuple(Reserve("memory", 2 * count) for count in requested)
    assert run.executor.can(steps) is fits
    assert host.total == 1
    assert run.workspace.leases.held_by(run.workspace.run) == [("local", host.path)]
    run.end()
    assert host.total == 1


@pytest.mark.parametrize(
    ("room", "axes", "memory"),
    [
        (10_000, {}, "hugepages"),
        (100, {}, "no-huge"),
        (100, {"memory": "hugepages"}, "hugepages"),
        (10_000, {"memory": "no-huge"}, "no-huge"),
    ],
)
def test_memory_that_is_up_to_us_is_hugepages_if_all_can_be_had(
    start: Starter, room: int, axes: dict[str, str], memory: str
) -> None:
    """With too little room the first of several reservations still succeeds."""
    host = Kernel(room=room)
    run = start(host)
    test = Test.model_validate({"switch": "testpmd", "engine": "dpdk", "frame_size": 9000, **axes})
    layout = prepare(
        host,
        test,
        NOT_PROBED,
        prefix=run.workspace.run,
        run_dir="/run",
        can=run.executor.can,
    )
    assert layout.wiring.memory.kind == memory
    assert host.total == 0
    run.end()


# --- what can be told before -----------------------------------------------------------------


@pytest.mark.parametrize(("total", "writable"), [(0, 0), (0, 1), (4, 0), (4, 1)])
def test_pages_can_be_reserved_by_who_may_set_the_count_or_finds_some_free(
    total: int, writable: int
) -> None:
    host = Kernel(total)
    host.answers[("test", "-w", host.path)] = Completed(1 - writable, b"", b"")
    before = dict(host.files)
    assert can_reserve(host, 0) is bool(total or writable)
    assert host.files == before


def test_none_can_be_reserved_where_there_are_none() -> None:
    assert not can_reserve(RecordingHost(files={"/proc/meminfo": MEMORY}), 0)
    assert not can_reserve(RecordingHost(), 0)


def test_a_reservation_reads_as_an_operator_would_type_it(tmp_path: Path) -> None:
    plan: Plan = (
        Reserve("memory for the switch", 63, node=1),
        Reserve("memory for f0", 2, at=Node("host", HOST.environment, "far")),
    )
    lines = describe(plan, inside)
    assert lines[:2] == [
        "# memory for the switch",
        """kib="$(awk '/^Hugepagesize:/ {print $2}' /proc/meminfo)"; """
        'total="/sys/devices/system/node/node1/hugepages/hugepages-${kib}kB/nr_hugepages"; '
        'echo "$(($(cat "$total") + (63 * 1024 + kib - 1) / kib))" >"$total"'
        "  # leased: only what is not free is added, and it is taken away again",
    ]
    assert lines[2] == "# memory for f0 (on far)"
    total = tmp_path / "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    total.parent.mkdir(parents=True)
    total.write_text("5\n")
    (tmp_path / "meminfo").write_bytes(MEMORY)
    line = lines[1].replace("/sys/", f"{tmp_path}/sys/").replace("/proc/", f"{tmp_path}/")
    subprocess.run(["bash", "-eu", "-c", line], check=True)
    assert total.read_text() == "37\n"
