"""A program of this host is carried to others that do not have it: into the cache of the user
there, by its hash; with its libraries and their loader where it does not run without them."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import Protocol

from switchmark.errors import SetupFailed
from switchmark.hosts.base import Completed, LocalHost
from switchmark.hosts.local_process import last_lines

_CHECK = ("version",)
"""What it is asked to see whether it runs."""

_CACHE = (
    'umask 077; c="${XDG_CACHE_HOME:-$HOME/.cache}/switchmark"; mkdir -p "$c" && cd "$c" && pwd'
)
_START = """\
#!/bin/sh
d=${0%/*}
exec "$d/lib/LOADER" --library-path "$d/lib" "$d/lib/NAME" "$@"
"""
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_UPLOAD_S = 120.0


class Far(Protocol):
    """A far host runs commands and takes files."""

    name: str

    def run(
        self, argv: tuple[str, ...], *, stdin: bytes | None = None, timeout_s: float = 10.0
    ) -> Completed: ...

    def write(self, path: str, content: bytes) -> None: ...


class Carried:
    """A program is at `path` on this host. `to` puts it on another one, and says where it is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def to(self, host: Far) -> str:
        """Return the path of the program on a host, which has it afterwards. SetupFailed where it
        cannot be put there, or does not run there."""
        content = Path(self.path).read_bytes()
        name = Path(self.path).name
        cache = self._cache(host)
        plain = f"{cache}/{_digest(content)}/{name}"
        self._put(host, plain, content)
        if host.run((plain, *_CHECK)).status == 0:
            return plain
        packed = _with_libraries(self.path)
        folder = f"{cache}/{_digest(packed)}"
        self._put(host, f"{folder}/all.tar", packed)
        self._call(host, ("tar", "-xf", f"{folder}/all.tar", "-C", folder))
        wrapped = f"{folder}/{name}"
        done = host.run((wrapped, *_CHECK))
        if done.status:
            raise SetupFailed(
                f"{name} does not run on host {host.name}, not with its own libraries either\n"
                f"  {last_lines(done.stderr, 1)}",
                hint=f"build switchmark there, and name it: [hosts.{host.name}.programs] traffic",
            )
        return wrapped

    def _cache(self, host: Far) -> str:
        done = self._call(host, ("sh", "-c", _CACHE))
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")

    def _put(self, host: Far, path: str, content: bytes) -> None:
        """Put a file into the cache, unless it is there with this content: it appears whole."""
        wanted = hashlib.sha256(content).hexdigest()
        if host.run(("sha256sum", path)).stdout.split()[:1] == [wanted.encode()]:
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
                f"{Path(self.path).name} cannot be copied to host {host.name}: {error.strerror}\n"
                f"  {path}",
                hint=f"on {host.name}: df -h {folder}",
            ) from error

    def _call(self, host: Far, argv: tuple[str, ...]) -> Completed:
        done = host.run(argv, timeout_s=_UPLOAD_S)
        if done.status:
            raise SetupFailed(
                f"{Path(self.path).name} cannot be put into the cache of host {host.name}\n"
                f"  {last_lines(done.stderr, 1)}",
                hint=f"on {host.name}: df -h ~/.cache",
            )
        return done


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _with_libraries(path: str) -> bytes:
    """Return an archive of a program, the libraries that it is linked with, and their loader;
    what has the program's name in it starts it by that loader."""
    name = Path(path).name
    done = LocalHost().run(("ldd", path))
    libraries = sorted(set(_LIBRARY.findall(done.stdout.decode())))
    loader = next((each for each in libraries if Path(each).name.startswith("ld-")), None)
    contents = {f"lib/{Path(each).name}": Path(each).read_bytes() for each in libraries}
    contents[f"lib/{name}"] = Path(path).read_bytes()
    contents[name] = contents[f"lib/{name}"]
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
