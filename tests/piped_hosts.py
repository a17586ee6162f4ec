"""A host that is reached by pipes: its agent is a process of this machine, started by the same line
of a shell as over ssh. It needs neither root nor a network."""

from __future__ import annotations

from switchmark.hosts.ssh import SshHost


class PipedHost(SshHost):
    """This host's session is a shell of this machine."""

    def _session(self) -> tuple[str, ...]:
        # Of a session of sshd the client's death does not end the agent, which undoes what is left.
        return ("setsid", "--fork", "--wait", "sh", "-c")
