"""These tests check which steps of a plan go to a host in one round trip."""

from __future__ import annotations

from switchmark.model.plan import Check, Node, Run, Spawn, Wait, fenced
from switchmark.runs.journal import Command, Restore
from switchmark.runs.together import commands_together, steps_beside, steps_together

A, B = (Node("host", "host", host=name) for name in "ab")
IN_A = Node("sm-f0", "netns", host="a")


def run(name: str = "x", node: Node = A, save: str | None = None) -> Run:
    return Run("a command", ("echo", name), node, save=save)


WAIT = Wait("it is so", Check(("true",), A))


def test_commands_of_one_host_go_together() -> None:
    assert steps_together((run(), run(node=IN_A), run(node=B))) == (run(), run(node=IN_A))


def test_what_needs_a_value_goes_after_what_gives_it() -> None:
    giver, taker = run(save="pid"), run("${pid}")
    assert steps_together((giver, run(), taker, run())) == (giver, run())


def test_what_is_waited_for_ends_them() -> None:
    assert steps_together((run(), WAIT, WAIT, run())) == (run(), WAIT, WAIT)


def test_what_is_no_command_goes_alone() -> None:
    spawn = Spawn("a process", "p", ("true",), A)
    assert steps_together((spawn, run())) == (spawn,)
    assert steps_together((run(), spawn)) == (run(),)


def test_there_are_not_too_many_at_once() -> None:
    assert len(steps_together((run(),) * 100)) == 32
    long = Run("a command", ("cat",), A, stdin=b"x" * 600_000)
    assert steps_together((long, long)) == (long,)
    assert steps_together((Run("a command", ("cat",), A, stdin=b"x" * 2_000_000), run())) != ()


def test_undos_that_are_commands_of_one_host_go_together() -> None:
    one, other = (Command(host=name, argv=("true",)) for name in "ab")
    file = Restore(host="a", path="/x", content=None)
    assert commands_together((one, one, other)) == [one, one]
    assert commands_together((one, file, one)) == [one]
    assert commands_together((file, one)) == []


def test_commands_about_something_are_run_side_by_side() -> None:
    one, other = (Run("a command", ("echo",), A, subject=name) for name in "xy")
    assert steps_beside((one, other, run(), one)) == (one, other)
    assert steps_beside((run(), one)) == (run(),)
    assert steps_beside((one, Run("a command", ("echo",), B, subject="z"))) == (one,)
    assert steps_beside((one, Run("a pid", ("echo",), A, save="pid", subject="z"))) == (one,)


def test_what_is_waited_for_is_looked_at_side_by_side() -> None:
    dead = Wait("a process is ready", Check(("true",), A), unless_dead="p")
    assert steps_beside((WAIT, WAIT, run())) == (WAIT, WAIT)
    assert steps_beside((WAIT, dead)) == (WAIT,)
    assert steps_beside((dead, WAIT)) == (dead,)


def test_a_part_of_a_plan_waits_for_what_is_before_it_and_is_waited_for() -> None:
    one, other = (Run("a command", ("echo",), A, subject=name) for name in "xy")
    parted = fenced((WAIT, one, other, one, WAIT))
    assert [step.subject for step in parted if isinstance(step, Run)] == ["", "y", ""]
    assert fenced(()) == ()
    assert fenced((WAIT,)) == (WAIT,)
