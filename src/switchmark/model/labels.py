"""The axes that identify tests, and short names of tests, for tables, pages and progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from switchmark.model.axis import ranked
from switchmark.model.test import AXES, Test


def varying(tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the axes that differ between these tests, in the order of Test's fields."""
    return tuple(name for name in AXES if len({getattr(test, name) for test in tests}) > 1)


def telling(tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the varying axes that a reader needs to identify these tests.

    Axes of the method are omitted if the other axes suffice."""
    axes = list(varying(tests))
    left_out = ranked(AXES, lambda axis: axis.left_out)
    for axis in [name for name in left_out if name in axes]:
        fewer = [other for other in axes if other != axis]
        if len({tuple(getattr(test, name) for name in fewer) for test in tests}) == len(tests):
            axes = fewer
    return tuple(axes)


def following(tests: Sequence[Test], axis: str) -> tuple[str, ...]:
    """Return the axes that switchmark may have chosen for every value of `axis`.

    They vary, and have a single value for every value of `axis`. Tests that differ in these axes
    are still compared."""
    chosen = [name for name in varying(tests) if AXES[name].chosen and name != axis]
    return tuple(
        name
        for name in chosen
        if len({(getattr(test, axis), getattr(test, name)) for test in tests})
        == len({getattr(test, axis) for test in tests})
    )


def label(test: Test, axes: Sequence[str]) -> str:
    """Return a short name of a test: its switch, and its values of `axes`."""
    parts = [test.switch]
    for axis in axes:
        value = getattr(test, axis)
        if axis == "frame_size":
            parts.append(f"{value} B" if isinstance(value, int) else value)
        elif axis != "switch" and value is not None:
            parts.append(f"{AXES[axis].label} {value}" if is_bare(value) else str(value))
    return " ".join(parts)


def is_bare(value: object) -> bool:
    """Say whether a value needs the name of its axis to be understood."""
    return not isinstance(value, str) or value in _OF_SEVERAL or value[:1].isdigit()


_COUNTED = Counter(
    word
    for axis in AXES.values()
    for word in {axis.default, *axis.choices}
    if isinstance(word, str) and not axis.table
)
_OF_SEVERAL = {"max", *(word for word, axes in _COUNTED.items() if axes > 1)}
"""Values that several axes share, such as auto."""
