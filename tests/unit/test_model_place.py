"""Places where frames are lost: one way to write each, which a record keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import Place, PlaceKind, PortEnd

AT_PART, AT_SWITCH = PortEnd("f1.0"), PortEnd("f1.0", at_switch=True)


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("ring f1.0", Place.ring("f1.0"), "f1"),
        ("engine f0", Place.engine("f0"), "f0"),
        ("function f2", Place.function("f2"), "f2"),
        ("f1.0 out", Place.out(AT_PART), "f1"),
        ("f1.0@switch in", Place.into(AT_SWITCH), "f1"),
        ("to switch", Place(PlaceKind.TO_SWITCH), ""),
        ("from switch", Place(PlaceKind.FROM_SWITCH), ""),
        ("inside switch", Place(PlaceKind.INSIDE_SWITCH), ""),
        ("beyond", Place(PlaceKind.BEYOND), ""),
        ("of another version", Place(PlaceKind.OTHER, "of another version"), ""),
    ],
)
def test_a_place_is_written_in_one_way(text: str, place: Place, part: str) -> None:
    assert Place.parse(text) == place
    assert str(place) == text
    assert place.part == part


@given(
    st.text() | st.sampled_from(["ring", "ring ", " in", "@switch in", "out", "in", "function "])
)
def test_any_text_is_a_place_that_is_written_so(text: str) -> None:
    assert str(Place.parse(text)) == text
    assert str(PortEnd.parse(text)) == text


def test_counters_are_read_as_they_were_written() -> None:
    counters = PathCounters(
        {AT_PART: PortCounters(rx=1), AT_SWITCH: PortCounters(tx=2)},
        busy_cycles=3,
        functions={"f1": {"f1.0": PortCounters(rx_dropped=4)}},
        slow_path=5,
    )
    assert list(counters.as_dict()) == ["f1.0", "f1.0@switch", "function f1 f1.0", "switch"]
    assert PathCounters.parse(counters.as_dict()) == counters
    assert counters.at_switch == {"f1.0": PortCounters(tx=2)}
    assert counters.at_parts == {"f1.0": PortCounters(rx=1)}


def test_who_was_off_its_cpu_while_busy_was_not_idle() -> None:
    before, after = PathCounters({}, 100, 50), PathCounters({}, 400, 40)
    counted = after.since(before)
    assert (counted.busy_cycles, counted.idle_cycles) == (300, 0)


@pytest.mark.parametrize(
    ("read_ns", "share"),
    [(None, 0.25), (2000, 0.5), (3000, 0.75), (5000, 1.0), (500, 0.25)],
)
def test_a_switch_is_busy_for_a_share_of_the_phase(read_ns: int | None, share: float) -> None:
    """Its counters are read some time before and after the phase of 1000 ns."""
    before = PathCounters({}, 7, 7, read_ns=None if read_ns is None else 10)
    after = PathCounters({}, 17, 37, read_ns=None if read_ns is None else 10 + read_ns)
    counted = after.since(before)
    assert counted.busy(1000) == share
    assert PathCounters.parse(counted.as_dict()).busy(1000) == share
    assert PathCounters().busy(1000) is None


def test_frames_of_the_slow_path_are_counted_where_a_switch_tells_of_one() -> None:
    before, after = PathCounters(slow_path=7), PathCounters(slow_path=9)
    assert after.since(before).as_dict() == {"switch": {"slow_path": 2}}
    assert after.since(PathCounters()).as_dict() == {}
    assert PathCounters.parse({"switch": {"slow_path": 2}}) == PathCounters(slow_path=2)
