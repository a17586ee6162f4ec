"""Checks of records against the faults injected into a run, by name and to the frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from switchmark.metrics.outage import outage_of
from switchmark.model.evidence import Balance
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import Record, TrialResult
from truths import found_in

Shows = Callable[[Sequence[Record]], None]

INSIDE = Place(PlaceKind.INSIDE_SWITCH)


def one(records: Sequence[Record]) -> Record:
    """Return the only record of a run, of a test that is fine."""
    (record,) = records
    assert record.status == "ok", record.error
    return record


def only(records: Sequence[Record]) -> TrialResult:
    """Return the only trial of a run that is fine."""
    (trial,) = one(records).trials
    assert trial.unaccounted == 0, (trial.lost, trial.lost_at)
    return trial


def accounted(records: Sequence[Record]) -> None:
    """Every frame of every trial arrived, or is placed where it was lost; the gate was passed."""
    for record in records:
        assert record.status == "ok", record.error
        assert record.trials
        for trial in record.trials:
            assert trial.tx_frames > 0
            assert trial.rx_frames > 0
            assert trial.unaccounted == 0, (trial.lost, trial.lost_at)
            assert trial.duplicated == trial.reordered == trial.corrupted == trial.stray == 0
            assert trial.foreign == 0
        gate = record.gate
        if gate is not None:
            assert gate.passed
            frames = 0 if gate.unseen else gate.frames * record.trials[0].copies
            assert gate.headers == frames


def clean(records: Sequence[Record]) -> None:
    """Nothing is found where nothing is wrong."""
    accounted(records)
    trial = only(records)
    assert records[0].gate is not None
    assert trial.lost == trial.tx_unsent == 0
    assert records[0].verdict == "offered-load"
    assert trial.evidence.balance[INSIDE] == Balance(trial.tx_frames, trial.tx_frames)


def interrupted(records: Sequence[Record]) -> None:
    """An event took place, frames were lost after it, and then frames arrived again."""
    trial = only(records)
    outage, (event,) = outage_of(trial), trial.evidence.events
    assert event.proof
    assert event.failure is None
    assert outage is not None
    assert outage.lost > 0
    assert outage.is_over
    assert outage.ended_s is not None
    assert outage.ended_s > 0


def both_of(*shows: Shows) -> Shows:
    def show(records: Sequence[Record]) -> None:
        for show in shows:
            show(records)

    return show


def doubted(*doubts: str, verdict: str | None = None) -> Shows:
    """The record has these doubts with evidence, and this verdict."""

    def show(records: Sequence[Record]) -> None:
        record = one(records)
        for doubt in doubts:
            assert doubt in record.doubts, record.doubts
            details = [trial.evidence.doubts.get(doubt) for trial in record.trials]
            assert any(details), details
        assert verdict in (None, record.verdict), record.trials[0].evidence.verdict

    return show


def doubted_in_all(doubt: str) -> Shows:
    """The record has this doubt, which is about its trials together."""

    def show(records: Sequence[Record]) -> None:
        record = one(records)
        assert doubt in record.doubts, record.doubts
        assert not any(doubt in trial.doubts for trial in record.trials)

    return show


def limited_by(verdict: str) -> Shows:
    """The verdict names this part; the host was no part of it."""

    def show(records: Sequence[Record]) -> None:
        record = one(records)
        assert record.verdict == verdict, record.trials[0].evidence.verdict
        assert "host-busy" not in record.doubts

    return show


def refused(*sentences: str, doubt: str = "not-equivalent") -> Shows:
    """The test failed at the gate, for these reasons, and was not measured."""

    def show(records: Sequence[Record]) -> None:
        (record,) = records
        assert record.status == "failed"
        assert record.trials == ()
        assert record.doubts == (doubt,)
        for sentence in sentences:
            assert re.search(sentence, record.error or "", re.MULTILINE), record.error

    return show


def failed(*sentences: str, status: str = "failed") -> Shows:
    """The test ended with an error that says this."""

    def show(records: Sequence[Record]) -> None:
        (record,) = records
        assert record.status == status
        for sentence in sentences:
            assert re.search(sentence, record.error or "", re.MULTILINE), record.error

    return show


def with_latency(kind: str) -> Shows:
    def show(records: Sequence[Record]) -> None:
        accounted(records)
        latency = one(records).trials[0].latency
        assert latency is not None
        assert latency.kind == kind
        assert 0 < latency.min <= latency.mean <= latency.max

    return show


def searched(name: str) -> Shows:
    """The search found a rate for each of its goals."""

    def show(records: Sequence[Record]) -> None:
        record = one(records)
        assert record.search is not None
        assert record.search.name == name
        assert record.search.trials > 2
        for goal in record.search.goals:
            assert goal.rate_pps is not None
            assert goal.rate_pps > 0

    return show


def certain(records: Sequence[Record]) -> None:
    record = one(records)
    assert len(record.trials) >= 3
    assert record.verdict


def in_turn(way: str) -> Shows:
    """The paths stayed up between rounds, and each round measured each test once."""

    def show(records: Sequence[Record]) -> None:
        accounted(records)
        assert len(records) == 2
        for record in records:
            rounds = [trial.round for trial in record.trials]
            assert rounds == [*range(1, len(rounds) + 1)]
            assert record.turns is not None
            assert record.turns.kept == way
            assert record.turns.frames_after

    return show


def flows_followed(records: Sequence[Record]) -> None:
    """The lost and duplicated frames of each flow are known exactly, on two cores."""
    (trial,) = one(records).trials
    assert len(trial.per_flow) == 8
    for flow in trial.per_flow:
        lost = [number for number in range(flow.tx) if number % 10 == 9]
        doubled = [n for n in range(flow.tx) if n % 7 == 6 and n not in lost]
        assert (flow.lost, flow.duplicated) == (len(lost), len(doubled))
        assert flow.tx > 0
    assert trial.lost == sum(flow.lost for flow in trial.per_flow) > 0


def each_flow_found(records: Sequence[Record]) -> None:
    """The lost, duplicated, overtaken and corrupted frames of each flow are known exactly."""
    (trial,) = one(records).trials
    for flow in trial.per_flow:
        lost, doubled, overtaken, corrupted = found_in(flow.tx)
        assert min(lost, doubled, overtaken, corrupted) > 0
        assert (flow.lost, flow.duplicated, flow.corrupted) == (lost, doubled, corrupted)
        assert overtaken - trial.evidence.ties <= flow.reordered <= overtaken
    assert trial.lost == sum(flow.lost for flow in trial.per_flow)


def doubled(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.duplicated == trial.tx_frames // 10 > 0
    assert trial.lost == 0
    balance = trial.evidence.balance[INSIDE]
    assert balance.left - balance.entered == trial.duplicated


def dropped(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.lost == trial.tx_frames // 10 > 0
    assert trial.lost_at == {INSIDE: trial.lost}


def dropped_and_doubled(records: Sequence[Record]) -> None:
    """Duplicates do not make up for lost frames."""
    (trial,) = one(records).trials
    assert trial.lost == trial.tx_frames // 10 > 0
    assert trial.duplicated > 0


def overtaken(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.tx_frames % 10 != 0  # the last to be swapped has a successor
    assert trial.reordered == trial.tx_frames // 10 > 0
    assert trial.lost == trial.duplicated == 0


def corrupted(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.corrupted == trial.lost == trial.tx_frames // 10 > 0
    assert trial.lost_at == {Place(PlaceKind.CORRUPTED): trial.lost}


def astray(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.stray == trial.lost == sum(flow.tx // 10 for flow in trial.per_flow) > 0
    assert trial.lost_at == {Place(PlaceKind.STRAY): trial.lost}


def delayed(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.latency is not None
    assert trial.latency.min >= 20_000_000
    assert trial.lost == 0


def in_the_ring(records: Sequence[Record]) -> None:
    """Frames that the receiver had no time for were dropped by its ring."""
    record = one(records)
    lost = sum(trial.lost_at.get(Place.ring("f1"), 0) for trial in record.trials)
    assert lost > 0
    assert record.verdict == "receiver", record.trials[0].evidence.verdict


def tried_again(records: Sequence[Record]) -> None:
    """The trial that a passing hog spoiled was discarded, for this reason."""
    record = one(records)
    assert len(record.trials) == 1
    assert record.discarded
    assert "host-busy" in record.discarded[0]
    assert "host-busy" not in record.trials[0].doubts


def starved(records: Sequence[Record]) -> None:
    gate = one(records).gate
    assert gate is not None
    assert gate.passed
    assert gate.starved > 0


def foreign(records: Sequence[Record]) -> None:
    trial = only(records)
    assert (trial.foreign, trial.lost) == (3, 0)
    assert {"foreign-frames", "short"} <= set(records[0].doubts)


def nothing_arrived(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.rx_frames == 0
    assert trial.lost == trial.tx_frames > 0
    assert trial.evidence.doubts["nothing-arrived"] == {"sent": trial.tx_frames}


def with_a_doubt(records: Sequence[Record]) -> None:
    record = one(records)
    assert "not-equivalent" in record.doubts
    assert record.gate is not None
    assert not record.gate.passed
    assert "did not arrive" in record.gate.wrong[0]
    assert record.trials[0].lost > 0


def flooded(records: Sequence[Record]) -> None:
    trial = only(records)
    doubt = trial.evidence.doubts["flooded"]
    assert doubt["stray"] == trial.stray > 0
    assert doubt["f0"] > 0, "a port where nobody listens"


def stolen(records: Sequence[Record]) -> None:
    doubted("cpu-stolen")(records)
    assert "cpu-stolen" in records[0].discarded[0]


def profiled(records: Sequence[Record]) -> None:
    trial = only(records)
    assert trial.cost is not None
    assert trial.cost.profile is not None
    assert trial.cost.profile.whole is not None
    assert trial.cost.profile.whole.samples > 0


def copies_lost(records: Sequence[Record]) -> None:
    """A frame is lost once for each copy that is missing."""
    (trial,) = one(records).trials
    assert trial.copies == 2
    assert trial.lost == 2 * trial.tx_frames - trial.distinct > 0


def of_a_share(records: Sequence[Record]) -> None:
    """Half of the R+ was offered that was found before."""
    record = one(records)
    assert record.r_plus_pps
    assert record.trials[0].spec.rate_pps == record.r_plus_pps / 2
