"""Which axes tell tests apart, and a test in a few words: for tables, pages and progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from switchmark.model.axis import ranked
from switchmark.model.test import AXES, Test


def varying(tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the axes in which these tests differ, in the order of Test's fields."""
    return tuple(name for name in AXES if len({getattr(test, name) for test in tests}) > 1)


def telling(tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the varying axes that a reader needs to tell these tests apart: how a test is measured
    is left out where the other axes tell it."""
    axes = list(varying(tests))
    left_out = ranked(AXES, lambda axis: axis.left_out)
    for axis in [each for each in left_out if each in axes]:
        fewer = [other for other in axes if other != axis]
        if len({tuple(getattr(test, name) for name in fewer) for test in tests}) == len(tests):
            axes = fewer
    return tuple(axes)


def following(tests: Sequence[Test], axis: str) -> tuple[str, ...]:
    """Return the axes that switchmark may have chosen for each value of another one: they differ,
    and have one value wherever that has one. Tests that differ in these too are compared."""
    chosen = [name for name in varying(tests) if AXES[name].chosen and name != axis]
    return tuple(
        name
        for name in chosen
        if len({(getattr(test, axis), getattr(test, name)) for test in tests})
        == len({getattr(test, axis) for test in tests})
    )


def label(test: Test, axes: Sequence[str]) -> str:
    """Write a test in a few words: its switch, and its values on `axes`."""
    words = [test.switch]
    for axis in axes:
        value = getattr(test, axis)
        if axis == "frame_size":
            words.append(f"{value} B" if isinstance(value, int) else value)
        elif axis != "switch" and value is not None:
            words.append(f"{AXES[axis].words} {value}" if is_bare(value) else str(value))
    return " ".join(words)


def is_bare(value: object) -> bool:
    """Say whether a value needs the axis beside it to be understood."""
    return not isinstance(value, str) or value in _OF_SEVERAL or value[:1].isdigit()


_TOLD = Counter(
    word
    for axis in AXES.values()
    for word in {axis.default, *axis.choices}
    if isinstance(word, str) and not axis.table
)
_OF_SEVERAL = {"max", *(word for word, axes in _TOLD.items() if axes > 1)}
"""Words that several axes have, such as auto."""
