"""This module tries mutants of what is executed at import, in forks of a process that has imported
only the packages of others: each fork imports switchmark anew, with the mutated file.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import types
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tools.mutate.generate import PACKAGE, Mutant, source_of
from tools.mutate.slots import Answer
from tools.mutate.warm import OPTIONS, Outcomes, Steady


def import_others(names: Sequence[str]) -> None:
    """Import packages that tests need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with suppress(Exception):  # the tests import it themselves
                importlib.import_module(name)


class _Chosen:
    """A plug-in that keeps the chosen tests, and those that only the mutant makes."""

    def __init__(self, chosen: Sequence[str], tests: Collection[str]) -> None:
        self.chosen = {name: number for number, name in enumerate(chosen)}
        self.known = tests
        self.broken: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item for item in items if item.nodeid in self.chosen or item.nodeid not in self.known
        ]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken = self.broken or report.nodeid


def try_mutant(mutant: Mutant, tests: Sequence[str], all_tests: Collection[str]) -> Answer:
    """Import the package with a mutant, and run the tests until one fails."""
    file = str(PACKAGE / mutant.path)
    code = compile(mutant.apply(source_of(mutant.path)), file, "exec", dont_inherit=True)
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def mutated(self: Any, name: str) -> types.CodeType | None:
        return code if self.path == file else get_code(self, name)

    loader.get_code = mutated  # type: ignore[assignment,method-assign]
    outcomes = Outcomes()
    chosen = _Chosen(tests, all_tests)
    files = list(dict.fromkeys(name.split("::")[0] for name in tests))
    status = pytest.main([*OPTIONS, "-x", *files], [Steady(), outcomes, chosen])
    killer = chosen.broken or outcomes.failed()
    if killer or status not in (0, 1, 5):
        return {"result": "killed", "by": killer or f"pytest ended with {status}"}
    return {"result": "survived"}
