"""Programs that switchmark copies to hosts that do not have them: into the user's cache there,
named by their hash. Their libraries and loader go along if they do not run without them. The
modules of engines always go along, and use the libraries of the host (traffic/src/modules.h)."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from switchmark.errors import SetupFailed
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import setting_of
from switchmark.model.printable import last_lines

_CHECK = ("version",)
"""The arguments of a program that test whether it runs."""

_CACHE = (
    'umask 077; c="${XDG_CACHE_HOME:-$HOME/.cache}/switchmark"; mkdir -p "$c" && cd "$c" && pwd'
)
_START = """\
#!/bin/sh
d=${0%/*}
exec "$d/lib/LOADER" --library-path "$d/lib" "$d/lib/NAME" "$@"
"""
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MODULES = "switchmark-engine-*.so"
_UPLOAD_S = 120.0


class CopyTarget(Protocol):
    """The part of a far host that the copy needs: run commands and write files."""

    name: str

    def run(
        self, argv: tuple[str, ...], *, stdin: bytes | None = None, timeout_s: float = 10.0
    ) -> Completed: ...

    def write(self, path: str, content: bytes) -> None: ...


class Carried:
    """Programs at `paths` on this host; `to` copies them into one folder of another host."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self._modules = _modules_beside(paths)

    def to(self, host: CopyTarget) -> dict[str, str]:
        """Return the path of each program on a host, and copy the programs there if necessary.
        Raise SetupFailed if the host cannot store them or cannot run them."""
        contents = {path: Path(path).read_bytes() for path in (*self.paths, *self._modules)}
        cache = self._cache(host)
        folder = f"{cache}/{_digest(b''.join(contents.values()))}"
        there = {path: f"{folder}/{Path(path).name}" for path in self.paths}
        for path, content in contents.items():
            self._put(host, f"{folder}/{Path(path).name}", content)
        if all(host.run((plain, *_CHECK)).status == 0 for plain in there.values()):
            return there
        packed = _with_libraries(self.paths, self._modules)
        folder = f"{cache}/{_digest(packed)}"
        self._put(host, f"{folder}/all.tar", packed)
        self._call(host, ("tar", "-xf", f"{folder}/all.tar", "-C", folder))
        there = {path: f"{folder}/{Path(path).name}" for path in self.paths}
        for path, wrapped in there.items():
            completed = host.run((wrapped, *_CHECK))
            if completed.status:
                name = Path(path).name
                raise SetupFailed(
                    f"{name} does not run on host {host.name}, not with its own libraries either\n"
                    f"  {last_lines(completed.stderr, 1)}",
                    hint="build switchmark there, and name it: "
                    f"[hosts.{host.name}.programs] {setting_of(name)}",
                )
        return there

    def _cache(self, host: CopyTarget) -> str:
        completed = self._call(host, ("sh", "-c", _CACHE))
        return completed.stdout.decode(errors="surrogateescape").rstrip("\n")

    def _put(self, host: CopyTarget, path: str, content: bytes) -> None:
        """Write a file into the cache atomically, unless it is there with this content."""
        digest = hashlib.sha256(content).hexdigest()
        if host.run(("sha256sum", path)).stdout.split()[:1] == [digest.encode()]:
            return
        folder, _, _ = path.rpartition("/")
        new = f"{path}.new"
        try:
            self._call(host, ("mkdir", "-p", folder))
            host.write(new, content)
            self._call(host, ("sh", "-c", 'chmod 700 "$1" && mv -f "$1" "$2"', "sh", new, path))
        except OSError as error:
            host.run(("rm", "-rf", folder))
            raise SetupFailed(
                f"{Path(path).name} cannot be copied to host {host.name}: {error.strerror}\n"
                f"  {path}",
                hint=f"on {host.name}: df -h {folder}",
            ) from error

    def _call(self, host: CopyTarget, argv: tuple[str, ...]) -> Completed:
        completed = host.run(argv, timeout_s=_UPLOAD_S)
        if completed.status:
            names = " and ".join(Path(path).name for path in self.paths)
            raise SetupFailed(
                f"{names} cannot be put into the cache of host {host.name}\n"
                f"  {last_lines(completed.stderr, 1)}",
                hint=f"on {host.name}: df -h ~/.cache",
            )
        return completed


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _modules_beside(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the modules of engines in the folders of programs."""
    folders = dict.fromkeys(Path(path).parent for path in paths)
    return tuple(str(path) for folder in folders for path in sorted(folder.glob(_MODULES)))


def _with_libraries(paths: Sequence[str], modules: Sequence[str] = ()) -> bytes:
    """Return an archive with programs, the libraries that they are linked with, and their loader.
    For each program, a script with its name starts it with that loader. Modules lie next to the
    loader, where a program that it started looks for them."""
    contents = {f"lib/{Path(path).name}": Path(path).read_bytes() for path in modules}
    for path in paths:
        name = Path(path).name
        completed = LocalHost().run(("ldd", path))
        libraries = sorted(set(_LIBRARY.findall(completed.stdout.decode())))
        loader = next(
            (library for library in libraries if Path(library).name.startswith("ld-")), None
        )
        contents |= {
            f"lib/{Path(library).name}": Path(library).read_bytes() for library in libraries
        }
        contents[f"lib/{name}"] = contents[name] = Path(path).read_bytes()
        if loader is not None:
            start = _START.replace("LOADER", Path(loader).name).replace("NAME", name)
            contents[name] = start.encode()
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in sorted(contents.items()):
            info = tarfile.TarInfo(member)
            info.size, info.mode = len(content), 0o700
            archive.addfile(info, io.BytesIO(content))
    return output.getvalue()
