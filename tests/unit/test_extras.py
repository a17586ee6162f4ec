"""These tests run commands without the optional Python packages, as after `pip install` of the
wheel."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorded import stored_lines_run
from switchmark.errors import Exit
from switchmark.extras import EXTRAS, LAB, PLOTS, QUERY

REPOSITORY = Path(__file__).parents[2]
REPLAYED_CASE = "turns-idle"
"""A recorded run of several switches, whose answer has statistics."""

BLOCKED = (
    *("duckdb", "vl_convert"),
    *("dask", "dask_jobqueue", "distributed", "cryptography"),
    *("scipy", "pandas", "pyarrow", "matplotlib", "altair"),
)
"""The modules of the extras, and heavy ones that no part of the core may import."""

WITHOUT = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        found = name.partition(".")[0] not in {blocked}
        return self.finder.find_spec(name, path, target) if found else None
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""

EACH = """
import contextlib, importlib, json, os, pkgutil
import switchmark
from switchmark.cli import main
for module in pkgutil.walk_packages(switchmark.__path__, "switchmark."):
    if not module.name.endswith("__main__"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
for line in sys.stdin:
    folder, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, path in enumerate((os.devnull, "out", "err")):
            os.dup2(os.open(os.path.join(folder, path), os.O_RDWR | os.O_CREAT), number)
        os.chdir(os.path.join(folder, "here"))
        sys.argv = ["switchmark", *arguments]
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""It imports all that can be imported, once, and runs each command that it is told in a child."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def _python() -> Iterator[subprocess.Popen[str]]:
    """Start a Python that cannot import the extras."""
    code, pipe = WITHOUT.format(blocked=set(BLOCKED)) + EACH, subprocess.PIPE
    argv = (sys.executable, "-c", code)
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.fixture
def without_extras(_python: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command there, in a folder that is otherwise empty."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("without")
        (folder / "here").mkdir()
        assert _python.stdin is not None
        assert _python.stdout is not None
        _python.stdin.write(json.dumps([str(folder), arguments]) + "\n")
        _python.stdin.flush()
        status = int(_python.stdout.readline())
        assert list((folder / "here").iterdir()) == []
        out, err = ((folder / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(arguments, status, out, err)

    return run


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with stored records."""
    return stored_lines_run(tmp_path_factory.mktemp("runs"))


def project() -> dict[str, dict[str, list[str]]]:
    content: dict[str, dict[str, list[str]]] = tomllib.loads(
        (REPOSITORY / "pyproject.toml").read_text()
    )["project"]
    return content


def test_the_extras_of_the_messages_are_those_of_the_package() -> None:
    declared = project()["optional-dependencies"]
    assert {extra.name: list(extra.requirements) for extra in EXTRAS} == {
        name: requirements for name, requirements in declared.items() if name not in ("dev", "dist")
    }


def test_the_core_names_no_package_of_an_extra() -> None:
    names = {re.split(r"[<>=!~\[; ]", line)[0] for line in project()["dependencies"]}
    extras = {re.split(r"[<>=!~\[; ]", line)[0] for extra in EXTRAS for line in extra.requirements}
    assert not names & (extras | {"scipy", "pandas", "pyarrow"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "engines"),
        ("plan", "--switch", "direct,linux-bridge", "--search", "mlr"),
    ],
)
def test_the_core_commands_work_without_the_extras(
    arguments: tuple[str, ...], without_extras: Run
) -> None:
    ended = without_extras(*arguments)
    assert ended.returncode in (Exit.FINE, Exit.UNAVAILABLE), ended.stderr
    assert "Traceback" not in ended.stderr
    assert not any(module in ended.stderr for module in BLOCKED)
    assert ended.stdout


def test_doctor_names_each_missing_extra_and_the_command_that_installs_it(
    without_extras: Run,
) -> None:
    shown = without_extras("doctor").stdout
    for extra in EXTRAS:
        assert f"- {extra.name} " in shown
        assert f"fix: {extra.install}" in shown


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("query", "RUN", "select 1"), QUERY),
        (("export", "RUN", "-o", "tests.parquet"), QUERY),
        (("report", "RUN", "-o", "report.html"), PLOTS),
        (("report", "RUN", "-o", "report.svg"), PLOTS),
        (("run", "--switch", "direct", "--cluster", "nowhere:1"), LAB),
    ],
)
def test_a_command_that_needs_an_extra_says_which_and_how_to_get_it(
    arguments: tuple[str, ...], extra: object, run_folder: Path, without_extras: Run
) -> None:
    words = [str(run_folder) if word == "RUN" else word for word in arguments]
    ended = without_extras(*words)
    assert ended.returncode == Exit.UNAVAILABLE, ended.stderr
    assert isinstance(extra, type(QUERY))
    assert f"the extra `{extra.name}` is not installed" in ended.stderr
    hint = ended.stderr.partition("hint: ")[2].partition(", or")[0].strip()
    assert shlex.split(hint) == [sys.executable, "-m", "pip", "install", *extra.requirements]


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("report", "RUN", "-o", "OUTPUT"), "tests.md"),
        (("export", "RUN", "-o", "OUTPUT"), "tests.csv"),
        (("export", "RUN", "-o", "OUTPUT"), "tests.tex"),
    ],
)
def test_records_are_written_without_the_extras(
    arguments: tuple[str, ...],
    output: str,
    run_folder: Path,
    tmp_path: Path,
    without_extras: Run,
) -> None:
    names = {"RUN": str(run_folder), "OUTPUT": str(tmp_path / output)}
    ended = without_extras(*(names.get(word, word) for word in arguments))
    assert ended.returncode == Exit.FINE, ended.stderr
    assert (tmp_path / output).stat().st_size


def test_runs_are_compared_without_the_extras(run_folder: Path, without_extras: Run) -> None:
    ended = without_extras("compare", str(run_folder), str(run_folder))
    assert "Traceback" not in ended.stderr
    assert ended.stdout


def test_the_end_of_a_run_names_the_extra_that_its_page_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run_folder: Path
) -> None:
    from switchmark.campaign.store import RunFolder
    from switchmark.cli.running import _write_report

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    folder = RunFolder(run_folder)
    assert folder.latest
    _write_report(folder)
    assert capsys.readouterr().err == f"no report: it needs the extra `plots` ({PLOTS.install})\n"
    assert not (run_folder / "report.html").exists()


REPLAYED = """
import tempfile
from pathlib import Path
from replay_cases import CASES
from replay_runs import replay
from switchmark.campaign.store import read_records
from switchmark.report.answer import brief_answer
case = next(case for case in CASES if case.name == {name!r})
with tempfile.TemporaryDirectory() as folder:
    records = read_records(replay(case, Path(folder)))
    print(len(records), *brief_answer(records))
"""


def test_a_recorded_run_and_its_answer_import_no_extra() -> None:
    code = WITHOUT.format(blocked=set(BLOCKED)) + REPLAYED.format(name=REPLAYED_CASE)
    folders = f"{REPOSITORY / 'src'}:{REPOSITORY / 'tests'}:{REPOSITORY}"
    ended = subprocess.run(
        (sys.executable, "-c", code),
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": folders},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[0] != "0"
