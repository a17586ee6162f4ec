"""Container images that docker or podman has on a host: finding one, and probing its programs.

Nothing is pulled. A plan uses the files of an image (`path.images`); this module only asks.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed, Host, Process
from switchmark.hosts.programs import on_other
from switchmark.model.printable import last_lines
from switchmark.model.version import Image

ENGINES = ("docker", "podman")
"""The engines that may have an image, in the order in which they are asked."""

ANY_ENGINE = "image"
"""The word for an image of whichever engine has it."""

_ASKED = re.compile(rf"({'|'.join((ANY_ENGINE, *ENGINES))}):(.*)", re.DOTALL)
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH in an image that sets none."""

_OF_HOST = ("/dev/", "/proc/", "/sys/")
_NO_PROGRAM = (126, 127)
_START_S = 30.0  # a busy engine takes seconds to start a container

_MOUNTED = """\
image=$1; shift
chroot=$(command -v chroot) && root=$(podman image mount "$image") || exit 125
trap 'umount -R "$root"; podman image unmount "$image" >/dev/null' EXIT
mount --bind -o ro "$root" "$root" && mount --rbind /dev "$root/dev" &&
  mount -t proc proc "$root/proc" || exit 125
env {variables} "$chroot" "$root" "$@"
"""
"""Runs a command with the files of an image and without a container, because `podman run` leaves
control groups and folders behind. With some storage drivers, the root is the image itself, so it is
mounted read-only."""


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image that a user asks for."""

    engines: tuple[str, ...]
    """The engines that may have it."""
    name: str
    """Its name, its id, or its name with a digest, as the engine takes it."""


def image_asked(version: str) -> ImageName | None:
    """Return the image in `image:NAME`, `docker:NAME` or `podman:NAME`; None for another text."""
    asked = _ASKED.fullmatch(version)
    if asked is None:
        return None
    return ImageName(ENGINES if asked[1] == ANY_ENGINE else (asked[1],), asked[2])


def find_image(host: Host, asked: ImageName) -> Image:
    """Return the image with a name on a host. Unavailable if no engine has it, or if two engines
    have different images of that name."""
    found: list[Image] = []
    answers: list[str] = []
    for engine in asked.engines:
        try:
            completed = host.run((engine, "image", "inspect", asked.name))
        except Unavailable:
            answers.append(f"{engine}: not installed")
            continue
        if completed.status:
            answers.append(f"{engine}: {last_lines(completed.stderr, 1)}")
        else:
            found.append(_parsed(engine, asked.name, completed.stdout))
    if not found:
        why = "\n  ".join((f"there is no image {asked.name}{on_other(host)}", *answers))
        able = [engine for engine in asked.engines if f"{engine}: not installed" not in answers]
        pulls = " or ".join(f"{engine} pull {asked.name}" for engine in able)
        raise Unavailable(why, hint=pulls or f"apt-get install {asked.engines[-1]}")
    if len({image.id for image in found}) > 1:
        engines = " and ".join(image.engine for image in found)
        raise Unavailable(
            f"{engines} have different images {asked.name}{on_other(host)}",
            hint=f"@{found[0].engine}:{asked.name} or @{found[1].engine}:{asked.name}",
        )
    return found[0]


def _parsed(engine: str, name: str, answer: bytes) -> Image:
    """Return the image that an engine describes."""
    try:
        (described,) = json.loads(answer)
        settings: Mapping[str, Any] = described.get("Config") or {}
        pairs = (entry.partition("=") for entry in settings.get("Env") or ())
        return Image(
            engine,
            name,
            str(described["Id"]).removeprefix("sha256:"),
            tuple(sorted(map(str, described.get("RepoDigests") or ()))),
            {name: value for name, _, value in pairs},
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise Unavailable(f"{engine} describes the image {name} in an unknown way") from error


def in_words(image: Image) -> str:
    """Return an image's engine, id and digest, which a record holds."""
    digests = (digest.rpartition("@")[2] for digest in image.digests)
    return " ".join(dict.fromkeys((image.engine, image.id, *digests)))


class ImageHost(Host):
    """A host whose programs and files are those of an image, for probes: nothing is left of a
    command when it ends. A command that names a file in /dev, /proc or
    /sys asks about the host's kernel, and runs on the host."""

    def __init__(self, host: Host, image: Image) -> None:
        self.name = host.name
        self._host, self._image = host, image

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        if any(word.startswith(_OF_HOST) for word in argv):
            return self._host.run(argv, stdin=stdin, env=env, timeout_s=timeout_s)
        start = self._mounted if self._image.engine == "podman" else self._contained
        whole = start(argv, env, reads=stdin is not None)
        completed = self._host.run(whole, stdin=stdin, timeout_s=timeout_s + _START_S)
        if completed.status in _NO_PROGRAM and not completed.stdout:
            raise Unavailable(f"it has no {argv[0]}")
        return completed

    def _contained(
        self, argv: tuple[str, ...], env: Mapping[str, str], *, reads: bool
    ) -> tuple[str, ...]:
        """Return the command that runs another in a container of docker."""
        variables = (word for pair in env.items() for word in ("--env", "=".join(pair)))
        return (
            *("docker", "run", "--rm", "--pull", "never", "--network", "none"),
            *("--log-driver", "none", *("-i",) * reads, *variables, "--user", "0"),
            *("--entrypoint", argv[0], self._image.id, *argv[1:]),
        )

    def _mounted(
        self, argv: tuple[str, ...], env: Mapping[str, str], *, reads: bool
    ) -> tuple[str, ...]:
        """Return the command that runs another with the files of an image of podman."""
        variables = {"PATH": USUAL_PATH, **self._image.env, **env}
        words = " ".join(shlex.quote(f"{name}={value}") for name, value in variables.items())
        script = _MOUNTED.format(variables=words)
        return ("unshare", "--mount", "sh", "-c", script, "sh", self._image.id, *argv)

    def program(self, *names: str) -> str | None:
        """Return the path in the image of the first program that it has; None if it has none."""
        completed = self.run(("sh", "-c", 'for it; do command -v "$it"; done; true', "sh", *names))
        paths = completed.stdout.decode(errors="replace").split("\n")
        return next((path for path in paths if PurePath(path).is_absolute()), None)

    def exists(self, path: str) -> bool:
        if path.startswith(_OF_HOST):
            return self._host.exists(path)
        return self.run(("test", "-e", path)).status == 0

    def read(self, path: str) -> bytes:
        if path.startswith(_OF_HOST):
            return self._host.read(path)
        completed = self.run(("cat", path))
        if completed.status:
            raise FileNotFoundError(path)
        return completed.stdout

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        return self._host.read_all(*patterns)

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        return self._host.inodes(*patterns)

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        return self._host.read_later(*patterns)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> Process:
        raise NotImplementedError("an image is only probed")

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        raise NotImplementedError("an image is only probed")

    def write(self, path: str, content: bytes) -> None:
        raise NotImplementedError("an image is only probed")

    def remove(self, path: str) -> None:
        raise NotImplementedError("an image is only probed")
