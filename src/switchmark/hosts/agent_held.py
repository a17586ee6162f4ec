"""The undos of a run that the agent of another host holds."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.hosts.agent import Agent
from switchmark.hosts.agent_messages import Ask, Undo, counted, text, texts, uint32, uint64


class AgentHeld:
    """The undos of a run, held in `folder` by an agent that executes them when its connection ends.

    `boot` identifies the boot of that host; `pid` and `started` identify the process that holds the
    undos.
    """

    def __init__(self, agent: Agent, run: str, folder: str, names: Sequence[str]) -> None:
        self._agent = agent
        request = texts((run, folder, f"far-{agent.host}", *names))
        answer = agent.ask(Ask.HOLD, request)
        self.folder = answer.text()
        self.pid, self.started = answer.number(), answer.long()
        self.boot = answer.counted().decode(errors="replace").strip()

    def lives(self) -> bool:
        """Return whether the connection is up, as far as this side knows."""
        return self._agent.lives()

    def journal(self, line: str) -> None:
        """Append a line to the run's journal on that host."""
        self._agent.notify(Ask.JOURNAL, text(self.folder) + f"{line}\n".encode())

    def command(self, number: int, argv: Sequence[str], stdin: bytes | None) -> None:
        payload = uint32(stdin is not None) + counted(stdin or b"")
        self._note(number, Undo.COMMAND, payload + texts(argv))

    def restore(self, number: int, path: str, content: bytes | None) -> None:
        """Register an undo that writes a file, or removes it if `content` is None."""
        if content is None:
            self._note(number, Undo.REMOVE, text(path))
        else:
            self._note(number, Undo.WRITE, text(path) + content)

    def stop(self, number: int, pid: int, started: int, by: int, grace_s: float) -> None:
        """Register an undo that ends a process."""
        ending = uint32(by) + uint32(int(grace_s * 1000))
        self._note(number, Undo.STOP, uint32(pid) + uint64(started) + ending)

    def lease(self, number: int, path: str, added: int | None) -> None:
        """Register an undo that restores the file's current content, or that lowers its count by
        the increase from now on, at most by `added`."""
        counted_by = uint32(added is not None) + uint64(added or 0)
        self._note(number, Undo.LEASE, counted_by + text(path))

    def done(self, number: int) -> None:
        """Report that the undo with this number was executed."""
        self._note(number, Undo.DONE, b"")

    def end(self, *, kept: bool = False) -> None:
        """Release the run: the agent removes its folder, or keeps it for `clean`."""
        self._agent.notify(Ask.LET_GO, text(self.folder) + uint32(kept))

    def _note(self, number: int, kind: Undo, payload: bytes) -> None:
        noted = uint32(number) + uint32(kind) + payload
        self._agent.notify(Ask.NOTE, text(self.folder) + noted)
