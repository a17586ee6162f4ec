"""These tests check the freezer of a run: which control groups it makes and freezes, and that it
never holds still what may be of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark import clock
from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Plan, Run, Write
from switchmark.runs import freezer
from switchmark.runs.freezer import HIERARCHIES, Freezer, thaw_all

V2, UNIFIED, V1 = HIERARCHIES
RUN = "sm1a2b"
SELF = "/proc/self/cgroup"


class Grouped(RecordingHost):
    """A host with these hierarchies, whose groups freeze at once, or never."""

    freezes = True

    def __init__(self, *roots: str, own: str, groups: dict[int, str] | None = None) -> None:
        files = {f"{root}/cgroup.procs": b"1\n" for root in roots}
        files[SELF] = own.encode()
        files |= {f"/proc/{pid}/cgroup": text.encode() for pid, text in (groups or {}).items()}
        super().__init__(files=files)
        self.pids = tuple(groups or {})

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        assert run == RUN
        return tuple((pid, 1) for pid in self.pids)

    def write(self, path: str, content: bytes) -> None:
        super().write(path, content)
        if path.endswith("cgroup.freeze"):
            state = b"populated 1\nfrozen %s\n" % (content if self.freezes else b"0")
            self.files[path.replace("cgroup.freeze", "cgroup.events")] = state


class Acting:
    """An executor that carries the steps out on a host, and undoes them."""

    def __init__(
        self, host: RecordingHost, *, file: str = "cgroup.freeze", fails: str = ""
    ) -> None:
        self.host, self.file, self.fails = host, file, fails
        self.done: list[Any] = []

    def execute(self, plan: Plan) -> None:
        for step in plan:
            if isinstance(step, Run):
                assert step.undo == ("rmdir", step.argv[1])
                if self.fails == "mkdir":
                    raise SetupFailed("the group: mkdir ended\n  Read-only file system ")
                if self.file:
                    self.host.files[f"{step.argv[1]}/{self.file}"] = b"0"
            elif isinstance(step, Write):
                if self.fails and self.fails in step.path:
                    raise SetupFailed(f"{step.path} cannot be set")
                self.host.write(step.path, step.content)
            self.done.append(step)

    def mark(self) -> int:
        return len(self.done)

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        gone, self.done = self.done[to or 0 :], self.done[: to or 0]
        for step in gone:
            if isinstance(step, Write):
                self.host.write(step.path, b"0")
        return ("it stays frozen",) if self.fails == "thaw" else ()


def made(host: Grouped, **options: Any) -> tuple[Freezer, Acting]:
    acting = Acting(host, **options)
    return Freezer(acting, host, RUN), acting


# --- which hierarchy --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hierarchy", "own", "group"),
    [
        (V2, "0::/user.slice\n", "/sys/fs/cgroup/user.slice"),
        (UNIFIED, "5:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"),
        (V1, "7:freezer:/jobs\n0::/\n", "/sys/fs/cgroup/freezer/jobs"),
    ],
    ids=["v2", "unified", "v1"],
)
def test_the_group_of_a_run_is_in_that_of_this_process(
    hierarchy: Any, own: str, group: str
) -> None:
    found, acting = made(Grouped(hierarchy.root, own=own), file=hierarchy.file)
    assert found.name == hierarchy.name
    (step,) = acting.done
    assert step.argv == ("mkdir", f"{group}/{RUN}-frozen")


def test_a_list_of_groups_may_hold_bytes_that_are_no_text() -> None:
    listed = b"9:name=\xff:/x\n7:freezer:/jobs\n0::/user\n"
    assert [hierarchy.group_of(listed) for hierarchy in (V2, UNIFIED, V1)] == [
        *("/user", "/user", "/jobs"),
    ]
    assert [hierarchy.name for hierarchy in (V2, UNIFIED, V1)] == [
        *("cgroup v2", "cgroup v2", "cgroup v1"),
    ]
    assert V2.group_of(b"") is None


def test_version_2_is_taken_first_and_what_does_not_freeze_is_passed_over() -> None:
    roots = (V2.root, V1.root)
    both = "7:freezer:/jobs\n0::/user\n"
    assert made(Grouped(*roots, own=both))[0].name == "cgroup v2"
    found, acting = made(Grouped(*roots, own=both), file="freezer.state")
    assert found.name == "cgroup v1"
    assert len(acting.done) == 1, "the group that freezes nothing is removed"


@pytest.mark.parametrize(
    ("host", "options", "why"),
    [
        (Grouped(own="0::/\n"), {}, "this host has no freezer of control groups"),
        (Grouped(V2.root, own="0::/../x\n"), {}, "this host has no freezer of control groups"),
        (Grouped(V2.root, own="7:freezer:/\n"), {}, "this host has no freezer of control groups"),
        (Grouped(V2.root, own="0::/\n"), {"file": ""}, "cgroup v2 of this host freezes nothing"),
        (
            Grouped(V2.root, own="0::/\n"),
            {"fails": "mkdir"},
            "no control group can be made: Read-only file system",
        ),
    ],
)
def test_a_host_without_a_freezer_says_why(
    host: Grouped, options: dict[str, str], why: str
) -> None:
    with pytest.raises(Unavailable) as refused:
        made(host, **options)
    assert refused.value.message == why


# --- what is frozen ---------------------------------------------------------------------------

FROZEN = f"/sys/fs/cgroup/me/{RUN}-frozen"
GROUPS = {
    11: "0::/me\n",
    12: f"0::/lxc/{RUN}-f0/init\n",
    13: f"0::/lxc/{RUN}-f0\n",
    14: f"0::/me/{RUN}-frozen\n",
}


def written(acting: Acting) -> list[str]:
    return [
        f"{step.path} {step.content.decode()}" for step in acting.done if isinstance(step, Write)
    ]


def test_the_groups_of_a_run_are_frozen_and_other_processes_of_it_are_moved() -> None:
    host = Grouped(V2.root, own="0::/me\n", groups=GROUPS)
    found, acting = made(host)
    found.freeze()
    assert written(acting) == [
        f"{FROZEN}/cgroup.freeze 1",
        f"/sys/fs/cgroup/lxc/{RUN}-f0/cgroup.freeze 1",
    ]
    assert host.files[f"{FROZEN}/cgroup.procs"] == b"14", "the last one that was moved"
    found.thaw()
    assert written(acting) == []
    assert host.files[f"{FROZEN}/cgroup.freeze"] == b"0"
    found.thaw()


def test_processes_are_looked_for_once_unless_they_have_changed() -> None:
    host = Grouped(V2.root, own="0::/me\n", groups=GROUPS)
    found, acting = made(host)
    found.freeze()
    host.pids = (11,)
    found.thaw()
    found.freeze()
    assert len(written(acting)) == 2
    found.thaw()
    found.forget()
    found.freeze()
    assert len(written(acting)) == 1


def test_what_may_be_of_others_is_not_frozen() -> None:
    host = Grouped(V2.root, own="0::/me\n", groups={11: "0::/system.slice/ssh.service\n"})
    found, acting = made(host)
    with pytest.raises(
        SetupFailed, match="in /system.slice/ssh.service, which others may be in too"
    ):
        found.freeze()
    assert written(acting) == []


def test_what_does_not_stop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1.0))
    host = Grouped(V2.root, own="0::/me\n", groups=GROUPS)
    host.freezes = False
    found, acting = made(host)
    with pytest.raises(SetupFailed, match="its processes do not stop within 5 s"):
        found.freeze()
    assert written(acting) == []
    assert now == [6.0]


def test_a_group_that_cannot_be_frozen_lets_all_go_on() -> None:
    host = Grouped(V2.root, own="0::/me\n", groups=GROUPS)
    found, acting = made(host)
    acting.fails = f"{RUN}-f0"
    with pytest.raises(SetupFailed, match="cannot be set"):
        found.freeze()
    assert written(acting) == []


def test_what_stays_frozen_is_told() -> None:
    host = Grouped(V2.root, own="0::/me\n", groups=GROUPS)
    found, acting = made(host)
    found.freeze()
    acting.fails = "thaw"
    with pytest.raises(SetupFailed, match="it stays frozen"):
        found.thaw()
    found.thaw()


# --- after a death ----------------------------------------------------------------------------


def test_frozen_groups_of_a_dead_run_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, files = tmp_path / "cgroup", {}
    for group, state in (
        (f"lxc/{RUN}-f0", b"1\n"),
        (f"deep/in/{RUN}-frozen", b"1"),
        (f"{RUN}-running", b"0\n"),
        ("sm9999-frozen", b"1\n"),
    ):
        (root / group).mkdir(parents=True)
        (root / group / "cgroup.freeze").write_bytes(state)
        files[str(root / group / "cgroup.freeze")] = state
    monkeypatch.setattr(freezer, "HIERARCHIES", (freezer._v2(str(root)), V1))
    host = RecordingHost(files={f"{root}/cgroup.procs": b"", **files})
    assert sorted(thaw_all(host, RUN)) == [f"{root}/deep/in/{RUN}-frozen", f"{root}/lxc/{RUN}-f0"]
    assert host.files[f"{root}/lxc/{RUN}-f0/cgroup.freeze"] == b"0"
    assert host.files[f"{root}/sm9999-frozen/cgroup.freeze"] == b"1\n"
