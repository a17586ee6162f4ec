"""Tests the structure that CONTRIBUTING describes: which folder may import which, who touches the
machine, what a driver defines, and where a switch may be named.

The tests read the source by AST.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from switchmark.model.test import AXES

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "switchmark"

BASE = {"", "clock", "errors", "extras", "model", "regular_file"}
DRIVERS = {
    *("engines", "environments", "functions", "noises", "scenarios", "searches", "switches"),
}

MACHINE = {"hosts", "observe", "runs"}
"""What touches a machine."""

MAY_IMPORT: dict[str, set[str]] = {
    "": set(),
    "clock": set(),
    "errors": set(),
    "extras": {"errors"},
    "plugins": {"errors"},
    "regular_file": set(),
    "model": {"errors"},
    "hosts": BASE,
    "observe": BASE | {"hosts"},
    "runs": BASE | {"hosts", "observe"},
    **{folder: BASE | MACHINE | {"plugins"} | DRIVERS for folder in DRIVERS},
    "searches": BASE | MACHINE | {"metrics", "plugins"} | DRIVERS,
    "metrics": BASE | {"plugins"},
    "plots": BASE | {"plugins", "metrics"},
    "papers": BASE | {"metrics"},
    "standards": BASE | {"metrics", "papers"},
    "path": BASE | MACHINE | {"metrics", "plugins"} | DRIVERS,
    "lab": BASE | MACHINE | {"metrics", "path", "plugins"} | DRIVERS,
    "campaign": BASE | MACHINE | {"papers", "path", "standards"} | DRIVERS,
    "report": BASE | {"metrics", "plots", "papers", "standards"},
    "cluster": BASE | MACHINE | {"campaign", "lab", "metrics", "path", "plugins"} | DRIVERS,
    "cli": BASE
    | DRIVERS
    | MACHINE
    | {"metrics", "plots", "plugins", "papers", "report", "standards"}
    | {"campaign", "cluster", "lab", "path"},
    "library": BASE | MACHINE | {"campaign", "cli", "lab", "metrics", "path", "report"},
    "__main__": {"cli"},
}
"""Folder (or top module; "" is the package's own __init__, which holds the version): what it
may import besides itself."""

RECORDS_ONLY = {"metrics", "plots", "report", "standards"}
"""They read records: not even what they import may reach a machine."""

PLAIN_WORDS = {"direct"}
"""Names of switches that are words of English, too."""

NAMED_ELSEWHERE: dict[tuple[str, str], str] = {
    ("model/test.py", "linux-bridge"): "the default of the axis `switch`",
    ("model/cable.py", "direct"): "the cable that every switch is held against",
}
"""(file, name of a switch): why the name may stand there."""

REQUIRED = {
    "switches": ("Switch", {"name", "semantics", "port_kinds", "counters", "probe", "start"}),
    "functions": ("Function", {"name", "summary", "port_kinds", "counters", "probe", "start"}),
    "environments": ("Environment", {"name", "probe", "create", "attach", "inside"}),
}
"""The contract of a folder of drivers, and what every driver says, in its own words or those of its
family: nothing there has a default."""


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees() -> Mapping[str, ast.Module]:
    """Return the parsed modules: not as this file is imported, which every lane does."""
    return {module: ast.parse(path.read_text()) for module, path in SOURCES.items()}


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, which several tests look at: to walk takes longest."""
    return tuple(ast.walk(tree))


def imports_of(module: str) -> set[str]:
    """Yield the project's modules that a module imports, wherever in it and however it does so."""
    found: set[str] = set()
    package = module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes_of(trees()[module]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found.update(name if name in SOURCES else base for name in inner)
    return {name for name in found if name in SOURCES} - {module}


@cache
def imports() -> dict[str, set[str]]:
    return {module: imports_of(module) for module in SOURCES}


def folder_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def reaches(start: str) -> dict[str, str]:
    """Return every module that `start` leads to, with the module that imports it."""
    via: dict[str, str] = {}
    stack = [start]
    while stack:
        module = stack.pop()
        for name in imports()[module]:
            if name not in via:
                via[name] = module
                stack.append(name)
    return via


def cycle_in(edges: dict[str, set[str]]) -> list[str] | None:
    """Return some cycle of a graph, or None."""
    visited: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in visited:
            return None
        for following in sorted(edges.get(node, ())):
            found = visit(following, [*path, node])
            if found:
                return found
        visited.add(node)
        return None

    for node in sorted(edges):
        found = visit(node, [])
        if found:
            return found
    return None


# --- imports ---------------------------------------------------------------------------------


def test_every_folder_has_its_place_in_the_order() -> None:
    assert {folder_of(module) for module in SOURCES} <= set(MAY_IMPORT)


def test_imports_run_one_way() -> None:
    refused = [
        f"{module} imports {name}"
        for module, names in imports().items()
        for name in sorted(names)
        if folder_of(name) not in MAY_IMPORT.get(folder_of(module), set()) | {folder_of(module)}
    ]
    assert not refused


def test_the_picture_of_the_architecture_is_what_the_imports_say() -> None:
    text = (REPOSITORY / "docs/architecture.md").read_text()
    lines = text.split("```")[1].strip().splitlines()
    lines_of = {
        folder: index
        for index, line in enumerate(lines)
        for folder in line.partition("|")[0].split()
    }
    folders = {folder_of(module) for module in SOURCES} - {"", "__main__"}
    assert set(lines_of) == folders
    upward = [
        f"{module} imports {name}"
        for module, names in imports().items()
        for name in sorted(names)
        if {folder_of(module), folder_of(name)} <= folders
        and folder_of(module) != folder_of(name)
        and lines_of[folder_of(module)] >= lines_of[folder_of(name)]
    ]
    assert not upward


def test_what_reads_records_never_reaches_a_machine() -> None:
    paths = [
        f"{module} leads to {name}, which {via} imports"
        for module in SOURCES
        if folder_of(module) in RECORDS_ONLY
        for name, via in reaches(module).items()
        if folder_of(name) in MACHINE
    ]
    assert not paths


def test_no_folders_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for module, names in imports().items():
        folder = folder_of(module)
        edges.setdefault(folder, set()).update({folder_of(name) for name in names} - {folder})
    assert cycle_in(edges) is None


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle_in(imports()) is None


def test_a_circle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) is None


def test_a_layout_is_drawn_without_a_host() -> None:
    reaching = ("hosts.base", "hosts.local", "runs.executor", "runs.workspace")
    touching = {f"switchmark.{name}" for name in reaching}
    refused = {
        module: sorted(names & touching)
        for module, names in imports().items()
        if folder_of(module) == "path" and names & touching
    }
    assert not refused


def test_only_hosts_and_runs_start_processes() -> None:
    starters = {
        module: sorted(starts)
        for module, tree in trees().items()
        if folder_of(module) not in ("hosts", "runs")
        and (starts := {"subprocess", "pexpect"} & set(_roots_imported(tree)))
    }
    assert not starters


def test_a_run_reads_the_time_by_one_clock() -> None:
    """A replay of a recorded run sets that clock. Hosts, the journal of dead runs and the progress
    of a campaign have the time of this host."""
    of_this_host = {"switchmark.runs.journal"}
    imports = [
        module
        for module, tree in trees().items()
        if folder_of(module) in ("lab", "observe", "runs", "path", "searches", *DRIVERS)
        and "time" in _roots_imported(tree)
    ]
    assert set(imports) == of_this_host


def reads_of_the_kernel(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return where a file below /proc or /sys is opened by its path, with its line: `Path` or
    `open` of such a name, and a path joined with one."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "Path", "os.listdir"):
            named = node.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            named = [node.right]
        else:
            continue
        for alias in named:
            first = alias.values[0] if isinstance(alias, ast.JoinedStr) and alias.values else alias
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                if re.match(r"/?(proc|sys)\b", first.value):
                    yield node.lineno, ast.unparse(alias)


def test_only_hosts_and_runs_open_files_of_the_kernel() -> None:
    """All others ask a host, which may be another machine."""
    found = {
        module: places
        for module, tree in trees().items()
        if folder_of(module) not in ("hosts", "runs")
        and (places := list(reads_of_the_kernel(tree)))
    }
    assert found == {}


def test_a_file_of_the_kernel_that_is_opened_is_found() -> None:
    source = (
        "Path('/proc/stat').read_text()\n"
        "open(f'/sys/bus/{name}')\n"
        "root / 'proc/stat'\n"
        "host.read('/proc/stat')\n"
        "Path('/process')\n"
    )
    assert sorted(line for line, _ in reads_of_the_kernel(ast.parse(source))) == [1, 2, 3]


def _roots_imported(tree: ast.Module) -> Iterator[str]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def test_the_package_never_imports_a_copyleft_library() -> None:
    users = [module for module, tree in trees().items() if "scapy" in set(_roots_imported(tree))]
    assert not users


# --- names -----------------------------------------------------------------------------------


@cache
def implementations(folder: str) -> dict[str, str]:
    """Return the names of the members of a plural folder, by file."""
    found: dict[str, str] = {}
    for path in sorted((PACKAGE / folder).glob("*.py")):
        if path.stem in ("__init__", "base"):
            continue
        for node in nodes_of(trees()[module_of(path)]):
            if isinstance(node, ast.ClassDef):
                values = [
                    statement.value
                    for statement in node.body
                    if isinstance(statement, ast.Assign)
                    and isinstance(statement.targets[0], ast.Name)
                    and statement.targets[0].id == "name"
                ]
            elif isinstance(node, ast.keyword) and node.arg == "name":
                values = [node.value]
            else:
                continue
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[value.value] = path.name
    return found


@cache
def strings_of(tree: ast.Module) -> list[tuple[int, str]]:
    """Return every string constant but docstrings, with its line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(statement.value)
        for parent in nodes_of(tree)
        if isinstance(parent, documented)
        for statement in parent.body
        if isinstance(statement, ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and id(node) not in documentation
        if isinstance(node.value, str)
    ]


def ambiguous_names() -> set[str]:
    """Return the names of switches that are another thing's name too, such as a kind of port, or a
    value of an axis."""
    others: set[str] = {"null", *(value for axis in AXES.values() for value in axis.choices)}
    for folder in DRIVERS - {"switches"}:
        others |= set(implementations(folder))
    kinds = trees().get("switchmark.model.topology")
    if kinds is not None:
        others |= {
            str(node.value.value)
            for enum in ast.walk(kinds)
            if isinstance(enum, ast.ClassDef) and enum.name == "PortKind"
            for node in enum.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        }
    return others


def places_of_names(names: Iterable[str]) -> Iterator[str]:
    """Return where a switch is named and should not be."""
    for name in sorted(names):
        allowed = {"switches/__init__.py", f"switches/{name.replace('-', '_')}.py"}
        word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        for module, tree in trees().items():
            file = SOURCES[module].relative_to(PACKAGE).as_posix()
            if file in allowed or (file, name) in NAMED_ELSEWHERE:
                continue
            for line, text in strings_of(tree):
                # A plain word, and any name in the file of another switch (a word of its
                # command lines), counts only as the whole string.
                whole = name in PLAIN_WORDS or file.startswith("switches/")
                if text == name or (not whole and word.search(text)):
                    yield f"{file}:{line}: {name!r} in {text!r}"


def test_a_switch_is_named_only_in_its_own_file_and_the_table() -> None:
    assert not list(places_of_names(set(implementations("switches")) - ambiguous_names()))


def said_by(node: ast.ClassDef) -> set[str]:
    """Return the members that a class defines itself: names that it assigns, also to `self`, and
    methods."""
    methods = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
    for child in ast.walk(node):
        if isinstance(child, ast.Assign):
            methods |= {ast.unparse(target).removeprefix("self.") for target in child.targets}
    return methods


def drivers_of(folder: str, contract: str) -> dict[str, set[str]]:
    """Return what each driver in a folder says, by its class, with what its family says for it.
    Families, which have no name, are left out, and so is the contract."""
    classes = {
        node.name: node
        for path in sorted((PACKAGE / folder).glob("*.py"))
        for node in nodes_of(trees()[module_of(path)])
        if isinstance(node, ast.ClassDef)
    }

    def members_of(name: str) -> set[str] | None:
        """Return the members of a class; None if it does not derive from the contract."""
        if name == contract:
            return set()
        if name not in classes:
            return None
        bases = [ast.unparse(base).rpartition(".")[2] for base in classes[name].bases]
        above = [found for base in bases if (found := members_of(base)) is not None]
        return said_by(classes[name]).union(*above) if above else None

    found = {
        name: members for name in classes if name != contract and (members := members_of(name))
    }
    return {name: members for name, members in found.items() if "name" in members}


@pytest.mark.parametrize("folder", REQUIRED)
def test_a_driver_says_itself_what_no_default_can_say(folder: str) -> None:
    contract, required = REQUIRED[folder]
    drivers = drivers_of(folder, contract)
    assert len(drivers) >= len(implementations(folder)) > 1
    lacking = {name: required - members for name, members in drivers.items() if required - members}
    assert lacking == {}


@pytest.mark.parametrize("folder", REQUIRED)
def test_a_contract_requires_these_and_no_more(folder: str) -> None:
    contract, required = REQUIRED[folder]
    (node,) = (
        node
        for node in ast.walk(trees()[f"switchmark.{folder}.base"])
        if isinstance(node, ast.ClassDef) and node.name == contract
    )
    found = {
        ast.unparse(s.target) for s in node.body if isinstance(s, ast.AnnAssign) and not s.value
    }
    found |= {
        s.name
        for s in node.body
        if isinstance(s, ast.FunctionDef)
        and any(ast.unparse(decorator) == "abstractmethod" for decorator in s.decorator_list)
    }
    assert found == required


def test_a_file_is_named_as_the_command_line_names_the_switch() -> None:
    names = implementations("switches")
    assert names
    assert {file: name for name, file in names.items()} == {
        f"{name.replace('-', '_')}.py": name for name in names
    }


def test_a_switch_is_imported_only_through_the_table() -> None:
    drivers = {
        f"switchmark.switches.{file.removesuffix('.py')}"
        for file in implementations("switches").values()
    }
    refused = [
        f"{module} imports {name}"
        for module, names in imports().items()
        if folder_of(module) != "switches"
        for name in sorted(names & drivers)
    ]
    assert not refused


def test_the_anchor_needs_nothing_but_the_interpreter() -> None:
    """A user without privileges may be unable to read files that are installed next to the
    package."""
    script = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import switchmark.runs.anchor"
    )
    completed = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", script], capture_output=True, text=True
    )
    assert (completed.returncode, completed.stderr) == (0, "")


# --- encodings -------------------------------------------------------------------------------

_MODE = re.compile(r"[rwax][+t]*")


def without_encoding(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines where text is read or written in the encoding of the user's locale."""
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        texts = [value.value for value in node.args if isinstance(value, ast.Constant)]
        if (
            (name == "read_text" and not node.args and "." in ast.unparse(node.func))
            or (name == "write_text" and len(node.args) == 1)
            or (name in ("open", "fdopen", "NamedTemporaryFile") and any(map(_is_text, texts)))
            or (name == "open" and not node.args and not node.keywords)
            or any(word.arg == "text" for word in node.keywords if name in ("run", "Popen"))
        ):
            yield node.lineno, ast.unparse(node)


def _is_text(mode: object) -> bool:
    return isinstance(mode, str) and _MODE.fullmatch(mode) is not None


def test_files_are_written_in_one_encoding() -> None:
    """A locale may have ASCII or Latin 1. Files are for other hosts, too."""
    found = {
        module: places
        for module, tree in trees().items()
        if (places := list(without_encoding(tree)))
    }
    assert found == {}


def test_a_file_in_the_encoding_of_the_locale_is_found() -> None:
    source = (
        "path.read_text()\n"
        "path.write_text(text)\n"
        "path.open('a')\n"
        "path.open()\n"
        "os.fdopen(1, 'w', buffering=1)\n"
        "subprocess.run(argv, text=True)\n"
        "path.read_text(encoding='utf-8')\n"
        "path.open('rb')\n"
        "tarfile.open(fileobj=output, mode='w')\n"
    )
    assert [line for line, _ in without_encoding(ast.parse(source))] == [1, 2, 3, 4, 5, 6]
