"""These tests write the page of runs: what is in it, what must not be, how large it is."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from pydantic import ValidationError

from recorded import FACTS, fresh, latency_trial
from switchmark import __version__
from switchmark.model.record import Origin, Record
from switchmark.model.test import Test
from switchmark.report.page import page

pytestmark = pytest.mark.usefixtures("undrawn")

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"


def runs(*names: str) -> list[tuple[str, Sequence[Record]]]:
    """Return runs of two switches at two sizes each."""
    points = [(switch, size) for switch in ("linux-bridge", "ovs") for size in (64, 1500)]
    records = [
        fresh(number, test=Test(switch=switch, frame_size=size, search="max"))
        for number, (switch, size) in enumerate(points, 1)
    ]
    return [(name, records) for name in names]


def at_a_host() -> list[tuple[str, Sequence[Record]]]:
    """Return a run whose records have the facts of their host."""
    ((name, records),) = runs("one")
    origin = Origin(run=name, host=FACTS, versions={})
    return [(name, [record.model_copy(update={"origin": origin}) for record in records])]


def packed(text: str, name: str) -> str:
    found = re.search(rf"<script type='text/plain' id='{name}'>([^<]*)</script>", text)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def data_of(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(packed(text, "data"))
    return content


def test_the_answer_comes_first_then_a_chart_then_tables() -> None:
    text = page(runs("one"), {"one": "ip link add a\n"})
    places = [
        text.index(fragment)
        for fragment in (
            "class='answer'",
            "data-chart='0'",
            "<table",
            "id='filter'",
            "ip link add a",
        )
    ]
    assert places == sorted(places)
    assert "<svg" in text[places[1] : places[2]]


def test_the_head_says_what_was_measured_where_and_when() -> None:
    text = page(at_a_host())
    assert "<h1>linux-bridge and ovs: throughput</h1>" in text
    (line,) = re.findall(r"<p class='host'>(.*?)</p>", text)
    assert line.startswith("a_cpu · 2 CPUs · kernel 6.1 · ")
    assert re.search(r"\d November 2026 · \d+ tests with 3 trials each$", line)


def test_the_baseline_is_no_switch_of_the_title() -> None:
    records = [fresh(1, test=Test(switch="direct")), fresh(2)]
    assert "<h1>linux-bridge: throughput</h1>" in page([("one", records)])
    assert "<h1>direct: throughput</h1>" in page([("one", records[:1])])


def test_the_method_is_a_paragraph_to_copy() -> None:
    text = page(at_a_host())
    (method,) = re.findall(r"<h2>Method</h2><p>(.*?)</p>", text)
    assert method.startswith(
        f"switchmark {__version__} measured 4 tests with 3 trials each on 22 November 2026 on one "
        "host (a_cpu, 2 CPUs, kernel 6.1). "
    )
    assert "A trial took 10 s after 0.5 s of warm-up." in method
    assert "Versions: linux-bridge 6.1.0" in method
    assert "@misc{switchmark," in text
    assert "year = {2026}" in text


def test_the_first_screen_has_the_figures_and_the_doubts_in_a_sentence() -> None:
    doubted = [fresh(1), fresh(2, test=Test(switch="ovs"), doubts=("cpu-stolen",))]
    text = page([("one", doubted)])
    first = text[: text.index("id='tables'")]
    assert "<th scope='col'>limited by</th>" in first
    (doubts,) = re.findall(r"<p class='doubts'>(.*?)</p>", first)
    assert doubts.startswith(
        "! the virtual machine shares its cores with other guests (cpu-stolen, "
    )


def test_every_test_is_known_to_the_script_and_every_row_to_the_filter() -> None:
    ((_, records),) = runs("one")
    text = page([("one", records)])
    tests = data_of(text)["tests"]
    assert {test["axes"]["switch"] for test in tests.values()} == {"linux-bridge", "ovs"}
    assert len(tests) == len(records)
    rows = re.findall(r'<tr data-key="([^"]*)">', text)
    assert set(rows) == set(tests)


def test_a_hostile_name_is_shown_and_not_run() -> None:
    record = fresh(1, verdict="sender", error=None)
    failed = fresh(2, status="failed", trials=(), error=HOSTILE)
    text = page([(HOSTILE, [record, failed])], {HOSTILE: HOSTILE})
    assert "<img" not in text
    assert "<b>" not in text
    assert text.count("&lt;/script&gt;&lt;img") >= 4
    assert text.count("<script") == text.count("</script>") == 3
    assert "<" not in re.findall(r"id='data'>(.*)</script>", text)[0]


@pytest.mark.parametrize("key", ["x onwheel=alert()", "k1'"])
def test_a_key_of_a_record_is_one_word(key: str) -> None:
    with pytest.raises(ValidationError, match="key"):
        fresh(1, key=key)


def test_a_key_in_the_page_cannot_become_an_attribute() -> None:
    ((_, records),) = runs("one")
    hostile = [record.model_copy(update={"key": "x onwheel=alert()"}) for record in records]
    tags = [tag for tag in tags_of(page([("one", hostile)])) if tag[0] == "tr" and tag[1]]
    assert [dict(attributes) for _, attributes in tags] == [
        {"data-key": "x onwheel=alert()"[:16]} for _ in records
    ]


def test_the_page_lets_its_own_scripts_run_and_no_others() -> None:
    text = page(runs("one"))
    (policy,) = [
        dict(attributes)["content"] or ""
        for tag, attributes in tags_of(text)
        if dict(attributes).get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = {hash_of(script), hash_of(packed(text, "library"))}
    assert set(rules["script-src"].split()) == {*hashes, "'unsafe-eval'"}


def hash_of(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


class _Tags(HTMLParser):
    """A parser keeps the tags of a page with their attributes, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def tags_of(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    parser = _Tags()
    parser.feed(text)
    return parser.found


def test_no_address_outside_of_the_page_is_asked_for() -> None:
    text = page(runs("one"))
    assert not re.search(r"(src|href|action)=['\"]?(https?:|//)", text)
    assert not re.search(r"url\(\s*['\"]?(https?:|//)|@import", text)


def test_several_runs_have_their_own_tables_on_one_page() -> None:
    text = page(runs("one", "two"), {"one": "a\n", "two": ""})
    assert "<h3>one</h3>" in text
    assert "<h3>two</h3>" in text
    assert text.count("<summary>one</summary>") == 1
    assert "<summary>two</summary>" not in text


def test_what_failed_or_was_refused_is_told_in_words() -> None:
    refused = fresh(2, status="refused", trials=(), error="no hugepages")
    text = page([("one", [fresh(1), refused])])
    assert "refused: no hugepages" in text


def test_a_run_of_nothing_is_a_page_too() -> None:
    for records in ([], [fresh(1, status="failed", trials=(), error="ended")]):
        text = page([("empty", records)])
        assert text.startswith("<!doctype html>")
        assert "data-chart=" not in text
        assert data_of(text)["charts"] == []


def test_long_steps_are_cut_and_the_rest_is_named() -> None:
    text = page(runs("one"), {"one": "ip link add a0123456789\n" * 10_000})
    assert "more lines are in the run&#x27;s logs/steps.sh" in text
    assert text.count("ip link add") < 2000


def test_stills_are_made_of_as_many_charts_as_are_asked_for() -> None:
    assert page(runs("one"), stills=0).count("<svg") == 0
    assert page(runs("one"), stills=1).count("<svg") == 1
    assert page(runs("one")).count("<svg") > 1


def test_the_parts_of_a_still_say_nothing_that_the_figure_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # the picture is drawn
    text = page(runs("one"), stills=1)
    drawn = text[text.index("<svg") : text.index("</svg>")]
    assert "role=" not in drawn
    assert "aria-" not in drawn
    assert "role='img' aria-label='" in text


def test_the_same_records_make_the_same_page() -> None:
    assert page(runs("one")) == page(runs("one"))


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.further)])
def test_a_thousand_tests_with_their_distributions_take_less_than_6_mb(count: int) -> None:
    records = []
    for number in range(count):
        switch = ("linux-bridge", "ovs", "macvlan", "ip-forward")[number % 4]
        size, pairs = 64 + 8 * (number // 4 % 25), 1 + number // 100
        late = [1000 + (number * 37 + value * value) % 50_000 for value in range(100)]
        test = Test(switch=switch, frame_size=size, pairs=pairs, rate="1000")
        trial = latency_trial(1000, late)
        key = f"{number:064d}"[::-1]
        records.append(fresh(1, key=key, test=test, trials=(trial,)))
    begun = time.process_time()
    text = page([("many", records)])
    print(f"{time.process_time() - begun:.1f} s of CPU time, {len(text) / 1e6:.2f} MB")
    assert len(text) < 6_000 * count
    assert len(data_of(text)["tests"]) == count
