"""Hosts whose /proc and /sys are folders of files, with the rules of the kernel for what
`--prepare` sets."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from pathlib import Path

from switchmark.hosts.local import LocalHost
from switchmark.model.cpus import format_cpus, listed_cpus

ROOTS = Path(__file__).parent / "unit/data/roots"
"""The recorded hosts: `server` (Intel, SMT), `amd`, `guest` (a virtual machine), and `bare`, whose
kernel shows nothing that `--prepare` sets."""

CPU = "/sys/devices/system/cpu"
_POLICY = f"{CPU}/cpufreq/policy[0-9]*"


class RecordedRoot(LocalHost):
    """A recorded host in a copy of its folder, which reads and writes the files there. `refused`
    are interrupts that the kernel does not move."""

    def __init__(self, recorded: str, copy: Path, *, refused: Collection[int] = (0,)) -> None:
        super().__init__()
        self.root = copy
        shutil.copytree(ROOTS / recorded, copy)
        self.refused = {f"/proc/irq/{number}/smp_affinity_list" for number in refused}
        self.written: list[tuple[str, str]] = []

    @property
    def contents(self) -> dict[str, str]:
        """Return the content of every file."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {f"/{path.relative_to(self.root)}": path.read_text() for path in files}

    def allowed_cpus(self) -> frozenset[int]:
        return listed_cpus(self.read(f"{CPU}/online"))

    def read(self, path: str) -> bytes:
        return self._at(path).read_bytes()

    def exists(self, path: str) -> bool:
        return self._at(path).exists()

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for pattern in patterns:
            for path in sorted(self.root.glob(pattern.lstrip("/"))):
                found[f"/{path.relative_to(self.root)}"] = path.read_bytes()
        return found

    def write(self, path: str, content: bytes) -> None:
        text = content.decode().strip()
        file = self._at(path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if path in self.refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.written.append((path, text))
        if fnmatch(path, f"{_POLICY}/energy_performance_preference"):
            governor = file.with_name("scaling_governor").read_text().strip()
            if governor == "performance" and text != "performance":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if path == f"{CPU}/smt/control":
            self._set_smt(text)
        elif "[" in (before := file.read_text()):
            words = before.replace("[", "").replace("]", "").split()
            if text not in words:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            text = " ".join(f"[{word}]" if word == text else word for word in words)
        file.write_text(f"{text}\n")

    def _set_smt(self, text: str) -> None:
        """Take all threads of each core but the first offline, or bring them back. The kernel keeps
        the frequency policy of an offline CPU."""
        siblings = self.read_all(f"{CPU}/cpu[0-9]*/topology/thread_siblings_list")
        every = [listed_cpus(content) for content in siblings.values()]
        online = {min(cpus) for cpus in every} if text == "off" else set().union(*every)
        self._at(f"{CPU}/online").write_text(f"{format_cpus(online)}\n")
        for cpu in set().union(*every):
            here, away = (
                self._at(f"{CPU}/cpufreq/{prefix}policy{cpu}") for prefix in ("", "offline-")
            )
            source, target = (away, here) if cpu in online else (here, away)
            if source.exists():
                source.rename(target)

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")
