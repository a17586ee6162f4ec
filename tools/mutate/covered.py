"""This module keeps which tests execute which lines of the package, by file of tests, measured with
coverage.py's contexts. A file of tests is measured again when it or a helper of it changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tools.mutate.generate import BUILD, PACKAGE, REPOSITORY, Mutant, Scopes

FOLDERS = ("unit", "fuzz", "contract", "golden", "replay")
"""Those of the fast tests, as far as they exist."""

TESTS = REPOSITORY / "tests"
ALL_OF_FILE = "all"
"""The context of what a fixture of a module or session executes: it is of all tests of the file."""

HELPERS = {path.stem: path for path in TESTS.glob("*.py")}


@cache
def digest_of(file: str) -> str:
    """Return the digest of a file of tests, from the repository, and of the helpers that it
    imports."""
    content = (REPOSITORY / file).read_bytes()
    names = set(re.findall(r"^ *(?:from|import) (\w+)", content.decode(), re.MULTILINE))
    for name in sorted(names & HELPERS.keys()):
        content += HELPERS[name].read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def _functions(path: str) -> dict[int, tuple[str, int]]:
    """Return the outermost function of each line of a file, with its first line."""
    found = {}
    for name, (first, last) in Scopes((PACKAGE / path).read_bytes()).functions.items():
        if ".<locals>." not in name:
            for line in range(first, last + 1):
                found[line] = (name, first)
    return found


@cache
def function_digests(path: str) -> dict[str, str]:
    """Return the digest of each function of a file."""
    source = (PACKAGE / path).read_bytes()
    lines = source.splitlines()
    return {
        name: hashlib.sha256(b"\n".join(lines[first - 1 : last])).hexdigest()[:8]
        for name, (first, last) in Scopes(source).functions.items()
    }


@dataclass
class Covered:
    """What the tests of one file execute."""

    digest: str
    tests: dict[str, float]
    """The seconds of each test that passes, by its id."""
    left_out: dict[str, str]
    """The outcome of each that does not."""
    lines: dict[str, dict[str, dict[int, list[str]]]] = field(default_factory=dict)
    """Tests by file of the package, function, and line from the function's first."""
    functions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Digest by file of the package and function."""

    def add(self, path: str, contexts: Mapping[int, Iterable[str]]) -> None:
        """Add the contexts of the lines of a file of the package."""
        functions = _functions(path)
        for line, names in contexts.items():
            if line not in functions:
                continue
            name, first = functions[line]
            tests = {name for name in names if name in self.tests}
            if ALL_OF_FILE in names:
                tests = set(self.tests)
            if tests:
                self.lines.setdefault(path, {}).setdefault(name, {})[line - first] = sorted(tests)
                digest = function_digests(path)[name]
                self.functions.setdefault(path, {})[name] = digest

    def of_lines(self, path: str, function: str, first: int, last: int) -> set[str]:
        """Return the tests that execute a line; those of the function if it has changed."""
        by_line = self.lines.get(path, {}).get(function)
        if by_line is None:
            return set()
        start = _scopes(path).functions[function][0]
        same = self.functions[path][function] == function_digests(path)[function]
        lines = range(first - start, last - start + 1)
        return {
            test
            for offset, tests in by_line.items()
            if not same or offset in lines
            for test in tests
        }

    def save(self, file: str) -> None:
        """Keep it in the build folder."""
        sets: dict[tuple[str, ...], int] = {}
        numbers = {name: number for number, name in enumerate(self.tests)}
        lines = {
            path: {
                name: {
                    offset: sets.setdefault(tuple(tests), len(sets))
                    for offset, tests in by_line.items()
                }
                for name, by_line in by_function.items()
            }
            for path, by_function in self.lines.items()
        }
        content = {
            "digest": self.digest,
            "tests": self.tests,
            "left_out": self.left_out,
            "sets": [[numbers[name] for name in names] for names in sets],
            "lines": lines,
            "functions": self.functions,
        }
        cached = _kept(file)
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_text(json.dumps(content))

    @classmethod
    def load(cls, file: str) -> Covered | None:
        """Return what is kept of a file of tests, if it is of today's file."""
        cached = _kept(file)
        if not cached.exists():
            return None
        content: dict[str, Any] = json.loads(cached.read_text())
        if content["digest"] != digest_of(file):
            return None
        names = list(content["tests"])
        sets = [[names[number] for number in numbers_] for numbers_ in content["sets"]]
        lines = {
            path: {
                name: {int(offset): sets[number] for offset, number in by_line.items()}
                for name, by_line in by_function.items()
            }
            for path, by_function in content["lines"].items()
        }
        return cls(
            content["digest"],
            content["tests"],
            content["left_out"],
            lines,
            content["functions"],
        )


def _kept(file: str) -> Path:
    return BUILD / "coverage" / (file.replace("/", "-").removesuffix(".py") + ".json")


@cache
def _scopes(path: str) -> Scopes:
    return Scopes((PACKAGE / path).read_bytes())


# --- what is executed at import ----------------------------------------------------------------


@cache
def _names_in_functions() -> dict[str, set[tuple[str, str]]]:
    """Return for each name the functions, each with its file, that it occurs in."""
    found: dict[str, set[tuple[str, str]]] = {}
    for file in PACKAGE.rglob("*.py"):
        path = str(file.relative_to(PACKAGE))
        functions = _functions(path)
        for node in ast.walk(_scopes(path).tree):
            name = _name(node)
            function = functions.get(getattr(node, "lineno", 0))
            if name and function:
                found.setdefault(name, set()).add((path, function[0]))
    return found


@cache
def _names_at_import() -> list[tuple[set[str], set[str]]]:
    """Return what each statement at the top of a file binds, and the names in it."""
    found = []
    for file in PACKAGE.rglob("*.py"):
        path = str(file.relative_to(PACKAGE))
        functions = _functions(path)
        for node in _scopes(path).tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            within = {
                _name(child)
                for child in ast.walk(node)
                if getattr(child, "lineno", 0) not in functions
            }
            found.append((bound_by(node), within - {""}))
    return found


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.keyword):
        return node.arg or ""
    return ""


def bound_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a file, or of a class, binds."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {
        child.id
        for target in targets
        if target is not None
        for child in ast.walk(target)
        if isinstance(child, ast.Name)
    }


def functions_behind(mutant: Mutant) -> set[tuple[str, str]]:
    """Return the functions that can see what a mutant at import, or in a function that is called at
    import, changes: those that name what its statement binds, or what is bound by help of that."""
    names: set[str] = set()
    if mutant.function:
        names.add(mutant.function.split(".")[-1])
    line = mutant.lines[0]
    for node in _scopes(mutant.path).tree.body:
        if node.lineno <= line <= (node.end_lineno or 0) or _decorated(node, line):
            names |= bound_by(node)
            for inner in getattr(node, "body", []):
                if isinstance(node, ast.ClassDef) and inner.lineno <= line <= inner.end_lineno:
                    names |= bound_by(inner)
    grown = True
    while grown:
        names_at_import = {
            name for bound, within in _names_at_import() if within & names for name in bound
        }
        grown = not names_at_import <= names
        names |= names_at_import
    return {line for name in names for line in _names_in_functions().get(name, ())}


def _decorated(node: ast.stmt, line: int) -> bool:
    first = min(
        (decorator.lineno for decorator in getattr(node, "decorator_list", [])), default=line + 1
    )
    return first <= line < node.lineno
