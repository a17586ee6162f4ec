"""The functions that the traffic program plays, controlled through its stdin and stdout.

One process serves many trials: commands and answers are JSON objects, one per line
(`traffic/src/command.h`).
"""

from __future__ import annotations

from typing import Any

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.errors import CommandFailed, TrialFailed
from switchmark.functions.base import Function, Hosted
from switchmark.hosts.base import Host, Process
from switchmark.model.objects import Message
from switchmark.model.plan import Node, Plan, Spawn
from switchmark.model.topology import PortKind
from switchmark.model.version import Version
from switchmark.runs.jsonl import parse_line, to_line
from switchmark.switches.base import NO_COUNTERS

_NO_SIGNAL = 0


def process_name(node: Node) -> str:
    """Return the name of a node's traffic process, in plans and logs."""
    return f"traffic-{node.name}"


class Traffic(Function):
    """One process of switchmark-traffic plays the functions of a node. It ends at the end of its
    stdin. SIGTERM would reach only the client of a container runtime, and leave a zombie for init
    to reap."""

    name = "traffic"
    summary = "the traffic program as an end: sender, receiver, client or server"
    played = True
    forwards = False
    polls = True
    port_kinds = frozenset(PortKind)
    counters = NO_COUNTERS

    def probe(self, host: Host) -> Version:
        """Return the version of the traffic program."""
        return ENGINES["null"].probe(host)

    def start(self, hosted: Hosted) -> Plan:
        return (
            Spawn(
                f"the traffic program at {hosted.node.name}",
                process_name(hosted.node),
                (traffic_program(), "serve"),
                at=hosted.node,
                stop=(_NO_SIGNAL, 2.0),
            ),
        )


class Forwarder(Traffic):
    """The traffic program forwards between two ports: it rewrites both MACs and leaves the rest of
    the frame unchanged."""

    name = "forwarder"
    summary = "the traffic program, from port to port: it writes both MACs"
    forwards = True
    rewrites = True


class TrafficProcess:
    """A client for a running traffic process; `part` names the process in errors."""

    def __init__(self, part: str, process: Process) -> None:
        self.part = part
        self._process = process

    @property
    def slow(self) -> bool:
        """Return whether the process is on a host that responds more slowly than usual."""
        return self._process.patience > 1

    def ask(self, command: str, *, timeout_s: float = 10.0, **members: Any) -> Message:
        """Send a command and return its answer.

        TrialFailed if the program has died (with its last output), refuses (with its reason), or
        does not answer within `timeout_s`.
        """
        self.send(command, **members)
        return self.answer(command, timeout_s=timeout_s)

    def send(self, command: str, **members: Any) -> None:
        """Send a command; read its answer with `answer`."""
        try:
            self._process.send(to_line({"cmd": command, **members}))
        except CommandFailed as broken:
            raise self._died() from broken

    def answer(self, command: str, *, timeout_s: float = 10.0) -> Message:
        """Return the answer to the command that was sent last."""
        line = self._process.receive(timeout_s)
        if line is None:
            if self._process.poll() is not None:
                raise self._died()
            raise TrialFailed(f"{self.part}: no answer to '{command}' within {timeout_s} s")
        try:
            answer = parse_line(line)
        except ValueError as garbled:
            raise TrialFailed(f"{self.part}: not an answer: {line[:200]!r}") from garbled
        if not answer.get("ok"):
            raise TrialFailed(f"{self.part}: {answer.get('error')}")
        return answer

    def hang_up(self) -> None:
        """Close the command channel, so that the program ends."""
        self._process.hang_up()

    def _died(self) -> TrialFailed:
        status = self._process.poll()
        if status is None:
            reason = "closed its output"
        elif status < 0:
            reason = f"was killed by signal {-status}"
        else:
            reason = f"ended with status {status}"
        output = "".join(f"\n  {line}" for line in self._process.last_words().splitlines())
        return TrialFailed(f"the traffic program of {self.part} {reason}{output}")


FUNCTIONS = (Traffic(), Forwarder())
