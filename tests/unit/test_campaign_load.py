"""These tests read campaign files and axes: all problems are reported together, with their
lines."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refused import MALFORMED
from switchmark.campaign.load import Campaign, dump, from_options, load, parse
from switchmark.errors import UsageError
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.path.refusals import check

REPOSITORY = Path(__file__).parents[2]


def anything_goes(test: Test) -> list[Refusal]:
    return []


def only_known_switches(test: Test) -> list[Refusal]:
    if test.switch in ("a", "b", "linux-bridge"):
        return []
    why = f"there is no switch named '{test.switch}'\n  known: a, b"
    return [Refusal(("switch",), why, "did you mean a?")]


def read(tmp_path: Path, text: str | bytes, **options: str) -> Campaign:
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path, options, only_known_switches)


def refusal(tmp_path: Path, text: str | bytes, **options: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text, **options)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def values(campaign: Campaign, axis: str) -> list[object]:
    return list(dict.fromkeys(getattr(test, axis) for test in campaign.tests))


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_campaign_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    text, expected = MALFORMED[name]
    assert expected in refusal(tmp_path, text)


BLAMED = {
    "the value that is named may be another axis' too": (
        "pairs: 4\nscenario: v2v\nburst: 8\nqueues: 4\nengine: dpdk\nswitch: ovs-dpdk\nflows: 2",
        {7: "2 flows do not use 4 queues"},
    ),
    "an axis that is not written is not blamed": (
        "pairs: 1\nengine: dpdk\nswitch: ovs-dpdk\nqueues: 4",
        {4: "1 flows do not use 4 queues"},
    ),
    "a usual value is not blamed before an unusual one": (
        "rate: max\nscenario: p2p\ndimension: latency",
        {3: "dimension latency needs a rate"},
    ),
    "the environment of the switch": (
        "environment: lxc\nswitch-environment: lcx\nswitch: linux-bridge",
        {2: "no environment named 'lcx'"},
    ),
    "a driver says no to what is wired": (
        "switch: macvlan\nburst: 2\nscenario: p2p\nflows: 2",
        {3: "two physical ports"},
    ),
    "each of several": (
        "frame-size: 64\nvlan: 5\nplacement: best\ncopies: 2\npairs: 2",
        {2: "at least 68 bytes", 3: "no placement 'best'", 4: "copies reach"},
    ),
    "what a test of a list adds": (
        "switch: linux-bridge\ntests:\n- pairs: 2\n  copies: 2\n- cpu-limit: 50",
        {4: "copies reach the sinks", 5: "has no processes"},
    ),
    "a scenario's own reason": ("scenario: p2p\nburst: 3\nnic: a0=x", {3: "not a physical port"}),
}


@pytest.mark.parametrize("name", BLAMED)
def test_the_line_that_is_blamed_is_that_of_the_axis(name: str, tmp_path: Path) -> None:
    text, expected = BLAMED[name]
    path = tmp_path / "c.yaml"
    path.write_text(text)
    reason = refused_reason(lambda: load(path, {}, check))
    found = re.findall(rf"{re.escape(str(path))}:(\d+): (.*)", reason)
    assert [int(line) for line, _ in found] == list(expected)
    for (_, messages), expected_messages in zip(found, expected.values(), strict=True):
        assert expected_messages in messages


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = refusal(tmp_path, "swich: a\nburst: 0\nrate: fast\n")
    assert text.splitlines() == [
        "3 problems",
        "  c.yaml:1: unknown key 'swich'; did you mean 'switch'?",
        "  c.yaml:2: burst: '0' is too small: at least 1",
        "  c.yaml:3: rate: 'fast' is not a rate; write max, 1000, 10M, 500kpps, 2.5Gbps or 50%",
    ]


def test_a_reason_is_told_once_however_many_tests_have_it(tmp_path: Path) -> None:
    text = refusal(tmp_path, "switch: x\nburst: 1..1..100")
    assert text.count("no switch named") == 1
    assert text.endswith("\n\nhint: did you mean a?")


def test_hints_of_several_problems_stay_beside_them(tmp_path: Path) -> None:
    text = refusal(tmp_path, "switch: [x, y]")
    assert text.splitlines()[:4] == [
        "2 problems",
        "  c.yaml:1: there is no switch named 'x'",
        "        known: a, b",
        "      hint: did you mean a?",
    ]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "a device or a pipe"),
        (os.mkfifo, "a device or a pipe"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.write_bytes(b"#" * ((1 << 24) + 1)), "larger than 16 MiB"),
    ],
    ids=["absent", "a directory", "a device", "a pipe", "a circle of links", "huge"],
)
def test_a_path_that_is_no_campaign_is_refused(
    make: Callable[[Path], None], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    make(path)
    with pytest.raises(UsageError, match=expected):
        load(path, {}, anything_goes)


def test_a_range_holds_its_ends() -> None:
    campaign = from_options({"frame_size": "64..64..512,1500"}, anything_goes)
    assert values(campaign, "frame_size") == [64, 128, 192, 256, 320, 384, 448, 512, 1500]


@pytest.mark.parametrize(
    ("axis", "text", "expected"),
    [
        ("frame_size", "64..700..1500", [64, 764, 1464, 1500]),
        ("rate", "1k..2k..4k", ["1k", "3k", "4k"]),
        ("frame_size", "64..64..64", [64]),
        ("chain", "1..4", [1, 2, 3, 4]),
        ("vlan", "5..7", [5, 6, 7]),
    ],
)
def test_both_ends_of_a_range_belong_to_it(axis: str, text: str, expected: list[object]) -> None:
    assert values(from_options({axis: text}, anything_goes), axis) == expected


def test_a_duration_below_a_tenth_of_a_millisecond_is_read() -> None:
    assert values(from_options({"warmup": "0.00005"}, anything_goes), "warmup") == [5e-05]


def test_a_range_keeps_its_unit() -> None:
    assert values(from_options({"rate": "0.5M..0.5M..2M"}, anything_goes), "rate") == [
        "0.5M",
        "1.0M",
        "1.5M",
        "2.0M",
    ]


def test_a_value_of_several_parts_is_not_divided() -> None:
    campaign = from_options({"nic": "a0=x:y,b0=v:w"}, anything_goes)
    assert values(campaign, "nic") == ["a0=x:y,b0=v:w"]


def test_none_stands_for_no_vlan() -> None:
    assert values(from_options({"vlan": "none,100"}, anything_goes), "vlan") == [None, 100]


def test_a_bad_option_is_told_by_its_name() -> None:
    with pytest.raises(UsageError, match="^--flows-by: 'x' is not one of mac, ip, port"):
        from_options({"flows_by": "x"}, anything_goes)


def test_an_option_takes_the_place_of_an_axis(tmp_path: Path) -> None:
    campaign = read(tmp_path, "switch: a\ntests:\n- burst: 1\n- burst: 2", burst="7", switch="b")
    assert [(test.switch, test.burst) for test in campaign.tests] == [("b", 7)]


@pytest.mark.parametrize(
    ("text", "trials"),
    [
        ("switch: a", {(1, 10)}),
        ("frame-size: [64, 128]", {(1, 10)}),
        ("switch: [a, b]", {(20, 0.3)}),
        ("rate: 1M\ntests:\n- switch: a\n- frame-size: 128", {(20, 0.3)}),
        ("switch: [a, b]\nhosts: near", {(5, 1.6)}),
        ("switch: [a, b]\nduration: 2", {(5, 2)}),
        ("switch: [a, b]\nrepeat: 1", {(1, 10)}),
        ("switch: [a, b]\nuntil-certain: 1%", {(1, 10)}),
        ("switch: [a, b]\nsearch: [max, ndr]", {(20, 0.3), (1, 10)}),
        ("switch: [a, b]\ntests:\n- {}\n- repeat: 5", {(20, 0.3), (5, 10)}),
    ],
)
def test_several_switches_are_compared_by_several_trials(
    tmp_path: Path, text: str, trials: set[tuple[int, float]]
) -> None:
    """A test takes no longer than a test with one trial, unless the user asks for more."""
    campaign = read(tmp_path, text)
    assert {(test.repeat, test.duration) for test in campaign.tests} == trials
    longest = max((test.warmup + test.duration) * test.repeat for test in campaign.tests)
    assert longest <= 10.5 or "repeat: 5" in text or "duration" in text
    (tmp_path / "dumped.yaml").write_text(dump(campaign))
    assert load(tmp_path / "dumped.yaml", {}, anything_goes).tests == campaign.tests


def test_tests_share_what_stands_above_them(tmp_path: Path) -> None:
    campaign = read(tmp_path, "switch: [a, b]\nrate: 1k\ntests:\n- burst: 1\n- rate: 2k")
    found = [(test.switch, test.burst, test.rate) for test in campaign.tests]
    assert found == [("a", 1, "1k"), ("a", 32, "2k"), ("b", 1, "1k"), ("b", 32, "2k")]


def test_the_name_is_the_files_unless_it_is_given(tmp_path: Path) -> None:
    assert read(tmp_path, "burst: 1").name == "c"
    assert read(tmp_path, "name: other\nburst: 1").name == "other"


@pytest.mark.parametrize("path", sorted((REPOSITORY / "campaigns").glob("*.yaml")), ids=str)
def test_the_examples_are_read(path: Path) -> None:
    assert load(path, {}, anything_goes).tests


SEEDS = [path.read_text() for path in sorted((REPOSITORY / "campaigns").glob("*.yaml"))]
SEEDS += [text for text, _ in MALFORMED.values() if isinstance(text, str) and len(text) < 300]
PIECES = [*"[]{},:-#&*!|>'\"%@`? \n\t.0", "\n- ", ": ", "..", "1..1..3", "tests:", "\x85", "\u2028"]


def mutant(draw: random.Random) -> str:
    """Draw a campaign file with one to three slips: something deleted, put in, doubled or cut
    off."""
    text = draw.choice(SEEDS)
    for _ in range(draw.randint(1, 3)):
        position = draw.randint(0, len(text))
        end = min(position + draw.randint(1, 8), len(text))
        text = draw.choice(
            [
                text[:position] + text[end:],
                text[:position] + draw.choice(PIECES) + text[position:],
                text[:position] + text[position:end] + text[position:],
                text[:position],
            ]
        )
    return text


def test_five_hundred_slips_are_read_or_refused_with_a_line(tmp_path: Path) -> None:
    draw = random.Random(11)
    path = tmp_path / "c.yaml"

    def judged(test: Test) -> list[Refusal]:
        return check(test) if test.burst % 8 == 0 else []

    refused = 0
    for _ in range(500):
        text = mutant(draw)
        path.write_text(text)
        reason = refused_reason(lambda: load(path, {}, judged))
        refused += bool(reason)
        assert not reason or re.search(rf"{re.escape(str(path))}:\d+: |the defaults: ", reason), (
            text
        )
    assert 150 < refused < 500


axes = st.fixed_dictionaries(
    {},
    optional={
        "frame_size": st.sampled_from(["64", "imix", "64..64..256", "9000,64"]),
        "rate": st.sampled_from(["max", "10M,1_000", "2.5Gbps", "50%", "1e6", "1k..1k..3k"]),
        "burst": st.integers(1, 4096).map(str),
        "vlan": st.sampled_from(["none", "1,none", "4094"]),
        "switch": st.sampled_from(["a", "a,b", "null", "yes,1e3"]),
        "duration": st.floats(0.001, 86400).map(lambda seconds: f"{seconds:.6f}"),
        "seed": st.integers(0).map(str),
    },
)


@settings(max_examples=50)
@given(axes)
def test_a_campaign_survives_being_written_and_read(tmp_path_factory, options) -> None:
    campaign = from_options(options, anything_goes)
    path = tmp_path_factory.mktemp("campaign") / "c.yaml"
    path.write_text(dump(campaign))
    assert load(path, {}, anything_goes) == campaign


def refused_reason(read_it: Callable[[], object]) -> str:
    """Return why it is refused; empty if it is not."""
    try:
        read_it()
    except UsageError as error:
        return str(error)
    return ""


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_by_its_name(tmp_path_factory, text: str) -> None:
    path = tmp_path_factory.mktemp("campaign") / "c.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    reason = refused_reason(lambda: load(path, {}, anything_goes))
    assert not reason or str(path) in reason


@given(st.sampled_from(sorted(AXES)), st.text(max_size=30))
def test_any_value_is_read_or_refused_by_its_option(axis: str, text: str) -> None:
    reason = refused_reason(lambda: from_options({axis: text}, anything_goes))
    assert not reason or reason.startswith(f"{AXES[axis].option}: ")


def test_a_name_that_is_in_no_table_is_told_with_the_other_problems(tmp_path: Path) -> None:
    text = "switch: linux-brige\nrate: 1x\nframe-size: 7\nnonsense: 1\nengine: [raw, dpkd]\n"
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(path, {}, check)
    message = str(caught.value)
    assert message.startswith("5 problems\n")
    assert "no switch named 'linux-brige'" in message
    assert "no engine named 'dpkd'" in message


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("pairs", "many", "'many' is no whole number"),
        ("chain", "65", "'65' is too large: at most 64"),
        ("pairs", "0", "'0' is too small: at least 1"),
    ],
)
def test_a_value_is_refused_in_words_of_the_field(option: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_options({option: value}, check)
    assert message in caught.value.message
    assert "Input" not in caught.value.message
    assert "valid" not in caught.value.message


def test_imix_is_a_name_in_small_letters_or_great_ones() -> None:
    assert from_options({"frame_size": "IMIX"}, check).tests[0].frame_size == "imix"


def test_a_hint_for_one_switch_fits_the_other_switches_of_the_run() -> None:
    with pytest.raises(UsageError) as caught:
        from_options({"switch": "linux-bridge,ovs,ovs-dpdk"}, check)
    assert caught.value.hint == "--engine dpdk"
    options = {"switch": "linux-bridge,ovs,ovs-dpdk", "engine": "dpdk"}
    assert len(from_options(options, check).tests) == 3


def test_where_no_engine_fits_all_switches_the_hint_is_a_separate_run() -> None:
    with pytest.raises(UsageError) as caught:
        from_options({"switch": "ipvlan,ovs-dpdk", "engine": "udp"}, check)
    assert str(caught.value.hint).startswith("--engine dpdk, in a separate run or ")


def test_the_sizes_of_rfc2544_are_a_sweep() -> None:
    campaign = from_options({"frame_size": "rfc2544,9000"}, check)
    sizes = [test.frame_size for test in campaign.tests]
    assert sizes == [64, 128, 256, 512, 1024, 1280, 1518, 9000]
    (file,) = parse("frame-size: rfc2544\nduration: 1", {}, check, source="c", name="c").tests[:1]
    assert file.frame_size == 64


@pytest.mark.parametrize("word", ["far", "3", "2.5", "true", "2001-02-03"])
def test_plain_values_are_read_as_they_are_written(word: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"hosts: {word}\n")
    (test,) = load(path, {}, lambda test: []).tests
    assert test.hosts == word


def test_what_a_command_line_leaves_open_is_chosen_in_order() -> None:
    def choose(tests: Sequence[Test]) -> list[Test]:
        engines = ("dpdk", "raw-mmsg")
        pairs = zip(tests, engines, strict=True)
        return [test.model_copy(update={"engine": engine}) for test, engine in pairs]

    chosen = from_options({"switch": "testpmd,ovs"}, lambda test: [], choose).tests
    assert [(test.switch, test.engine) for test in chosen] == [
        ("testpmd", "dpdk"),
        ("ovs", "raw-mmsg"),
    ]
