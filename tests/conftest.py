"""The configuration of all tests: markers by folder, golden files, skips under CI, and the time of
each test.

The folder of a test defines its requirements: `unit`, `fuzz` and `golden` need nothing (and
warnings are errors in `unit`), `contract` needs the traffic program, `netns` namespaces, `root`
real root.
"""

from __future__ import annotations

import difflib
import gc
import os
import re
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.fixtures import SubRequest
from hypothesis import settings

# Before they are imported, so that what they assert is explained.
pytest.register_assert_rewrite("host_snapshot", "host_state", "real_frames")

from golden_changes import changes_in_words  # noqa: E402
from host_snapshot import QUICK, Shared, Snapshot, left_as_it_was  # noqa: E402
from lanes import FOLDER, Turns, pytest_cmdline_main  # noqa: E402, F401
from real_frames import Measure, measuring  # noqa: E402
from ssh_hosts import SshdHost, one_host, require, two_hosts  # noqa: E402

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent

BUDGET_S = {
    "unit": 210,
    "fuzz": 20,
    "contract": 60,
    "golden": 20,
    "replay": 20,
    "netns": 240,
    "root": 850,
}
"""The time in seconds that the tests of each folder may take together, of three at a time on two
cores. It is printed, not asserted."""

LONGEST = (
    *("test_labs.py", "test_real_frames.py", "test_containers.py", "test_turns.py"),
    *("test_command.py", "test_c_units.py", "test_bypass_failures.py", "test_truth.py"),
    *("test_bypass.py", "test_axes.py", "test_vm.py", "test_images.py"),
    *("test_traffic_protocol.py", "test_chains.py"),
)
"""Files whose tests take half a minute together, the longest first."""

Status = tuple[str, str, str | tuple[str, Mapping[str, bool]]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-rewrite",
        action="store_true",
        help="write golden files instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control starts what is in its background deaf to Ctrl-C, and all that
    # it starts: the tests that interrupt would wait for nothing.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A library that this process has loaded gives them to workers as if there were a terminal.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    # A busy machine makes an example slow, not wrong.
    settings.register_profile("switchmark", deadline=None)
    settings.load_profile("switchmark")
    for folder, budget in BUDGET_S.items():
        config.addinivalue_line(
            "markers", f"{folder}: a test in tests/{folder} ({budget} s in all)"
        )
    config.addinivalue_line("markers", "further: a combination for make test-all alone")
    config.addinivalue_line("markers", "smoke: real frames that make test-fast sends, too")
    config.addinivalue_line("markers", "slow: not for make test-fast")
    config.addinivalue_line("markers", "alone: no other lane runs a test meanwhile")
    config.addinivalue_line("markers", "whole_host: all of the host is looked at around each test")
    os.environ["SWITCHMARK_HOST_FILE"] = os.devnull  # not the developer's own
    os.environ["SWITCHMARK_MACHINE_LOCK"] = os.devnull  # two runs of one test do not wait
    config.pluginmanager.register(Costs(), "switchmark-costs")
    config.pluginmanager.register(SkipPolicy(), "switchmark-skips")


# --- what a folder means ---------------------------------------------------------------------


def folder_of(nodeid: str) -> str:
    """Return `unit` of `tests/unit/test_x.py::test_y`; empty outside of these folders."""
    parts = nodeid.split("::")[0].split("/")
    return next((part for part in parts if part in BUDGET_S), "")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the tests that are collected. It would look at all of
    them again and again, here and while they run, and they live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else a library complains of what it is not given back


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        folder = folder_of(item.nodeid)
        if folder:
            item.add_marker(folder)
        if folder == "unit":
            item.add_marker(pytest.mark.filterwarnings("error"), append=False)
        if folder == "root" and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    order, longest = [*BUDGET_S], {}
    if hasattr(config, "workerinput"):
        # Lanes begin with what takes long, so that they end at about the same time.
        order.reverse()
        longest = {name: number - len(LONGEST) for number, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[int, int, int, bool]:
        folder = order.index(folder_of(item.nodeid) or "unit")
        # Tests of a file that run alone follow each other, and no lane waits between them.
        return folder, longest.get(item.path.name, 0), files[item.path], _runs_alone(item)

    items.sort(key=place)


# --- the user's environment ------------------------------------------------------------------

OF_THE_TESTS = ("HOST_FILE", "MACHINE_LOCK", "TRAFFIC_BUILD", "AXE", "SOAK")
"""Variables with the prefix `SWITCHMARK_` that configure the tests."""


@pytest.fixture(autouse=True, scope="module")
def _no_program_of_the_user_is_known(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the variables with a user's programs, except from tests with real frames."""
    with pytest.MonkeyPatch.context() as patch:
        if folder_of(request.node.nodeid) not in ("netns", "root"):
            variables = {f"SWITCHMARK_{name}" for name in OF_THE_TESTS}
            for name in {name for name in os.environ if name.startswith("SWITCHMARK_")} - variables:
                patch.delenv(name)
        yield


# --- lanes -----------------------------------------------------------------------------------

TURNS = pytest.StashKey[Turns]()
SHARED = pytest.StashKey[Shared]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Let a test wait for its turn, and other lanes for the tests that run alone."""
    turns = item.config.stash.get(TURNS, None)
    if turns is None:
        return (yield)
    turns.enter(alone=_runs_alone(item))
    try:
        return (yield)
    finally:
        if nextitem is None or not (_runs_alone(item) and _runs_alone(nextitem)):
            turns.leave()


def _lanes(config: pytest.Config) -> int:
    return int(getattr(config, "workerinput", {}).get("workercount", 1))


def _runs_alone(item: pytest.Item) -> bool:
    """A test that is served first leaves no CPU to the tests of other lanes."""
    served_first = "first_served" in getattr(item, "fixturenames", ())
    return served_first or item.get_closest_marker("alone") is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take a snapshot of the state that lanes share: no lane runs a test before all have collected
    theirs."""
    config = session.config
    if hasattr(config, "workerinput"):
        config.stash[TURNS] = Turns(FOLDER)
    if any(_touches_the_host(item) for item in session.items) and not config.option.collectonly:
        turns = config.stash.get(TURNS, None)
        config.stash[SHARED] = Shared(turns.alone) if turns else Shared()


# --- the host as it was ----------------------------------------------------------------------

SEEN_LAST = pytest.StashKey[Snapshot | None]()
"""The state of the host after the previous test of the same file."""


def _touches_the_host(node: pytest.Item | pytest.Collector) -> bool:
    return folder_of(node.nodeid) in ("netns", "root") and os.geteuid() == 0


@pytest.fixture(autouse=True, scope="module")
def _host_is_left_as_it_was_by_a_file(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that the objects of the module fixtures of a file are gone after its last test."""
    if not _touches_the_host(request.node):
        yield
        return
    with left_as_it_was(shared=request.config.stash[SHARED]):
        yield


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: SubRequest) -> None:
    """Take a new snapshot of the host after a fixture makes something for all tests of a file."""
    if fixturedef.scope == "module":
        request.node.stash[SEEN_LAST] = None


@pytest.fixture(autouse=True)
def _host_is_left_as_it_was(
    request: pytest.FixtureRequest, _host_is_left_as_it_was_by_a_file: None
) -> Iterator[None]:
    """Check that the host is in the same state as before, whatever a test did. Slow areas are
    checked only after a file, or after each test that is marked for it, and what lanes share is
    checked only after a file where there are several."""
    if not _touches_the_host(request.node):
        yield
        return
    file = request.node.getparent(pytest.Module)
    areas = None if request.node.get_closest_marker("whole_host") else QUICK
    last_state, shared = file.stash.get(SEEN_LAST, None), None
    if _lanes(request.config) == 1:  # several would wait for each other after each test
        shared = request.config.stash[SHARED]
    with left_as_it_was(last_state, areas, shared) as state:
        file.stash[SEEN_LAST] = None  # after a failure the next test looks for itself
        yield
    file.stash[SEEN_LAST] = state[-1]


# --- fixtures --------------------------------------------------------------------------------


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in `tmp_path` in this process, and returns its exit
    code and what it printed on stdout and stderr."""
    from switchmark.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["switchmark", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        printed = capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def switchmark(
    cli: Callable[..., tuple[int, str, str]],
    traffic_program: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command with real frames, in this process and with variables of
    the environment, and returns its exit code and what it printed."""
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("SWITCHMARK_HOST_FILE", os.devnull)  # not that of the last command
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return subprocess.CompletedProcess(arguments, *cli(*arguments))

    return run


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the pictures of pages: Vega takes a quarter of a second for each.
    tests/unit/test_plots.py, test_report.py and test_paper_charts.py draw them."""
    monkeypatch.setattr("switchmark.report.page.svg", lambda specification: "<svg></svg>")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the top of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def traffic_program() -> str:
    """Return the path of the built `switchmark-traffic`; `make setup` puts it into .venv."""
    built = REPOSITORY / ".venv/bin/switchmark-traffic"
    path = str(built) if built.exists() else shutil.which("switchmark-traffic")
    if path is None:
        pytest.skip("switchmark-traffic is not built: run make setup")
    return path


@pytest.fixture(scope="session")
def tool_program() -> str:
    """Return the path of the built `switchmark-tool`."""
    built = REPOSITORY / ".venv/bin/switchmark-tool"
    path = str(built) if built.exists() else shutil.which("switchmark-tool")
    if path is None:
        pytest.skip("switchmark-tool is not built: run make setup")
    return path


@pytest.fixture(scope="session")
def sanitized_traffic_program() -> str:
    """Return the path of the same program under ASan and UBSan; `make test` builds it."""
    path = REPOSITORY / "build/sanitize/traffic/switchmark-traffic"
    if not path.exists():
        pytest.skip("the sanitized switchmark-traffic is not built: run make test")
    return str(path)


@pytest.fixture(scope="module")
def measure(
    request: pytest.FixtureRequest, traffic_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Measure]:
    """Run a test with real frames by `measure(**axes)` (`real_frames.Measure`)."""
    if os.geteuid() != 0:
        pytest.skip("namespaces are made as root here; test_anchor covers the other way")
    briefly = folder_of(request.node.nodeid) == "netns"
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch, measuring(folder, briefly=briefly) as run:
        patch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
        yield run


@pytest.fixture(scope="module")
def ssh_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdHost]:
    """Make the test host `a`, for all tests of a file."""
    require()
    with one_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture(scope="module")
def ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SshdHost, SshdHost]]:
    """Make the test hosts `a` and `b`, for all tests of a file."""
    require()
    with two_hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


REWRITTEN = pytest.StashKey[list[tuple[str, str, str]]]()
"""The rewritten golden files: name, text before, text now."""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the changes of `make golden`: each hunk once, whatever the number of its files."""
    if config.getoption("--golden-rewrite"):
        terminalreporter.section("golden files")
        changes: list[tuple[str, str, str]] = config.stash.get(REWRITTEN, [])
        for line in changes_in_words(changes):
            terminalreporter.write_line(line)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with tests/golden/NAME by `golden(name, text)`; `make golden` rewrites it."""
    rewrite = bool(request.config.getoption("--golden-rewrite"))

    def compare(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        stored = path.read_text() if path.exists() else ""
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if stored != text:
                request.config.stash.setdefault(REWRITTEN, []).append((name, stored, text))
            return
        if stored != text:
            diff = difflib.unified_diff(
                stored.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm=""
            )
            pytest.fail("\n".join([*diff, "", "hint: make golden, then review the diff"]), False)

    return compare


# --- skips under CI --------------------------------------------------------------------------


class SkipPolicy:
    """A plug-in that turns a skip into a failure under CI=true, unless tests/allowed-skips.txt
    lists its reason for its folder."""

    def __init__(self) -> None:
        self.strict = os.environ.get("CI", "").lower() in ("1", "true")
        lines = (TESTS / "allowed-skips.txt").read_text().splitlines()
        rules = (line.split(" | ") for line in lines if line.strip() and line[0] != "#")
        self.allowed = [(folders.split(), re.compile(reason)) for folders, reason, *_ in rules]

    def judge(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not self.strict or not report.skipped or hasattr(report, "wasxfail"):
            return
        location = report.longrepr
        reason = location[2] if isinstance(location, tuple) else str(location)
        folder = folder_of(report.nodeid)
        if any(folder in folders and pattern.search(reason) for folders, pattern in self.allowed):
            return
        report.outcome = "failed"
        report.longrepr = f"{reason}\nnot in tests/allowed-skips.txt, so a failure under CI=true"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.judge(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        self.judge(report)
        return report


# --- what a test cost, and the last line -----------------------------------------------------


class Costs:
    """A plug-in that prints the time of each test next to its outcome, the time of each folder next
    to its budget, and the counts."""

    def __init__(self) -> None:
        self.of_test: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.of_test[report.nodeid] += report.duration

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> Generator[None, Status, Status]:
        category, letter, word = yield
        if category in ("passed", "failed") and isinstance(report, pytest.TestReport):
            word = f"{category.upper()} {self.of_test[report.nodeid]:.2f} s"
        return category, letter, word

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        of_folder: dict[str, list[float]] = defaultdict(list)
        for nodeid, seconds in self.of_test.items():
            of_folder[folder_of(nodeid)].append(seconds)
        terminalreporter.section("cost")
        for folder, value in of_folder.items():
            terminalreporter.write_line(
                f"{folder or 'other':10}{len(value):6} tests {sum(value):8.1f} s"
                + (f" of {BUDGET_S[folder]} s" if folder else "")
            )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not session.config.option.collectonly:
            count = {name: len(reports) for name, reports in reporter.stats.items()}
            passed = count.get("passed", 0) + count.get("xfailed", 0)
            failed = sum(count.get(name, 0) for name in ("failed", "error", "xpassed"))
            reporter.write_line(
                f"{passed} passed, {failed} failed, {count.get('skipped', 0)} skipped"
            )
