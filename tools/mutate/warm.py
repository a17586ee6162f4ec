"""This module tries mutants in forks of a pytest that has imported and collected all fast tests: it
puts mutated code into the functions that exist, and runs the tests that execute the mutated lines.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest
from tools.mutate.covered import ALL_OF_FILE, FOLDERS, TESTS, Covered, digest_of
from tools.mutate.generate import PACKAGE, REPOSITORY, Mutant, source_of
from tools.mutate.slots import Answer, Job, Slots

OPTIONS = [
    *("-o", "addopts="),
    *("-o", "xfail_strict=true"),
    "--import-mode=importlib",
    "--continue-on-collection-errors",
    *("-p", "no:cacheprovider"),
    "-s",
    "-q",
    *("-m", "not slow and not further and not ((netns or root) and not smoke)"),
]
"""The options of pytest for a mutant, with the marks of `make test-fast`."""


def folders() -> list[str]:
    """Return the folders of the fast tests."""
    return [str(TESTS / name) for name in FOLDERS if (TESTS / name).is_dir()]


class Steady:
    """A plug-in by which hypothesis draws the same examples each time."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        hypothesis.settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None
        )
        hypothesis.settings.load_profile("mutants")


class Outcomes:
    """A plug-in that notes how each test ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.outcome: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.outcome != "passed" and self.outcome.get(report.nodeid) != "failed":
            self.outcome[report.nodeid] = report.outcome

    def failed(self) -> str | None:
        """Return the first test that failed."""
        return next((name for name, result in self.outcome.items() if result == "failed"), None)


class Warm:
    """A plug-in that works with what pytest collected, instead of running it."""

    def __init__(self, work: Callable[[Warm], None]) -> None:
        self._work = work
        self.items: dict[str, pytest.Item] = {}
        self.by_file: dict[str, list[pytest.Item]] = {}
        self.at_import: dict[str, set[int]] = {}
        """The lines by file of the package that were executed before the first test."""
        self._importing = coverage.Coverage(
            data_file=None, include=[f"{PACKAGE}/*"], config_file=False, messages=False
        )
        self._importing.start()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work."""
        self._importing.stop()
        data = self._importing.get_data()
        for name in data.measured_files():
            path = str(Path(name).relative_to(PACKAGE))
            self.at_import[path] = set(data.lines(name) or ())
        self.items = {item.nodeid: item for item in session.items}
        for item in session.items:
            self.by_file.setdefault(item.nodeid.split("::")[0], []).append(item)
        for name, module in sys.modules.items():
            if name == "switchmark" or name.startswith("switchmark."):
                assert str(PACKAGE) in str(module.__file__), module.__file__
        gc.collect()
        gc.freeze()
        self._work(self)
        return True

    @functools.cached_property
    def functions(self) -> dict[types.CodeType, list[types.FunctionType]]:
        """Return the functions of the package that exist, by their code."""
        found: dict[types.CodeType, list[types.FunctionType]] = {}
        gc.unfreeze()
        for item in gc.get_objects():
            if type(item) is types.FunctionType:
                if item.__code__.co_filename.startswith(str(PACKAGE)):
                    found.setdefault(item.__code__, []).append(item)
        gc.freeze()
        return found

    @functools.cached_property
    def caches(self) -> list[Any]:
        """Return the caches of functions of the package and of tests."""
        gc.unfreeze()
        kind = type(functools.cache(len))
        here = str(REPOSITORY)
        found = []
        for item in gc.get_objects():
            if isinstance(item, kind):
                file = getattr(sys.modules.get(item.__module__), "__file__", None) or ""
                if file.startswith(here) and "/.venv/" not in file:
                    found.append(item)
        gc.freeze()
        return found

    # --- the tests of each line ----------------------------------------------------------------

    def cover(self, files: Sequence[str], slots: Slots) -> Iterator[tuple[str, Covered | None]]:
        """Run files of tests, and yield what each executes."""
        assert self.caches is not None
        jobs = (Job(file, functools.partial(self._cover, file), 600, 900) for file in files)
        for job, answer, _ in slots.run(jobs):
            if "tests" not in answer:
                yield job.about, None
                continue
            covered = Covered(digest_of(job.about), answer["tests"], answer["left_out"])
            for path, contexts in answer["lines"].items():
                covered.add(path, {int(line): names for line, names in contexts.items()})
            covered.save(job.about)
            yield job.about, covered

    def _cover(self, file: str) -> Answer:
        measured = coverage.Coverage(
            data_file=None, include=[f"{PACKAGE}/*"], config_file=False, messages=False
        )
        items = self.by_file[file]
        config = items[0].config
        outcomes = Outcomes()
        caches = self.caches

        class Contexts:
            """A plug-in that says whose the executed lines are."""

            name = ""

            @pytest.hookimpl(wrapper=True)
            def pytest_fixture_setup(self, fixturedef: Any) -> Any:
                if fixturedef.scope == "function":
                    return (yield)
                measured.switch_context(ALL_OF_FILE)
                try:
                    return (yield)
                finally:
                    measured.switch_context(self.name)

        contexts = Contexts()
        config.pluginmanager.register(outcomes)
        config.pluginmanager.register(contexts)
        measured.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            for cache in caches:
                cache.cache_clear()
            contexts.name = item.nodeid
            measured.switch_context(item.nodeid)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        measured.stop()
        data = measured.get_data()
        lines = {
            str(Path(name).relative_to(PACKAGE)): data.contexts_by_lineno(name)
            for name in data.measured_files()
        }
        tests = {n: round(s, 4) for n, s in outcomes.seconds.items() if n not in outcomes.outcome}
        return {"tests": tests, "left_out": outcomes.outcome, "lines": lines}

    # --- a mutant ------------------------------------------------------------------------------

    def try_mutant(self, mutant: Mutant, tests: Sequence[str]) -> Answer:
        """Put a mutant in place, and run the tests until one fails. It is not known what a mutant
        does that cannot be put in place."""
        if not self._put(mutant):
            return {"result": "unknown"}
        items = [self.items[name] for name in tests]
        config = items[0].config
        outcomes = Outcomes()
        config.pluginmanager.register(outcomes)
        for item, following in zip(items, [*items[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if killer := outcomes.failed():
                return {"result": "killed", "by": killer}
        return {"result": "survived"}

    def _put(self, mutant: Mutant) -> bool:
        source = source_of(mutant.path)
        file = str(PACKAGE / mutant.path)
        old = compile(source, file, "exec", dont_inherit=True)
        new = compile(mutant.apply(source), file, "exec", dont_inherit=True)
        changed = 0
        for before, after in _pairs(old, new):
            for function in self.functions.get(before, ()):
                if before != after:
                    try:
                        function.__code__ = after
                    except ValueError:  # it closes over other variables
                        return False
                    changed += 1
        return changed > 0


def _pairs(
    old: types.CodeType, new: types.CodeType
) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Yield each code object within another with the one in its place."""
    before = [code for code in old.co_consts if isinstance(code, types.CodeType)]
    after = [code for code in new.co_consts if isinstance(code, types.CodeType)]
    if len(before) != len(after):
        names = [code.co_qualname for code in after]
        before = [code for code in before if code.co_qualname in names]
    for one, other in zip(before, after, strict=False):
        yield one, other
        yield from _pairs(one, other)
