"""These tests run what the action, the GitLab template and `git bisect` call. The toy switch is a
script in a git repository, and a stand-in for `switchmark` measures it: a build is as fast as its
file says. tests/root/test_ci.py measures builds for real."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
COMPARE, BISECT = REPOSITORY / "ci/compare.sh", REPOSITORY / "ci/bisect.sh"

STAND_IN = """#!/bin/sh
echo "$*" >>"$CALLS"
verb=$1; shift
case $verb in
run)
    before=${2%%,*} after=${2#*,}
    while [ $# -gt 0 ]; do case $1 in --out) out=$2 ;; --name) name=$2 ;; esac; shift; done
    mkdir "$out/$name"
    cat "${before#*@}/speed" "${after#*@}/speed" >"$out/$name/speeds" ;;
compare)
    run=$1 base=$3
    while [ $# -gt 0 ]; do
        case $1 in
        --junit) : >"$2" ;;
        --markdown) printf '## title\\n\\n%s\\n' "$base" >"$2" ;;
        esac
        shift
    done
    set -- $(cat "$run/speeds")
    if [ "$2" = noisy ]; then exit 6; fi
    if [ "$2" -lt "$1" ]; then exit 1; fi ;;
report) : >"$3" ;;
esac
"""


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the stand-in and a repository with the tags v0 to v5: v2 cannot be
    built, v4 is slower, v5 too."""
    made = tmp_path_factory.mktemp("made")
    folder = made / "toy"
    folder.mkdir()
    stand_in = made / "bin/switchmark"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    git(folder, "init", "--quiet", "--template=")
    for number, speed in enumerate(("10", "11", "broken", "10", "7", "6")):
        (folder / "speed").write_text(f"{speed}\n")
        (folder / "number").write_text(f"{number}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"v{number}")
        git(folder, "tag", f"v{number}")
    return made


@pytest.fixture
def toy(made_once: Path, tmp_path: Path) -> Path:
    """Return a copy of the repository, with the stand-in beside it."""
    shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "toy"


BUILD = 'if grep -q broken speed; then exit 1; fi; cp speed "$OUT/"'


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=toy", "-c", "user.email=toy@example.org")
    done = subprocess.run(
        ("git", "-C", str(folder), *author, *arguments), capture_output=True, text=True, check=True
    )
    return done.stdout


def call(toy: Path, *argv: object, **more: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PATH": f"{toy.parent / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(toy.parent / "calls"),
        "TMPDIR": str(toy.parent),
        **more,
    }
    env.pop("SWITCHMARK", None) if "SWITCHMARK" not in more else None
    return subprocess.run(
        [str(word) for word in argv], cwd=toy, env=env, capture_output=True, text=True, timeout=60
    )


def compare(toy: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    return call(toy, COMPARE, "--switch", "toy", "--build", BUILD, *more, **env)


def test_both_commits_are_built_and_measured_in_one_run(toy: Path) -> None:
    done = compare(toy, "--base", "v0", "--head", "v4", "--run", "--repeat 3 --search max")
    assert done.returncode == 1, done.stderr
    calls = (toy.parent / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["run", "compare", "report"]
    switches = calls[0].split()[2].split(",")
    assert [switch.rpartition("/")[2] for switch in switches] == ["base", "head"]
    assert "--repeat 3 --search max" in calls[0]
    assert f"--base {switches[0]} --fail-on slower:3%" in calls[1]
    out = toy / "switchmark-ci"
    assert (out / "run/speeds").read_text() == "10\n7\n"
    assert sorted(path.name for path in out.iterdir()) == [
        *("comment.md", "report.html", "result.xml", "run")
    ]
    comment = (out / "comment.md").read_text()
    assert comment.startswith("### switchmark: failed\n")
    assert git(toy, "rev-parse", "--short", "v4").strip() in comment
    assert "\ntoy@base\n" in comment


@pytest.mark.parametrize(("head", "status"), [("v1", 0), ("v3", 0), ("v5", 1), ("v2", 125)])
def test_the_exit_code_is_that_of_compare(toy: Path, head: str, status: int) -> None:
    assert compare(toy, "--base", "v0", "--head", head).returncode == status


def test_a_noisy_host_is_not_a_slower_switch(toy: Path) -> None:
    (toy / "speed").write_text("noisy\n")
    git(toy, "commit", "--quiet", "--all", "--message", "noisy")
    done = compare(toy, "--base", "v0")
    assert done.returncode == 6
    assert "cannot tell" in (toy / "switchmark-ci/comment.md").read_text()


@pytest.mark.parametrize("head", ["v1", "v2"])
def test_nothing_is_left_in_the_repository(toy: Path, head: str) -> None:
    before = git(toy, "status", "--short", "--branch"), git(toy, "worktree", "list")
    compare(toy, "--base", "v0", "--head", head, "--out", str(toy.parent / "out"))
    assert (git(toy, "status", "--short", "--branch"), git(toy, "worktree", "list")) == before
    assert not list(toy.parent.glob("switchmark-ci.*"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--base", "nothing"), "there is no commit nothing"),
        ((), "--switch, --build and --base are necessary"),
        (("--bass", "v0"), "there is no option --bass"),
        (("--base",), "--base takes a value"),
    ],
)
def test_a_wrong_request_is_refused(toy: Path, arguments: tuple[str, ...], says: str) -> None:
    done = compare(toy, *arguments)
    assert (done.returncode, says in done.stderr) == (2, True)
    assert not (toy.parent / "calls").exists()


def test_another_command_can_be_called(toy: Path) -> None:
    done = compare(toy, "--base", "v0", "--head", "v1", SWITCHMARK="env LATER=1 switchmark")
    assert done.returncode == 0


def test_git_bisect_finds_the_slower_commit(toy: Path) -> None:
    """v2 cannot be built, so git skips it."""
    git(toy, "bisect", "start", "v5", "v0")
    arguments = (BISECT, "--switch", "toy", "--build", BUILD, "--base", "v0")
    done = call(toy, "git", "bisect", "run", *arguments)
    first = git(toy, "rev-parse", "v4").strip()
    assert f"{first} is the first bad commit" in done.stdout, done.stdout + done.stderr
    assert not list(toy.parent.glob("switchmark-bisect.*"))


def test_a_bisection_stops_at_a_wrong_request(toy: Path) -> None:
    assert call(toy, BISECT, "--switch", "toy").returncode == 128


# --- the action ------------------------------------------------------------------------------

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text())


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text of the action with its expressions filled in."""
    for name, value in values.items():
        text = text.replace("${{ " + name + " }}", value)
    assert "${{" not in text, text
    return text


def steps(toy: Path, head: str, token: str) -> list[int]:
    """Run the shell steps of the action as a runner does, and return their statuses."""
    inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    inputs |= {"switch": "toy", "build": BUILD, "base": "v0", "head": head}
    inputs |= {"switchmark": "switchmark", "token": token}
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    values |= {"github.action_path": str(REPOSITORY), "github.event.pull_request.number": "7"}
    statuses = []
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or ("token" in str(step.get("if")) and not token):
            continue
        assert step["shell"] == "bash"
        env = {name: filled(value, values) for name, value in step["env"].items()}
        env |= {"GITHUB_STEP_SUMMARY": str(toy.parent / "summary"), "GITHUB_REPOSITORY": "a/toy"}
        argv = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        statuses.append(call(toy, *argv, **env).returncode)
    return statuses


def test_the_action_compares_and_comments(toy: Path) -> None:
    gh = toy.parent / "bin/gh"
    gh.write_text('#!/bin/sh\necho "$GH_TOKEN $*" >>"$CALLS"\n')
    gh.chmod(0o755)
    assert steps(toy, "v4", "secret") == [1, 0, 0]
    assert "### switchmark: failed" in (toy.parent / "summary").read_text()
    said = "secret pr comment 7 --repo a/toy --body-file switchmark-ci/comment.md"
    assert (toy.parent / "calls").read_text().splitlines()[-1] == said


def test_the_action_shows_nothing_where_nothing_was_measured(toy: Path) -> None:
    assert steps(toy, "v2", "") == [125, 0]
    assert not (toy.parent / "summary").exists()


def test_no_input_of_the_action_is_part_of_a_command() -> None:
    """An expression in a script would run what a branch is named like."""
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]


# --- the template of GitLab ------------------------------------------------------------------


def test_the_template_of_gitlab_compares(toy: Path) -> None:
    header, jobs = yaml.safe_load_all((REPOSITORY / "ci/gitlab.yml").read_text())
    inputs = {name: one.get("default") for name, one in header["spec"]["inputs"].items()}
    inputs |= {"switch": "toy", "build": BUILD, "script": str(COMPARE), "switchmark": "switchmark"}
    job = jobs["switchmark"]
    assert job["allow_failure"]["exit_codes"] == [6]

    def value(text: object) -> str:
        whole = str(text)
        for name, given in inputs.items():
            whole = whole.replace(f"$[[ inputs.{name} ]]", str(given))
        return whole

    env = {name: value(text) for name, text in job["variables"].items()}
    env |= {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "v0", "CI_COMMIT_SHA": "v4", "SM_TOKEN": "secret"}
    env |= {"CI_API_V4_URL": "https://example.org/api/v4", "CI_PROJECT_ID": "5"}
    env |= {"CI_MERGE_REQUEST_IID": "9"}
    assert "$[[" not in "".join(env.values())
    curl = toy.parent / "bin/curl"
    curl.write_text('#!/bin/sh\necho "$*" >>"$CALLS"\n')
    curl.chmod(0o755)
    (script,), (after,) = job["script"], job["after_script"]
    assert call(toy, "sh", "-ec", script, **env).returncode == 1
    assert call(toy, "sh", "-ec", after, **env).returncode == 0
    assert (toy / "switchmark-ci/result.xml").exists()
    shutil.rmtree(toy / "switchmark-ci")
    assert call(toy, "sh", "-ec", script, **env | {"CI_COMMIT_SHA": "v1"}).returncode == 0
    said = (toy.parent / "calls").read_text().splitlines()
    (last,) = [line for line in said if "PRIVATE-TOKEN" in line]
    assert "body@switchmark-ci/comment.md" in last
    assert last.endswith("https://example.org/api/v4/projects/5/merge_requests/9/notes")
