"""Makes texts from elsewhere safe to print: a switch's message, or a name in a record, may hold
control characters for a terminal, or characters that XML does not allow."""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters but for tab and newline, what turns the direction of a text, and what is no
character."""


def printable(text: str) -> str:
    r"""Return a text in which what is not to be shown stands as Python writes it, such as `\x1b`; a
    newline of two characters is one."""
    return _OBEYED.sub(_written, text.replace("\r\n", "\n"))


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
