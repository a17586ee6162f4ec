"""This module writes the text that a POSIX shell reads: words, inputs and patterns that stand for
exactly what they say, whatever is in them; and it reads what tools say of files."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from switchmark.hosts.local_process import last_lines

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GLOB = re.compile(r"(\*|\?|\[[^]/]+\])")
_PLAIN = frozenset(b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _./:;,=+-{}[]"')
_ERRORS = {os.strerror(number): number for number in errno.errorcode}


def word(text: str) -> str:
    """Return one word of a shell that stands for exactly this text. ValueError for a NUL, which no
    argument of a command can hold."""
    if "\0" in text:
        raise ValueError("embedded null byte")
    return shlex.quote(text)


def quoted(argv: Sequence[str]) -> str:
    """Return the words of a command as a shell reads them."""
    return " ".join(map(word, argv))


def assignments(env: Mapping[str, str]) -> str:
    """Return variables as they stand before a command. ValueError for what is no name of one."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name of a variable")
    return "".join(f"{name}={word(value)} " for name, value in env.items())


def literal(content: bytes) -> str:
    """Return the command that prints exactly these bytes, by a shell's own `printf`."""
    return (
        "printf -- '"
        + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in content)
        + "'"
    )


def why_not(program: str) -> str:
    """Return shell text that sets `s` to why a program cannot be started; as it was where it
    can."""
    name = word(program)
    if "/" in program:
        return f"if [ ! -e {name} ]; then s=missing; elif [ ! -x {name} ]; then s=forbidden; fi"
    return f"if ! command -v {name} >/dev/null; then s=missing; fi"


def ending(pid: int, started: int, number: int, grace_s: float) -> str:
    """Return shell text that signals the process of this number and start time, kills it after
    `grace_s`, and fails where it lives on."""
    return (
        f"read -r s </proc/{pid}/stat || exit 0\n"
        f's=${{s##*) }}; set -- $s; [ "${{20}}" = {started} ] || exit 0\n'
        f"kill -{number} {pid}; i=0\n"
        f"while [ -d /proc/{pid} ] && [ $i -lt {max(1, round(grace_s * 20))} ]; do\n"
        "  sleep 0.05; i=$((i+1))\n"
        "done\n"
        f"kill -9 {pid} || exit 0\n"
        "i=0\n"
        f"while [ -d /proc/{pid} ] && [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done\n"
        f"[ ! -d /proc/{pid} ]\n"
    )


def os_error(words: bytes, path: str) -> OSError:
    """Return the error that a tool's message tells of, by the reason behind the last colon."""
    last = last_lines(words, 1)
    reason = last.rpartition(": ")[2].strip()
    number = _ERRORS.get(reason, errno.EIO)
    return OSError(number, reason or "it failed", path)


def patterns_of(patterns: Iterable[str]) -> str:
    """Return patterns as words of a shell: their stars count, and nothing else in them."""
    return " ".join(
        "".join(
            piece if number % 2 else word(piece) if piece else ""
            for number, piece in enumerate(_GLOB.split(pattern))
        )
        for pattern in patterns
    )
