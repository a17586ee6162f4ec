"""Makes foreign text safe to print.

A message of a switch, or a name in a record, may contain control characters for a terminal, or
characters that XML does not allow.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters except tab and newline, marks that change the direction of text, and code
points that are not characters."""

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])")
"""Terminal escape sequences: colours, cursor moves, titles (ECMA-48)."""

_FRAME = re.compile(r"#\d+ +0x[0-9a-f]+ | +from /")


def printable(text: str) -> str:
    r"""Return the text with unsafe characters escaped in Python's notation, such as `\x1b`, and
    with CRLF as a single newline."""
    return _OBEYED.sub(_written, text.replace("\r\n", "\n"))


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def last_lines(output: bytes, count: int = 5) -> str:
    """Return the last non-blank lines of an output, without colours and control characters. Omit
    stack frames, which follow the reason."""
    text = _ESCAPES.sub("", output.decode(errors="replace"))
    lines = [printable(line.rstrip()) for line in text.splitlines()]
    return "\n".join([line for line in lines if line and not _FRAME.match(line)][-count:])


def evidence(stderr: bytes) -> str:
    """Return the last lines of an output, each on an indented line of its own below a message."""
    return "".join(f"\n  {line}" for line in last_lines(stderr).splitlines())
