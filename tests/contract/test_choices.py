"""Every choice of an engine can work: of each switch, in each environment and scenario."""

from __future__ import annotations

import itertools

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.model.test import Test
from switchmark.path.choosing import AUTO, candidates, with_engines
from switchmark.path.refusals import check
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_is_chosen_can_work_wherever_an_engine_can(switch: str) -> None:
    for environment, scenario in itertools.product(ENVIRONMENTS, SCENARIOS):
        test = Test(switch=switch, environment=environment, scenario=scenario, engine=AUTO)
        (chosen,) = with_engines([test], lambda chosen: True)
        if check(chosen, suggest=False):  # then no engine that may be chosen everywhere could
            others = [name for name in candidates() if ENGINES[name].chosen_for is None]
            made_by = [test.model_copy(update={"engine": name}) for name in others]
            assert all(check(test, suggest=False) for test in made_by), (environment, scenario)
        assert chosen.model_copy(update={"engine": AUTO}) == test
