"""These tests check plans as text: readable, and fit to be pasted in a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import SetupFailed
from switchmark.model.plan import Check, End, Folder, Node, Plan, Rest, Run, Spawn, Wait, Write
from switchmark.runs.script import describe, fill

FAR = Node("host", "host", "far")
NODE = Node("sm0000-f0", "netns")


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv if node.environment == "host" else ("ip", "netns", "exec", node.name, *argv)


def in_shell(plan: Plan, folder: Path) -> str:
    """Return the output of a plan's text when it is pasted into a shell."""
    script = "\n".join(describe(plan, inside))
    completed = subprocess.run(
        ["bash", "-eu"], input=script.encode(), cwd=folder, capture_output=True
    )
    assert completed.stderr == b""
    return completed.stdout.decode()


def test_every_kind_of_step_reads_as_an_operator_would_type_it() -> None:
    plan: Plan = (
        Run("a network for f0", ("ip", "netns", "add", "n"), undo=("ip", "netns", "del", "n")),
        Write("forward nothing", "/proc/sys/net/ipv4/ip_forward", b"0", at=NODE),
        Write("huge pages", "/proc/sys/vm/nr_hugepages", b"512\n", machine_wide=True),
        Spawn("the switch", "ovs-vswitchd", ("ovs-vswitchd", "--pidfile=a b"), env={"DIR": "/x"}),
        Run("its id", ("cat", "/proc/${ovs-vswitchd}/stat"), at=FAR, save="own-id", ok=(0, 1)),
        Run("tell it", ("ctl", "--id=$x ${own-id}"), stdin=b"two\nlines"),
        Wait("up", Check(("ip", "link"), at=NODE, pattern="^a: U."), unless_dead="ovs-vswitchd"),
        Wait("gone", Check(("test", "-e", "x"), ok=(1,)), timeout_s=0.5),
    )
    assert describe(plan, inside) == [
        "# a network for f0",
        "ip netns add n  # undo: ip netns del n",
        "# forward nothing",
        "printf '%s' 0 | ip netns exec sm0000-f0 tee /proc/sys/net/ipv4/ip_forward >/dev/null",
        "# huge pages",
        r"printf '%s\n' 512 >/proc/sys/vm/nr_hugepages  # leased: the last run restores it",
        "# the switch",
        "env DIR=/x ovs-vswitchd '--pidfile=a b' &  # ovs-vswitchd",
        "ovs_vswitchd=$!",
        "# its id (on far)",
        'own_id="$(cat "/proc/${ovs_vswitchd}/stat")"  # ends with 0 or 1',
        "# tell it",
        "printf '%s' 'two\nlines' | ctl \"--id=\\$x ${own_id}\"",
        "# up",
        (
            "until ip netns exec sm0000-f0 ip link 2>/dev/null | grep -qP '^a: U.'; "
            "do sleep 0.05; done  # at most 10 s"
        ),
        "# gone",
        (
            "until test -e x >/dev/null 2>&1; case $? in (1) true;; (*) false;; esac; "
            "do sleep 0.05; done  # at most 0.5 s"
        ),
    ]


def test_what_else_a_step_says_stands_behind_its_command() -> None:
    plan: Plan = (
        Run("try it", ("a",), ok=(0, 1, 2), undo=("b", "c d"), undo_stdin=b"x\n"),
        Write("if it is there", "/a b", b"1", optional=True),
        Write("if it is allowed", "/c", b"2", refusable=True),
        Write("inside", "/d", b"3", at=NODE, refusable=True),
        Spawn("a server", "server", ("serve",)),
        Rest("a moment", 0.25),
        End("gently", "server", (2, 4.0)),
        End("at once", "server", (9, 0.0)),
        Folder("a place", "/e f"),
        Folder("a place inside", "/g", at=NODE),
        Wait("any of them", Check(("x",), ok=(1, 2)), timeout_s=3),
    )
    assert describe(plan, inside) == [
        "# try it",
        "a  # ends with 0 or 1 or 2; undo: printf '%s\\n' x | b 'c d'",
        "# if it is there",
        "[ ! -e '/a b' ] || printf '%s' 1 >'/a b'",
        "# if it is allowed",
        "printf '%s' 2 >/c || true",
        "# inside",
        "printf '%s' 3 | ip netns exec sm0000-f0 tee /d >/dev/null || true",
        "# a server",
        "serve &  # server",
        "server=$!",
        "# a moment",
        "sleep 0.25",
        "# gently",
        'kill -INT "${server}"; wait "${server}"  # SIGKILL after 4 s',
        "# at once",
        'kill -KILL "${server}"; wait "${server}"',
        "# a place",
        "mkdir -p '/e f'  # undo: what was not there is removed, if it is empty",
        "# a place inside",
        "ip netns exec sm0000-f0 mkdir -p /g"
        "  # undo: what was not there is removed, if it is empty",
        "# any of them",
        "until x >/dev/null 2>&1; case $? in (1|2) true;; (*) false;; esac; do sleep 0.05; done"
        "  # at most 3 s",
    ]


def test_a_pasted_plan_does_what_the_plan_says(tmp_path: Path) -> None:
    plan: Plan = (
        Write("a file", "file", b"one\ntwo\n"),
        Write("bytes", "bytes", b"\xff\x00%\\'"),
        Run("a value", ("head", "-n1", "file"), save="first"),
        Spawn("a process", "sleeper", ("sleep", "60")),
        Wait("it has begun", Check(("cat", "/proc/${sleeper}/comm"), pattern="sleep")),
        Run("its name", ("cat", "/proc/${sleeper}/comm")),
        Wait("it is there", Check(("cat", "file"), pattern="^two$")),
        Wait("it is not there", Check(("test", "-e", "nothing"), ok=(1,))),
        Run("the value", ("printf", "%s|", "${first}", "$first", '`"', "*")),
        Run("input", ("cat",), stdin=b"in"),
        Run("the end", ("kill", "${sleeper}")),
    )
    assert in_shell(plan, tmp_path) == 'sleep\none|$first|`"|*|in'
    assert (tmp_path / "bytes").read_bytes() == b"\xff\x00%\\'"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), max_size=4))
def test_a_shell_reads_every_word_as_it_was(arguments: list[str]) -> None:
    plan: Plan = (Run("print", ("printf", "%s\\0", *arguments)),)
    printed = in_shell(plan, Path("/"))
    assert printed.split("\0")[:-1] == (arguments or [""])


@pytest.mark.parametrize("values", [{}, {"folder": ""}])
def test_a_value_that_is_missing_or_empty_is_filled_in_nowhere(values: dict[str, str]) -> None:
    """`rm -rf ${folder}/x` would be about the system's /x."""
    with pytest.raises(SetupFailed, match=r"remove it: .*\$\{folder\}"):
        fill("${folder}/x", values, "remove it")
