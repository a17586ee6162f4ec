"""These tests judge every claim of every paper on a host on which it is true, and on one on which
it is false. A claim that cannot be both says nothing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from claimed import MANY_CPUS, NOISE, measured_on, points_of
from switchmark.campaign.experiments import PlannedPoint
from switchmark.papers.claims import Claim
from switchmark.papers.judging import ClaimAnswer
from switchmark.papers.library import library
from switchmark.report.judged import judged

EVERY = library(Path(__file__).parents[2] / "experiments")
"""The experiments of the package, and those outside of it."""

read = EVERY.read
CLAIMS = [(name, claim.id) for name in EVERY.names for claim in read(name).claims]


@lru_cache(maxsize=2)
def points(name: str, cpus: int) -> list[PlannedPoint]:
    return points_of(read(name), cpus)


def answer(
    name: str, claim: Claim, *, is_true: bool, seed: int = 1, noise: float = NOISE
) -> ClaimAnswer:
    """Return the answer to a claim on a host that meets its needs and measured what it is about."""
    needs = claim.needs
    cpus = needs.cores_at_most or MANY_CPUS
    planned = [each for each in points(name, cpus) if each.point.is_at(claim.among)]
    records = measured_on(claim, planned, cpus, is_true=is_true, seed=seed, noise=noise)
    options = frozenset(filter(None, [needs.kernel_option]))
    alone = {"claims": (claim,), "figures": (), "published": ()}
    ((_, told),) = judged(read(name).model_copy(update=alone), [*records], options).answers
    return told


@pytest.mark.parametrize(("name", "claim_id"), CLAIMS, ids=[f"{n}/{c}" for n, c in CLAIMS])
def test_a_claim_holds_where_it_is_true_and_not_where_it_is_false(name: str, claim_id: str) -> None:
    (claim,) = (each for each in read(name).claims if each.id == claim_id)
    there = answer(name, claim, is_true=True)
    assert there.verdict == "holds", there.why
    elsewhere = answer(name, claim, is_true=False)
    assert elsewhere.verdict == "does not hold", elsewhere.why


OF_KINDS = {
    "order": "ara-2021/table2/batched-raw-first",
    "differs-by": "ara-2021/fig6/two-cores-less-between-hosts",
    "exceeds": "emmerich-2014/fig13/scheduler-sees-too-little",
    "factor": "bonafiglia-2015/table1/bridge-near-twice-the-pcap-bridge",
    "flat": "ara-2021/text-burst/bursts-make-no-difference",
    "monotone": "ara-2021/fig4b/frames-fall-with-size",
    "scales": "ara-2021/fig4e/polling-switches-do-not-scale",
    "slopes": "emmerich-2014/fig6/later-versions-scale-less",
    "knee": "ara-2021/fig4a/plateau",
    "crossover": "ara-2021/fig4b/vale-overtakes",
    "gap": "ara-2021/fig4b/gaps-close",
    "follows": "dissertation-2017/case2/throughput-follows-the-share",
    "saturates": "ara-2021/fig4d/line-is-the-limit",
    "winners-differ": "ara-2021/fig4d/no-clear-best",
    "within": "ara-2021/text-polling/senders-poll-at-any-load",
}
"""A claim of each kind."""


def test_each_kind_is_here() -> None:
    every = {claim.kind for name in EVERY.names for claim in read(name).claims}
    assert {*OF_KINDS} == every


@pytest.mark.parametrize("runs", [10, pytest.param(40, marks=pytest.mark.further)])
@pytest.mark.parametrize(("kind", "of"), OF_KINDS.items(), ids=list(OF_KINDS))
def test_noise_seldom_turns_an_answer_round(kind: str, of: str, runs: int) -> None:
    """One rule decides each kind: chance refutes a true claim, or lets a false one hold, in at most
    one run of 20."""
    paper, stem, claim_id = of.split("/")
    name = f"{paper}/{stem}"
    (claim,) = (each for each in read(name).claims if each.id == claim_id)
    assert claim.kind == kind
    refuted = sum(
        answer(name, claim, is_true=True, seed=seed, noise=0.03).verdict == "does not hold"
        for seed in range(runs)
    )
    held = sum(
        answer(name, claim, is_true=False, seed=seed, noise=0.03).verdict == "holds"
        for seed in range(runs)
    )
    assert refuted <= 0.05 * runs
    assert held <= 0.05 * runs


def test_there_are_so_many_claims() -> None:
    """The guide has this number."""
    of_package = [name for name, _ in CLAIMS if name in library().names]
    assert len(of_package) == 198
