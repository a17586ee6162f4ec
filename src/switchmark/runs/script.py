"""Plans as text: the lines that an operator would type, in order, each with its reason.

The text and the executor share two rules of this module: how `${name}` is filled in, and how
environment variables get into a node.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable, Mapping

from switchmark.errors import SetupFailed
from switchmark.model.plan import (
    HOST,
    Check,
    End,
    Folder,
    Node,
    Plan,
    Reserve,
    Rest,
    Run,
    Spawn,
    Wait,
    Write,
)
from switchmark.runs.hugepages import ON_NODE

Inside = Callable[[Node, tuple[str, ...]], tuple[str, ...]]
"""A function that returns the argv to run an argv in a node: `Environment.inside` of the node's
environment."""

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")


def is_host(node: Node) -> bool:
    """Return whether the node is a host itself, so that its files are directly accessible."""
    return node.environment == HOST.environment


def command(step: Run | Spawn | Check, inside: Inside) -> tuple[str, ...]:
    """Return the argv of a step as its host runs it. `env` sets variables within the node, because
    `docker exec` and ssh do not pass them on."""
    variables = tuple(f"{name}={value}" for name, value in step.env.items())
    argv = inside(step.at, ("env", *variables, *step.argv) if variables else step.argv)
    return (*step.within, *argv) if isinstance(step, Spawn) else argv


def fill(text: str, values: Mapping[str, str], why: str) -> str:
    """Return `text` with each `${name}` replaced. Raise SetupFailed if no earlier step set the name
    or its value is empty: `${folder}/x` would name a system file."""

    def value(reference: re.Match[str]) -> str:
        if (name := reference[1]) not in values:
            raise SetupFailed(f"{why}: no earlier step gave a value for {reference[0]}")
        if not values[name]:
            raise SetupFailed(f"{why}: the step that gives a value for {reference[0]} gave none")
        return values[name]

    return _REFERENCE.sub(value, text)


def describe(plan: Plan, inside: Inside) -> list[str]:
    """Return the plan as lines for a shell: `# why`, then the command followed by its undo. A
    `${name}` stays, except for characters that a shell variable cannot have."""
    lines: list[str] = []
    for number, step in enumerate(plan):
        node = step.check.at if isinstance(step, Wait) else step.at
        lines.append(f"# {step.why}" + (f" (on {node.host})" if node.host != HOST.host else ""))
        match step:
            case Run():
                lines.extend(_run(step, inside))
            case Spawn():
                lines.append(f"{_quoted(command(step, inside))} &  # {step.name}")
                if _needs_pid(step.name, plan[number + 1 :]):
                    lines.append(f"{_variable(step.name)}=$!")
            case End():
                lines.append(_end(step))
            case Rest():
                lines.append(f"sleep {step.seconds:g}")
            case Write():
                lines.extend(_write(step, inside))
            case Folder():
                making = _quoted(inside(step.at, ("mkdir", "-p", step.path)))
                lines.append(f"{making}  # undo: what was not there is removed, if it is empty")
            case Reserve():
                lines.append(_reserve(step))
            case Wait():
                lines.append(_wait(step, inside))
    return lines


def _needs_pid(name: str, later: Plan) -> bool:
    """Return whether later steps use the pid of a Spawn with this name."""
    ended = any(isinstance(step, End) and step.name == name for step in later)
    return ended or f"${{{name}}}" in repr(later)


def _run(step: Run, inside: Inside) -> list[str]:
    line = _quoted(command(step, inside))
    if step.stdin is not None:
        line = f"{_printed(step.stdin)} | {line}"
    if step.save is not None:
        line = f'{_variable(step.save)}="$({line})"'
    notes = []
    if step.ok != (0,):
        notes.append(f"ends with {' or '.join(map(str, step.ok))}")
    if step.undo is not None:
        undo = _quoted(inside(step.at, step.undo))
        if step.undo_stdin is not None:
            undo = f"{_printed(step.undo_stdin)} | {undo}"
        notes.append(f"undo: {undo}")
    return [line + (f"  # {'; '.join(notes)}" if notes else "")]


def _end(step: End) -> str:
    """Return the commands that end a background process of the script and wait for its end."""
    number, grace_s = step.stop
    process = f'"${{{_variable(step.name)}}}"'
    note = f"  # SIGKILL after {grace_s:g} s" if grace_s else ""
    return f"kill -{signal.Signals(number).name[3:]} {process}; wait {process}{note}"


def _write(step: Write, inside: Inside) -> list[str]:
    if is_host(step.at):
        target = f">{_word(step.path)}"
    else:
        target = f"| {_quoted(inside(step.at, ('tee', step.path)))} >/dev/null"
    note = "  # leased: the last run restores it" if step.machine_wide else ""
    condition = f"[ ! -e {_word(step.path)} ] || " if step.optional else ""
    tried = " || true" if step.refusable else ""
    return f"{condition}{_printed(step.content)} {target}{tried}{note}".split("\n")


def _reserve(step: Reserve) -> str:
    path = ON_NODE.format(node=step.node, kib="${kib}")
    return (
        "kib=\"$(awk '/^Hugepagesize:/ {print $2}' /proc/meminfo)\"; "
        f'total="{path}"; '
        f'echo "$(($(cat "$total") + ({step.megabytes} * 1024 + kib - 1) / kib))" >"$total"'
        "  # leased: only what is not free is added, and it is taken away again"
    )


def _wait(step: Wait, inside: Inside) -> str:
    check = step.check
    line = _quoted(command(check, inside))
    if check.pattern is not None:
        line += f" 2>/dev/null | grep -qP {shlex.quote(check.pattern)}"
    else:
        line += " >/dev/null 2>&1"
        if check.ok != (0,):
            line += f"; case $? in ({'|'.join(map(str, check.ok))}) true;; (*) false;; esac"
    return f"until {line}; do sleep 0.05; done  # at most {step.timeout_s:g} s"


def _printed(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "printf '" + "".join(f"\\{byte:03o}" for byte in content) + "'"
    if text.endswith("\n"):
        return f"printf '%s\\n' {_word(text[:-1])}"
    return f"printf '%s' {_word(text)}"


def _quoted(argv: tuple[str, ...]) -> str:
    return " ".join(map(_word, argv))


def _word(text: str) -> str:
    """Return a shell word: quoted only if necessary, with `${name}` left to the shell."""
    if not _REFERENCE.search(text):
        return shlex.quote(text)
    pieces = _REFERENCE.split(text)
    literal = (re.sub(r'(["\\$`])', r"\\\1", piece) for piece in pieces[::2])
    names = (f"${{{_variable(name)}}}" for name in pieces[1::2])
    return f'"{"".join(map("".join, zip(literal, [*names, ""], strict=True)))}"'


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)
