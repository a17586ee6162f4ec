"""This module starts switchmark-traffic with its pipes, for tests that speak its protocol
themselves."""

from __future__ import annotations

import json
import select
import subprocess
from typing import Any

ADDRESS = {
    "src_mac": "02:00:00:00:00:01",
    "dst_mac": "02:00:00:00:00:02",
    "src_ip": "198.18.0.1",
    "dst_ip": "198.18.0.2",
    "src_port": 20000,
    "dst_port": 20000,
}


class Program:
    """This object holds the program with its pipes."""

    quiet_ms = 5
    """How long no frame comes before a trial has drained."""

    def __init__(self, *argv: str) -> None:
        self.process = subprocess.Popen(
            [*argv, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def line(self, line: bytes) -> dict[str, Any]:
        self.stdin.write(line + b"\n")
        self.stdin.flush()
        assert select.select([self.stdout], [], [], 20)[0], "no answer in 20 s"
        answer = json.loads(self.stdout.readline())
        assert isinstance(answer, dict)
        return answer

    @property
    def complains(self) -> bool:
        """Return whether it has written something to stderr."""
        assert self.process.stderr is not None
        return bool(select.select([self.process.stderr], [], [], 0)[0])

    def ask(self, command: str, **members: Any) -> dict[str, Any]:
        return self.line(json.dumps({"cmd": command, **members}).encode())

    def open_loop(
        self, *, take: int = 0, roles: tuple[str, ...] = ("sender", "receiver"), cores: int = 1
    ) -> None:
        answer = self.ask(
            "open",
            ports=[{"engine": "null", "options": {"loop": 1, "take": take}}],
            threads=[{"tasks": [{"role": role, "ports": [0]} for role in roles], "cores": cores}],
        )
        assert answer["ok"], answer

    def arm(self, *, sender: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
        load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 10000, **(sender or {})}
        flows = load.get("flows", 1)
        return self.ask(
            "arm",
            **{
                "run": 7,
                "longest_ns": 10**10,
                "tasks": [load, {"latency": True, "flows": flows}],
                **members,
            },
        )

    def trial(self, duration_ns: int = 10**8) -> dict[str, Any]:
        assert self.ask("start", duration_ns=duration_ns)["ok"]
        assert self.ask("wait")["ok"]
        assert self.ask("drain", quiet_ms=self.quiet_ms)["ok"]
        report = self.ask("report")
        assert report["ok"], report
        return report

    def end(self) -> None:
        """Close its stdin; it must end well, and have complained of nothing."""
        self.stdin.close()
        assert self.process.stderr is not None
        ended = (self.process.wait(5), self.process.stderr.read().decode())
        assert ended == (0, ""), "the program, or a sanitizer, complained"
        self.stdout.close()
        self.process.stderr.close()
