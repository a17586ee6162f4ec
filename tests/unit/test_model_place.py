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
    )
    assert list(counters.as_dict()) == ["f1.0", "f1.0@switch", "function f1 f1.0", "switch"]
    assert PathCounters.parse(counters.as_dict()) == counters
    assert counters.at_switch == {"f1.0": PortCounters(tx=2)}
    assert counters.at_parts == {"f1.0": PortCounters(rx=1)}


def test_who_was_off_its_cpu_while_busy_was_not_idle() -> None:
    before, after = PathCounters({}, 100, 50), PathCounters({}, 400, 40)
    counted = after.since(before)
    assert (counted.busy_cycles, counted.idle_cycles) == (300, 0)
