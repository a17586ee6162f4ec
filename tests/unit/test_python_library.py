"""These tests use switchmark as a Python library, without measuring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import switchmark
from recorded import fresh, stored_run
from switchmark import library
from switchmark.errors import SetupFailed, Unavailable, UsageError
from switchmark.runs import command


def test_the_public_names_are_those_of_the_stub() -> None:
    stub = Path(switchmark.__file__).with_suffix(".pyi").read_text()
    named = {line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line}
    assert named == set(library.__all__) == set(vars(switchmark)["_LIBRARY"])
    assert all(getattr(switchmark, name) is getattr(library, name) for name in named)
    assert named <= set(dir(switchmark))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = switchmark.nothing  # type: ignore[attr-defined]


def test_importing_it_loads_nothing_else() -> None:
    script = (
        "import sys, switchmark; print([m for m in sys.modules if m.startswith('switchmark.')])"
    )
    done = subprocess.run(
        (sys.executable, "-c", script), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_tests_are_made_of_axes_as_on_the_command_line() -> None:
    made = switchmark.tests(
        switch="null", frame_size=[64, 1500], burst="1..3", engine="null", repeat=4
    )
    assert len(made) == 6
    assert {(test.frame_size, test.burst, test.repeat) for test in made} == {
        (size, burst, 4) for size in (64, 1500) for burst in (1, 2, 3)
    }
    with pytest.raises(UsageError, match="switc"):
        switchmark.tests(switc="null")


def test_a_plan_has_the_steps_of_each_test() -> None:
    test = switchmark.Test(switch="linux-bridge", engine="raw-mmsg")
    lines = switchmark.plan(test)
    assert any(line.startswith("ip ") and "type bridge" in line for line in lines)
    both = switchmark.plan([test, test.model_copy(update={"frame_size": 1500})])
    assert sum(line.startswith("# --- test ") for line in both) == 2
    with pytest.raises(UsageError, match="there is no test"):
        switchmark.plan([])
    with pytest.raises(UsageError):
        switchmark.plan(switchmark.Test(switch="linux-bridge", engine="memif"))


def test_a_stored_run_is_loaded(tmp_path: Path) -> None:
    records = [fresh(1), fresh(2), fresh(3, status="failed", error="it broke", trials=())]
    run = switchmark.load(stored_run(tmp_path, records))
    assert [record.number for record in run.records] == [1, 2, 3]
    rates = run.values("rx.mpps")
    assert list(rates) == [record.test for record in records]
    assert [rate is not None and 0.9 < rate < 1.1 for rate in rates.values()] == [True, True, False]
    assert [row["status"] for row in run.objects()] == ["ok", "ok", "failed"]
    assert "linux-bridge" in run.answer
    with pytest.raises(UsageError, match="there is no metric named"):
        run.values("rx.furlongs")
    with pytest.raises(UsageError, match="is no run folder"):
        switchmark.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("status", "kind"), [(2, UsageError), (3, Unavailable), (4, SetupFailed), (70, SetupFailed)]
)
def test_an_error_of_the_command_is_raised(
    status: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "warning: a busy host\nerror: it cannot be\n\nhint: do so"
    monkeypatch.setattr(command, "run_command", lambda arguments: (status, said))
    with pytest.raises(kind, match="^it cannot be\n\nhint: do so$"):
        switchmark.run(switchmark.Test(), out=tmp_path)


def test_a_name_that_is_taken_is_refused_by_the_command(tmp_path: Path) -> None:
    """This runs the real command, which ends before it measures."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError, match="there is a run named 'taken' already"):
        switchmark.run(switchmark.Test(engine="raw-mmsg"), out=tmp_path, name="taken")
