"""These tests ask a package for the commit that it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from switchmark.hosts.commit import commit


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    completed = subprocess.run(
        ("git", "-C", str(folder), *identity, *arguments),
        capture_output=True,
        text=True,
        check=True,
    )
    return completed.stdout.strip()


def package(tree: Path) -> Path:
    folder = tree / "src/switchmark"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("1\n")
    return folder


def test_a_work_tree_has_the_commit_of_git_and_says_that_it_was_changed(tmp_path: Path) -> None:
    package_dir = package(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a")
    head = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert commit(package_dir) == head
    (package_dir / "a.py").write_text("2\n")
    assert commit(package_dir) == f"{head}+"


def test_an_installed_package_has_what_the_build_wrote_and_not_its_neighbours(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "b").touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "another project")
    package_dir = package(tmp_path / "venv/lib")
    assert commit(package_dir) is None
    (package_dir / "commit.txt").write_text("0123456789ab\n")
    assert commit(package_dir) == "0123456789ab"
