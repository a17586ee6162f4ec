"""These tests compare what the executor and the leases do with stored texts: every request to a
simulated host, the journal and the ledger, with a failure at each request in turn."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from golden_cases import counted, shortened
from switchmark import clock
from switchmark.clock import Clock
from switchmark.errors import CommandTimedOut, SwitchmarkError, Unavailable
from switchmark.hosts.base import Completed, boot_id
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.model.plan import (
    Check,
    End,
    Folder,
    Node,
    Plan,
    Reserve,
    Rest,
    Run,
    Spawn,
    Step,
    Wait,
    Write,
)
from switchmark.runs import leases, workspace
from switchmark.runs.clean import clean
from switchmark.runs.executor import Executor
from switchmark.runs.leases import Leases
from switchmark.runs.undo import in_words
from switchmark.runs.workspace import Workspace
from unit.test_runs_leases import COUNT, SETTING, SURPLUS, Kernel, Root

Golden = Callable[[str, str], None]

NODE = Node("sm0000-f0", "netns")
FAR = Node("far", "host", host="far")
BARE = Node("sm0000-f1", "netns")
NETWORK = "/proc/sys/net/ipv4/ip_forward"


IN_NODE = ("env", "NODE=sm0000-f0")


class Ticking(Clock):
    """A clock that a look advances by a millisecond, and a sleep by its length."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Telling(RecordingHost):
    """A host that tells every request. `far` are those that run commands one after another."""

    def __init__(self, text: list[str], fault: int | None, *, far: bool) -> None:
        super().__init__(
            {
                ("env", "A=b", "show"): b"  4\xff2 \n",
                ("check",): b"one\xff\nready: 42\n",
                ("env", "NODE=sm0000-f0", "cat"): b"before",
                ("slow",): b"not yet",
                ("refuse",): Completed(3, b"", b"it is in use"),
                ("busy",): Completed(1, b"", b"rmdir: x: Device or resource busy"),
                ("gone", "ip"): Completed(1, b"", b'Cannot find device "x"'),
                ("gone", "rm"): Completed(1, b"", b"No such file or directory"),
                ("gone", "docker"): Completed(1, b"", b"container x does not exist"),
                ("gone", "lxc"): Completed(1, b"", b"x is not running"),
                ("fails",): Completed(2, b"out\nput", b""),
                ("fails", "loudly"): Completed(-9, b"out", b"err\nor"),
                ("test", "-d"): Completed(1, b"", b""),
                ("test", "-d", "/run"): b"",
                (*IN_NODE, "cat", "/etc/new"): Completed(1, b"", b"cat: No such file or directory"),
                (*IN_NODE, "cat", "/etc/no"): Completed(1, b"", b"cat: Permission denied"),
                (*IN_NODE, "tee", "/etc/ro"): Completed(1, b"", b"tee: Read-only file system"),
            },
            name="far" if far else "local",
            files={"/proc/sys/a": b"0\n", NETWORK: b"0\n", COUNT: b"3\n", SURPLUS: b"0\n"},
            fault=fault,
        )
        self.text, self.in_order, self.is_local = text, far, not far

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        fed = "" if stdin is None else f" <{stdin!r}"
        self.text.append(f"  {' '.join(argv)}{fed}, {timeout_s:g} s, {', '.join(env)}")
        if argv[0] == "hangs":
            raise CommandTimedOut("the command hangs")
        if "missing" in argv or (f"NODE={BARE.name}" in argv and "test" in argv):
            raise Unavailable("there is no missing", hint="apt install missing")
        return super().run(argv, stdin=stdin, env=env, timeout_s=timeout_s)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> RecordingProcess:
        self.text.append(f"  start {' '.join(argv)} into {Path(stderr_path).name}")
        process = super().spawn(argv, stderr_path=stderr_path, env=env)
        process.last_output = "its last\nwords"
        return process

    def write(self, path: str, content: bytes) -> None:
        self.text.append(f"  write {path} {content!r}")
        super().write(path, content)

    def remove(self, path: str) -> None:
        self.text.append(f"  remove {path}")
        super().remove(path)

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        return dict.fromkeys(patterns, 7)


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv if node.environment == "host" else ("env", f"NODE={node.name}", *argv)


PLAN: Plan = (
    Run("a value", ("show", "it"), save="value", env={"A": "b"}),
    Run("a link", ("link", "add", "${value}"), undo=("link", "del", "${value}"), timeout_s=3.0),
    Run("one of two", ("make", "1"), undo=("unmake", "1"), subject="1", timeout_s=30.0),
    Run("two of two", ("make", "2"), undo=("unmake", "2"), subject="2", undo_stdin=b"two"),
    Write("a setting", "/proc/sys/a", b"1\n"),
    Write("a file", "/run/x-${value}", b"\xff${value}\n"),
    Write("a file in a node", "/etc/x", b"after", at=NODE),
    Write("what is not there", "/proc/sys/no", b"1", optional=True),
    Write("what may be refused", "/proc/sys/b", b"1", refusable=True),
    Folder("a folder", "/run/a/b"),
    Spawn("a switch", "switch", ("serve", "${value}"), at=NODE, stop=(15, 1.5)),
    Wait("it answers", Check(("check",), pattern=r"^ready: \d+$"), 2.0, unless_dead="switch"),
    Rest("a pause", 0.25),
    Run(
        "may fail", ("false",), ok=(0, 1), undo=("refuse",), undo_refusable=True, stdin=b"${value}"
    ),
    End("it stops", "switch", (2, 0.5)),
)
"""A plan with a step of each kind."""


def on(plan: Plan, node: Node) -> Plan:
    """Return the plan with the steps of the host at another node, and those of the node there."""
    changed: list[Step] = []
    for step in plan:
        if isinstance(step, Wait):
            changed.append(replace(step, check=replace(step.check, at=node)))
        else:
            is_host = step.at.environment == "host"
            changed.append(replace(step, at=node if is_host else replace(NODE, host=node.host)))
    return tuple(changed)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path / "machine-leases")
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    numbers = (f"{number:04x}" for number in range(1, 1000))
    ids = SimpleNamespace(token_hex=lambda count: next(numbers))
    monkeypatch.setattr(workspace, "secrets", ids)
    with clock.replaced_by(Ticking()):
        yield


def carried_out(plan: Plan, folder: Path, fault: int | None, *, far: bool) -> list[str]:
    """Return what happens when a plan is executed and undone, with a failure of one request."""
    text: list[str] = []
    host = Telling(text, fault, far=far)
    with Workspace(folder) as run:
        executor = Executor({host.name: host}, run, inside=inside, logs_dir=folder / "logs")
        mark = executor.mark()
        try:
            executor.execute(plan)
        except SwitchmarkError as error:
            text.append(f"{type(error).__name__}: {error.message}")
        text.append(f"saved {executor.saved}")
        text += [f"to undo {undo!r}" for undo in run.journal.pending.values()]
        host.fault = None
        text += [f"left: {failure}" for failure in executor.unwind(to=mark)]
        text += [f"told: {refusal}" for refusal in executor.refused]
        text += [f"pending: {in_words(undo)}" for undo in run.journal.pending.values()]
        text.append(f"files {host.files}, stopped with {[p.status for p in host.processes]}")
        text = counted(text)
        steps = folder / "logs/steps.sh"
        if fault is None and steps.exists():
            text += ["", *steps.read_text().splitlines()]
        steps.unlink(missing_ok=True)
        return [line.replace(str(folder), "BASE").replace(run.run, "smRUN") for line in text]


@pytest.mark.parametrize("far", [False, True], ids=["here", "far"])
def test_a_plan_is_carried_out_and_undone(far: bool, golden: Golden, tmp_path: Path) -> None:
    plan = on(PLAN, FAR) if far else PLAN
    text = []
    for fault in (None, *range(30)):
        lines = carried_out(plan, tmp_path / "runs", fault, far=far)
        if fault is not None and not any("injected" in line or "Error" in line for line in lines):
            continue
        text += [f"## failure at {fault}", *lines]
    golden(f"changes/plan-{'far' if far else 'here'}.txt", shortened("\n".join(text)))


FAILING: Mapping[str, Plan] = {
    "a wait without an end": (
        Spawn("a switch", "switch", ("serve",)),
        Wait("it answers", Check(("slow",), pattern="ready"), 0.3, unless_dead="switch"),
    ),
    "a check that hangs": (
        Spawn("a switch", "switch", ("serve",)),
        Wait("it answers", Check(("hangs",), at=NODE), 0.3, unless_dead="switch"),
    ),
    "a check that hangs for nobody": (Wait("it is so", Check(("hangs",)), 0.3),),
    "a wait for another status": (Wait("it is so", Check(("slow",), ok=(3, 4)), 0.02),),
    "a second process of a name": (Spawn("one", "x", ("a",)), Spawn("other", "x", ("b",))),
    "an end of nothing": (End("it stops", "switch"),),
    "no such host": (Run("it", ("x",), at=Node("y", "host", host="y")),),
    "no value": (Run("it", ("x", "${none}")),),
    "undos of what is gone, busy, refused or failed": (
        *(Run(name, ("make",), undo=("gone", name)) for name in ("ip", "rm", "docker", "lxc")),
        Run("busy", ("make",), undo=("busy",)),
        Run("in use", ("make",), undo=("refuse",)),
        Run("in use, and told", ("make",), undo=("refuse",), undo_refusable=True),
        Run("hangs", ("make",), undo=("hangs",)),
    ),
    "an optional value that is there": (
        Write("it is so", "/proc/sys/a", b"1\n", optional=True),
        Write("it is not there", "/proc/sys/b", b"1\n", optional=True, refusable=True),
    ),
    "values of the machine": (
        Write("for all", "/proc/sys/a", b"1\n", machine_wide=True),
        Write("for all again", "/proc/sys/a", b"2\n", machine_wide=True),
        Write("not there", "/proc/sys/c", b"1\n", machine_wide=True, refusable=True),
        Write("not there", "/proc/sys/c", b"1\n", machine_wide=True),
    ),
    "files in a node": (
        Write("a new one", "/etc/new", b"new", at=NODE),
        Write("one that stays", "/etc/ro", b"new", at=NODE),
    ),
    "a file in a node that cannot be read": (Write("it", "/etc/no", b"new", at=NODE),),
    "folders": (Folder("one", "/run/a/b"), Folder("one in a node", "/run/a", at=NODE)),
    "a folder where no shell is": (Folder("one", "/run/a", at=BARE),),
    "an end that is too good": (Run("it", ("make",), ok=(3, -9)),),
    "a failure with an output": (Run("it", ("fails",)),),
    "a failure by a signal": (
        Run("before", ("make",), undo=("unmake",)),
        Run("it", ("fails", "loudly"), NODE, undo=("unmake", "it")),
        Run("after", ("make",), undo=("unmake", "after")),
    ),
    "a program that is missing": (Run("it", ("missing",), undo=("unmake",)),),
    "no hugepages": (Reserve("pages", 100, node=3),),
    "hugepages": (Reserve("pages", 9), Reserve("more", 1)),
}


def test_plans_that_fail(golden: Golden, tmp_path: Path) -> None:
    text = []
    for name, plan in FAILING.items():
        for far in (False, True):
            steps = on(plan, FAR) if far and not isinstance(plan[0], (End, Reserve)) else plan
            text += [f"## {name}, {'far' if far else 'here'}"]
            text += carried_out(steps, tmp_path / "runs", None, far=far)
    golden("changes/failing.txt", shortened("\n".join(text)))


# --- leases --------------------------------------------------------------------------------------


def test_the_ledger_of_several_roots(golden: Golden, tmp_path: Path) -> None:
    """Runs of two roots take and release values in an order that is drawn; some die during it."""
    draw = random.Random(28)
    kernel = Kernel({COUNT: b"4\n", SURPLUS: b"0\n", SETTING: b"0\n", NETWORK: b"0\n"})
    names: dict[str, str] = {boot_id(LocalHost()): "BOOT"}
    roots = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        roots.append(Root(tmp_path / name, kernel))
        names[Leases(tmp_path / name)._root] = f"root-{name}"
    text: list[str] = []
    known: list[str] = []

    def told(event: str) -> None:
        ledger = leases.MACHINE_WIDE
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        values = [str(int(value)) for value in kernel.files.values()]
        new = lines[len(known) :] if lines[: len(known)] == known else ["the ledger anew", *lines]
        known[:] = lines
        entries = [" ".join(map(str, json.loads(line).values())) for line in new if line[0] == "{"]
        shown = "\n".join([f"{event}: {' '.join(values)}", *(f"  {line}" for line in entries)])
        for found, name in names.items():
            shown = shown.replace(found, name)
        text.append(re.sub(r"\d{15,}", "N", shown).replace(COUNT, "count").replace(SETTING, "set"))

    for _ in range(36):
        root = draw.choice(roots)
        event = draw.choice(["start", "start", "start", "end", "die", "clean", "add", "set"])
        kernel.dies_at = (draw.randrange(3), draw.randrange(5)) if draw.random() < 0.3 else None
        dies = kernel.dies_at
        try:
            if event == "start":
                root.start(draw.randrange(1, 6))
            elif event == "end" and root.live:
                root.end(draw.choice(root.live))
            elif event == "die" and root.live:
                run = draw.choice(root.live)
                root.live.remove(run)
                root.die(run)
            elif event == "clean":
                root.clean()
            elif event == "add":
                kernel.dies_at = None
                kernel.files[COUNT] = b"%d\n" % (int(kernel.files[COUNT]) + draw.randrange(3))
            elif event == "set" and root.live:
                content = draw.choice([b"1\n", b"2"])
                root.live[-1].leases.take(root.live[-1].run, kernel, SETTING, content)
        except SwitchmarkError as error:
            event += f": {error.message}; {error.hint}"
        held = [sorted(Leases(each.base).left_by_the_dead(kernel)) for each in roots]
        added = Leases(root.base).added(kernel, COUNT)
        told(f"{event} {dies} left {held} added {added}")
        kernel.dies_at = None
    for root in roots:
        for run in [*root.live]:
            root.end(run)
        root.clean()
    told("the end")
    golden("changes/ledger.txt", "\n".join([*text, ""]))


def test_what_is_cleaned(golden: Golden, tmp_path: Path) -> None:
    """Runs of which each died behind another request are cleaned: first as a rehearsal."""
    text: list[str] = []
    base = tmp_path / "runs"
    names: list[str] = []
    for fault in range(0, 24, 3):
        host = Telling([], fault, far=False)
        run = Workspace(base)
        names.append(run.run)
        executor = Executor({"local": host}, run, inside=inside, logs_dir=base / "logs")
        with suppress(SwitchmarkError):
            executor.execute(PLAN)
        run.leases.close()
        run.journal.close()
    host = Telling([], 7, far=False)
    for dry_run in (True, False, False):
        for run_id in [name for name in names if (base / name).exists()]:
            host.text = []
            cleaned = clean(base, runs=(run_id,), hosts={"local": host}, dry_run=dry_run)
            told = "\n".join([*host.text, *map(str, cleaned)])
            text += [f"## {run_id}, dry run {dry_run}", told.replace(run_id, "smRUN")]
    golden("changes/cleaned.txt", shortened("\n".join(text).replace(str(tmp_path), "BASE")))
