"""The reader of campaign files and of axes on a command line: it makes tests from text, and writes
tests back to a file.

It collects all problems before it reports them, each with its place. The caller's `check` judges
names; this module knows only the table of searches and touches no host.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from switchmark.campaign.expand import count, grouped, product
from switchmark.campaign.text import Problems, TextPlace, compose, read_text
from switchmark.campaign.values import (
    MAX_TESTS,
    nearest,
    read_value,
    read_words,
    shortened,
)
from switchmark.errors import UsageError
from switchmark.model.axis import field_name, key_of
from switchmark.model.labels import varying
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.path.hosts import hosts_of
from switchmark.searches import TABLE as SEARCHES

_UNNAMED = "run"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The name of a campaign or of a run."""

_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp")}
_COMPARED = {name: axis.compared for name, axis in AXES.items() if axis.compared is not None}
"""The default values of a test that compares several switches: rounds of short trials in turn,
which together take no longer than one trial of the default duration."""

_APART = {name: axis.apart for name, axis in AXES.items() if axis.apart is not None}
"""The same if the switches are not measured in turn. The path is set up for each trial, so the
trial is longer."""

_GIVEN = {name: axis.given for name, axis in AXES.items() if axis.given is not None}
"""The same if the user sets the duration of a trial: the fewest repeats that are meaningful."""

_LEFT = {name: (axis.chosen,) for name, axis in AXES.items() if axis.chosen}
"""The axes that switchmark chooses on a command line without these axes and without a campaign."""

_NULL_TAG = "tag:yaml.org,2002:null"

Check = Callable[[Test], Sequence[Refusal]]
"""A function that returns every reason why a test can never work: `path.refusals.check`."""

Choose = Callable[[Sequence[Test]], Sequence[Test]]
"""A function that fills in the choices that tests leave to switchmark, in order:
`path.choosing.with_engines`."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A list of tests to run, in the written order: a test's number is its index plus one."""

    name: str
    tests: tuple[Test, ...]

    @property
    def seed(self) -> int:
        return self.tests[0].seed


@dataclass(frozen=True, slots=True)
class _Axis:
    """The values of an axis, and the place where they are written."""

    values: tuple[Any, ...]
    place: TextPlace


_Block = Mapping[str, _Axis]


def load(
    path: Path,
    options: Mapping[str, str],
    check: Check,
    choose: Choose | None = None,
    *,
    links: bool = True,
    in_turn: bool = True,
) -> Campaign:
    """Return the campaign in a file, with axes of the command line in place of the file's. Without
    `choose`, switchmark chooses nothing. Without `links`, a symbolic link to a file raises an
    error. For `in_turn` see `from_options`."""
    text = read_text(path, links=links)
    name = _name_of(path)
    return parse(text, options, check, choose, source=str(path), name=name, in_turn=in_turn)


def parse(
    text: str,
    options: Mapping[str, str],
    check: Check,
    choose: Choose | None = None,
    *,
    source: str,
    name: str,
    in_turn: bool = True,
) -> Campaign:
    """Return the campaign in the text of a file (see `load`). `source` names the text in error
    messages; `name` is the campaign's name unless the text has one."""
    problems = Problems()
    own_name, blocks = _read_blocks(text, source, problems)
    overrides = _read_options(options, problems)
    if problems:
        _check_names(blocks, check, problems, chosen=choose is not None)
    problems.settle()
    blocks = [{**block, **overrides} for block in blocks]
    return _campaign(own_name or name, blocks, check, choose, in_turn=in_turn)


def from_options(
    options: Mapping[str, str],
    check: Check,
    choose: Choose | None = None,
    *,
    in_turn: bool = True,
) -> Campaign:
    """Return the campaign of the axes on a command line alone. `choose` fills in axes that the
    command line leaves open. `in_turn` says that switches compared on this host are measured in
    turn."""
    problems = Problems()
    block = _read_options(options, problems)
    if problems:
        _check_names([block], check, problems, chosen=choose is not None)
    problems.settle()
    return _campaign(_UNNAMED, [block], check, choose, _LEFT if choose else {}, in_turn=in_turn)


def dump(campaign: Campaign) -> str:
    """Return a campaign file with one line per test; `load` makes the same tests from it."""
    differing = [axis for axis in varying(campaign.tests) if not AXES[axis].of_campaign]
    first = campaign.tests[0].model_dump()
    shared = {name: value for name, value in first.items() if name not in differing}
    text = yaml.safe_dump({"name": campaign.name, **shared}, sort_keys=False)
    if differing:
        rows = ({axis: getattr(test, axis) for axis in differing} for test in campaign.tests)
        text += "tests:\n" + "".join(f"- {_flow(row)}\n" for row in rows)
    return text


def _campaign(
    name: str,
    blocks: Sequence[_Block],
    check: Check,
    choose: Choose | None,
    left: Mapping[str, tuple[str]] = MappingProxyType({}),
    *,
    in_turn: bool,
) -> Campaign:
    """Return the campaign of several products. `left` holds values for axes that are not
    written."""
    problems = Problems()
    axes = [{**left, **{name: axis.values for name, axis in block.items()}} for block in blocks]
    if (total := sum(map(count, axes))) > MAX_TESTS:
        longest = max(blocks[0].values(), key=lambda axis: len(axis.values))
        problems.add(longest.place, f"this makes {total} tests; a campaign has at most {MAX_TESTS}")
        problems.settle()
    tests: list[Test] = []
    switch = AXES["switch"].default
    compares = len({name for values in axes for name in values.get("switch", (switch,))}) > 1
    products = [list(product(values)) for values in axes]
    requested = list(itertools.chain.from_iterable(products))
    whole = iter(choose(requested) if choose else requested)
    for block, unchosen in zip(blocks, products, strict=True):
        of_block = list(itertools.islice(whole, len(unchosen)))
        tests += [_compared(test, block, in_turn) if compares else test for test in of_block]
        refusals: dict[Refusal, str] = {}
        for test in of_block:
            for refusal in check(test):
                if refusal not in refusals:
                    refusals[refusal] = str(_for_all(refusal, of_block, check))
                problems.add(_blamed(refusal, test, block), refusals[refusal])
    problems.settle()
    return Campaign(name, grouped(tests))


def _check_names(
    blocks: Sequence[_Block], check: Check, problems: Problems, *, chosen: bool
) -> None:
    """Add a problem for each unknown name, even if its test is invalid for other reasons. If
    `chosen`, the word that leaves a choice to switchmark is a valid name."""
    for block in blocks:
        for name, axis in block.items():
            for value in axis.values if AXES[name].table else ():
                if chosen and value == AXES[name].chosen:
                    continue
                for refusal in check(Test.model_validate({name: value})):
                    if refusal.axes == (name,):
                        problems.add(axis.place, str(refusal))


def _for_all(refusal: Refusal, tests: Sequence[Test], check: Check) -> Refusal:
    """Return the refusal of a test among several. Its hint sets an axis for the whole campaign, so
    change the hint unless it helps all of the tests."""
    for name, value in refusal.changes:
        if all(_helps({name: value}, test, check) for test in tests):
            return replace(refusal, hint=f"{AXES[name].option} {value}")
    if len(tests) == 1 or not refusal.changes:
        return refusal
    alone = f"{refusal.hint}, in a separate run or a separate entry of 'tests:' in a campaign file"
    return replace(refusal, hint=alone)


def _helps(change: Mapping[str, str], test: Test, check: Check) -> bool:
    """Return whether a change of axes removes all refusals about these axes and adds none."""
    others = {refusal.why for refusal in check(test) if change.keys().isdisjoint(refusal.axes)}
    return all(refusal.why in others for refusal in check(test.model_copy(update=change)))


def _compared(test: Test, block: _Block, in_turn: bool) -> Test:
    """Return a test that compares several switches with the default values of a comparison, unless
    the campaign sets its repeats or its search determines them. A duration that the campaign sets
    applies to each trial."""
    search = SEARCHES.get(test.search)
    if "repeat" in block or test.until_certain is not None or test.event is not None:
        return test
    if not (search and search.independent):
        return test
    usual = _COMPARED if in_turn and not hosts_of(test) else _APART
    values = {**usual, **_GIVEN} if "duration" in block else usual
    return test.model_copy(
        update={name: value for name, value in values.items() if name not in block}
    )


def _blamed(refusal: Refusal, test: Test, block: _Block) -> TextPlace:
    """Return the place that a refusal is about: that of its first axis with an unusual value,
    otherwise of its first written axis, otherwise of the last written axis."""
    named = [axis for axis in refusal.axes if axis in block]
    unusual = [axis for axis in named if getattr(test, axis) != AXES[axis].default]
    for axis in (*unusual, *named):
        return block[axis].place
    return max((axis.place for axis in block.values()), default=TextPlace(0, "the defaults"))


# --- files -----------------------------------------------------------------------------------


def _read_blocks(text: str, source: str, problems: Problems) -> tuple[str, list[_Block]]:
    """Return the campaign's own name, empty if it has none, and the axes of each of its
    products."""
    root = compose(text, source)
    top, special = _read_mapping(root, source, problems, ("name", "tests"))
    name = _read_name(special.get("name"), source, problems)
    if "tests" not in special:
        if not top:
            problems.add(TextPlace(1, source), "no axis is given; write, for instance, rate: max")
        return name, [top]
    items = special["tests"]
    place = _place(items, source)
    if not isinstance(items, yaml.SequenceNode):
        problems.add(place, "'tests' takes a list of mappings, each begun with '- '")
        return name, []
    if not items.value:
        problems.add(place, "'tests' is an empty list")
    blocks: list[_Block] = []
    for item in items.value:
        axes, _ = _read_mapping(item, source, problems, ())
        for axis, values in axes.items():
            if AXES[axis].of_campaign:
                message = f"'{axis}' is the whole campaign's; write it at the top"
                problems.add(values.place, message)
        blocks.append({**top, **axes})
    return name, blocks


def _read_mapping(
    node: yaml.Node, source: str, problems: Problems, special: tuple[str, ...]
) -> tuple[_Block, Mapping[str, yaml.Node]]:
    """Return the axes of a mapping, and its special keys."""
    if not isinstance(node, yaml.MappingNode):
        problems.add(_place(node, source), "not a mapping; write AXIS: VALUE")
        return {}, {}
    axes: dict[str, _Axis] = {}
    others: dict[str, yaml.Node] = {}
    first_places: dict[str, int] = {}
    for key_node, value_node in node.value:
        place = _place(key_node, source)
        if not isinstance(key_node, yaml.ScalarNode):
            problems.add(place, "a key is one word")
            continue
        name = field_name(key_node.value)
        if name in first_places:
            problems.add(
                place, f"'{key_node.value}' is given twice, first on line {first_places[name]}"
            )
        elif name in special:
            others[name] = value_node
        elif name in AXES:
            texts = _read_texts(value_node, name, source, problems)
            axes[name] = _read_axis(name, texts, place, problems)
        elif name == "tests":
            problems.add(place, "'tests' cannot stand within 'tests'")
        else:
            keys = [axis.key for axis in AXES.values()]
            hint = nearest(key_of(name), (*keys, *special))
            problems.add(place, f"unknown key '{shortened(key_node.value)}'{hint}")
        first_places.setdefault(name, place.line)
    return axes, others


def _read_texts(
    node: yaml.Node, name: str, source: str, problems: Problems
) -> list[tuple[str, TextPlace]]:
    """Return the scalars in an axis's value or list, as written."""
    key = AXES[name].key
    place = _place(node, source)
    if isinstance(node, yaml.MappingNode):
        problems.add(place, f"'{key}' takes a value or a list, not a mapping")
        return []
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not items:
        problems.add(place, f"'{key}' is an empty list")
    texts = []
    for item in items:
        where = _place(item, source)
        if not isinstance(item, yaml.ScalarNode):
            problems.add(where, f"'{key}' is a list of plain values; one of them is not plain")
        elif item.tag == _NULL_TAG and AXES[name].takes_none:
            texts.append(("none", where))
        elif item.tag == _NULL_TAG:
            problems.add(where, f"'{key}' has no value")
        elif item.tag not in _PLAIN_TAGS:
            problems.add(where, f"'{key}' has the tag {item.tag}, which a campaign cannot hold")
        else:
            texts.append((item.value, where))
    return texts


def _name_of(path: Path) -> str:
    match = NAME.match(path.stem)
    return match[0] if match else _UNNAMED


def _read_name(node: yaml.Node | None, source: str, problems: Problems) -> str:
    if node is None:
        return ""
    if isinstance(node, yaml.ScalarNode) and NAME.fullmatch(node.value):
        return str(node.value)
    problems.add(
        _place(node, source),
        "'name' names a folder: up to 64 letters, digits, '.', '_' or '-' only",
    )
    return ""


def _place(node: yaml.Node, source: str) -> TextPlace:
    return TextPlace(node.start_mark.line + 1, source)


# --- values ----------------------------------------------------------------------------------


def _read_options(options: Mapping[str, str], problems: Problems) -> _Block:
    block = {}
    for name, text in options.items():
        place = TextPlace(0, AXES[name].option)
        block[name] = _read_axis(name, [(text, place)], place, problems)
    return block


def _read_axis(
    name: str, texts: Sequence[tuple[str, TextPlace]], place: TextPlace, problems: Problems
) -> _Axis:
    values: list[Any] = []
    if AXES[name].is_list and texts:
        texts = [(",".join(text for text, _ in texts), texts[0][1])]
    for text, where in texts:
        try:
            values += [read_value(name, word) for word in read_words(name, text)]
        except UsageError as error:
            hint = f"; {error.hint}" if error.hint else ""
            axis = f"{AXES[name].key}: " if where.line else ""
            problems.add(where, f"{axis}{error.message}{hint}")
    if AXES[name].of_campaign and len(values) > 1:
        problems.add(place, f"a campaign has one {name}")
    return _Axis(tuple(dict.fromkeys(values)), place)


def _flow(row: Mapping[str, Any]) -> str:
    return yaml.safe_dump(
        dict(row), sort_keys=False, default_flow_style=True, width=float("inf")
    ).strip()
