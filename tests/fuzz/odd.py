"""This module spoils values, texts and bytes: what a disk, an editor or somebody hostile makes of
them."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TEXTS = (
    *("", " ", "-", "--", "0", "-1", "1e999", "nan", "inf", "none", "null", "true", "max", "auto"),
    *("1..", "1..1..9", "9..1", "1,1", ",", "64,", "0x10", "1_000", "1%", "-5%", "1e-400"),
    *("\0", "\x07", "\x1b[31m", "\x1b]0;title\x07", "\r", "\n", "a\nb", "\t", "\x7f", "\x85"),
    *("<script>alert(1)</script>", "' onload=alert(1) x='", "=1+1", "|", "`", "\\", "&amp;"),
    *("é", "\u202e", "\u2028", "\ufffe", "\U0001f600", "\ud800", "a" * 300, "a/" * 200, "9" * 5000),
    *("../..", "/dev/null", "%s", "{}", "{0}", "$(id)", "a b", "a=b", "a@b", "nosuch", "[", "{"),
    *("2001-99-99", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2020-01-01"),
)

_NUMBERS = (
    *(0, 1, -1, 2, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63),
    *(1 << 64, -(1 << 63), -(1 << 64), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e18, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)


def any_value(draw: random.Random, deep: int = 2) -> Any:
    """Return a value that JSON can hold, or that Python's JSON writes."""
    kind = draw.randrange(8 if deep else 6)
    if kind < 2:
        return draw.choice(_NUMBERS)
    if kind < 4:
        return draw.choice(TEXTS)
    if kind == 4:
        return draw.choice((None, True, False))
    if kind == 5:
        return draw.choice(([], {}))
    inner = [any_value(draw, deep - 1) for _ in range(draw.randrange(4))]
    return inner if kind == 6 else {draw.choice(TEXTS): value for value in inner}


def spoilt_json(draw: random.Random, content: Any, times: int = 1) -> Any:
    """Return a content of JSON with so many of its values replaced, removed, doubled or moved."""
    spoilt = copy.deepcopy(content)
    for _ in range(times):
        places = list(_places(spoilt))
        if not places:
            return any_value(draw)
        holder, key = draw.choice(places)
        draw.choice(_CHANGES)(draw, holder, key, places)
    return spoilt


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the place of each value: what holds it, and its key there."""
    if not isinstance(content, dict | list):
        return
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        yield from _places(content[key])


def _replace(draw: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    holder[key] = any_value(draw)


def _remove(draw: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    del holder[key]


def _rename(draw: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(holder, dict):
        holder[draw.choice(TEXTS)] = holder.pop(key)
    else:
        holder.append(holder[key])


def _move(draw: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    other, place = draw.choice(places)
    holder[key] = copy.deepcopy(other[place])


def _nudge(draw: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = holder[key]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        holder[key] = [value]
    elif isinstance(value, str):
        holder[key] = spoilt_text(draw, value)
    else:
        holder[key] = draw.choice((-value, value * 10**9, value + 0.5, 0))


_Change = Callable[[random.Random, Any, Any, list[tuple[Any, Any]]], None]
_CHANGES: tuple[_Change, ...] = (_replace, _replace, _remove, _rename, _move, _nudge, _nudge)


def spoilt_text(draw: random.Random, text: str) -> str:
    """Return a text with a piece removed, doubled, moved, or something odd put in."""
    start, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    end = min(end, start + draw.choice((1, 1, 8, 200)))
    piece = text[start:end]
    put = draw.choice(("", piece * 2, draw.choice(TEXTS), draw.choice(TEXTS) + piece, "[" * 3000))
    return text[:start] + put + text[end:]


def spoilt_bytes(draw: random.Random, content: bytes) -> bytes:
    """Return bytes with some of them changed, lost, doubled or cut off."""
    data = bytearray(content)
    if not data:
        return draw.randbytes(20)
    position = draw.randrange(len(data))
    match draw.randrange(4):
        case 0:
            data[position] ^= 1 << draw.randrange(8)
        case 1:
            del data[position:]
        case 2:
            data[position:position] = draw.randbytes(draw.choice((1, 4, 40)))
        case _:
            data[position : position + 40] = data[position : position + 80]
    return bytes(data)


def endless(draw: random.Random, path: Path) -> None:
    """Put something else in the place of a file: what never ends, is no file, or leads nowhere."""
    path.unlink(missing_ok=True)
    match draw.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("/dev/zero")
        case 3:
            path.symlink_to(path.name)
        case 4:
            path.symlink_to("nowhere")
        case _:
            path.write_text(json.dumps(any_value(draw)), errors="replace")
