"""These tests compare the campaigns of standards with a stored text: the tests that measure a made
standard, whole and quick, with axes of the command line in place of its own; why parts of it can
never be measured; and the number of tests of each standard there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from golden.test_campaigns import shown
from switchmark.campaign.conforming import tests_of as measuring
from switchmark.errors import UsageError
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.standards.standard import Standard, names, read

STANDARD = Standard.model_validate(
    {
        "name": "made",
        "title": "a standard",
        "document": "RFC 0",
        "sections": ("1", "2"),
        "campaigns": {
            "rates": {"search": "ndr", "frame-size": [64, 1500], "duration": 60, "repeat": 3},
            "bursts": {"search": "back-to-back", "frame-size": [64, 128], "switch-cores": 2},
            "latencies": {"dimension": "latency", "rate": ["1k", "2k"], "residual": 2},
            "again": {"search": "ndr", "frame-size": [1500, 64], "duration": 60, "repeat": 3},
        },
        "quick": {"duration": 2, "repeat": 1, "frame-size": [64], "burst": 7},
        "clauses": (),
    }
)

OPTIONS: tuple[Mapping[str, str], ...] = (
    {},
    {"switch": "ovs,vpp", "frame_size": "256"},
    {"engine": "udp", "rate": "3k"},
    {"frame_size": "9601"},
    {"switch_cores": "3", "seed": "5"},
    {"search": "ndr"},
    {"verification": "x"},
    {"dimension": "latency"},
)


def refusing(test: Test) -> Sequence[Refusal]:
    """Refuse bursts of one size and round trips of VPP."""
    whys = [
        *(["the bursts\n  are too short"] * (test.search == "back-to-back")),
        *(["too slow"] * (test.dimension == "latency" and test.switch == "vpp")),
    ]
    return [Refusal(("search",), why) for why in whys]


def with_engines(tests: Sequence[Test]) -> list[Test]:
    """Return tests with an engine in place of the one that was left open."""
    chosen = AXES["engine"].chosen
    engine = {True: "raw", False: "mmap"}
    return [
        test.model_copy(update={"engine": engine[test.dimension == "latency"]})
        if test.engine == chosen
        else test
        for test in tests
    ]


def lines_of_campaigns(
    standard: Standard, parts: Sequence[str], options: Mapping[str, str], *, quick: bool
) -> list[str]:
    try:
        found = measuring(standard, parts, options, refusing, with_engines, quick=quick)
    except UsageError as error:
        return [f"  refused: {error.message}; {error.hint}"]
    if found.campaign is None:
        return ["  nothing"]
    tests = [f"  {shown(test)}" for test in found.campaign.tests]
    return [
        f"  {found.campaign.name}: {len(tests)}",
        *(f"  {part} is refused: {why}" for part, why in found.refused.items()),
        *tests[:12],
    ]


def test_the_tests_that_measure_a_standard(golden: Callable[[str, str], None]) -> None:
    lines = []
    for options in OPTIONS:
        for quick in (False, True):
            lines.append(f"# {options}, quick {quick}")
            lines += lines_of_campaigns(STANDARD, [*STANDARD.campaigns], options, quick=quick)
    for parts in ([], ["bursts"], ["bursts", "latencies"]):
        lines += [
            f"# only {parts}",
            *lines_of_campaigns(STANDARD, parts, {"switch": "vpp"}, quick=True),
        ]
    golden("standards/tests.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize("name", names())
def test_a_quick_run_of_a_standard_has_tests_of_all_its_parts(name: str) -> None:
    standard = read(name)

    def count(*, quick: bool) -> int:
        given = {"engine": "raw-mmsg"}
        found = measuring(
            standard, [*standard.campaigns], given, lambda test: [], list, quick=quick
        )
        assert not found.refused
        assert found.campaign is not None
        return len(found.campaign.tests)

    assert 0 < count(quick=True) <= count(quick=False)
