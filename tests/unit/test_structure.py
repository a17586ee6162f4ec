"""These tests hold the structure that CONTRIBUTING names: which folder may import which, and where
names may stand.

They read the source by AST; nothing of the project is imported.
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

from switchmark.model.spec import AXES

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "switchmark"

BASE = {"", "errors", "model"}
DRIVERS = {
    *("engines", "environments", "functions", "noises", "scenarios", "searches", "switches"),
}

MACHINE = {"hosts", "observe", "runs"}
"""What touches a machine."""

MAY_IMPORT: dict[str, set[str]] = {
    "": set(),
    "errors": set(),
    "plugins": {"errors"},
    "model": {"errors"},
    "hosts": BASE,
    "observe": BASE | {"hosts"},
    "runs": BASE | {"hosts", "observe"},
    **{folder: BASE | MACHINE | {"plugins"} | DRIVERS for folder in DRIVERS},
    "searches": BASE | MACHINE | {"metrics", "plugins"} | DRIVERS,
    "metrics": BASE | {"plugins"},
    "plots": BASE | {"plugins", "metrics"},
    "papers": BASE | {"metrics"},
    "path": BASE | MACHINE | {"metrics", "plugins"} | DRIVERS,
    "lab": BASE | MACHINE | {"metrics", "path", "plugins"} | DRIVERS,
    "campaign": BASE | MACHINE | {"papers", "path"} | DRIVERS,
    "report": BASE | {"metrics", "plots", "papers"},
    "cluster": BASE | MACHINE | {"campaign", "lab", "metrics", "path", "plugins"} | DRIVERS,
    "cli": BASE
    | DRIVERS
    | MACHINE
    | {"metrics", "plots", "plugins", "papers", "report"}
    | {"campaign", "cluster", "lab", "path"},
    "__main__": {"cli"},
}
"""Folder (or top module; "" is the package's own __init__, which holds the version): what it
may import besides itself."""

RECORDS_ONLY = {"metrics", "plots", "report"}
"""They read records: not even what they import may reach a machine."""

PLAIN_WORDS = {"direct", "host", "netns", "vm"}
"""Names of switches and environments that are words of English, or of a tool, too."""

NAMED_ELSEWHERE: dict[tuple[str, str], str] = {
    ("model/set_up.py", "linux-bridge"): "the default of the axis `switch`",
    ("model/cable.py", "direct"): "the cable that every switch is held against",
}
"""(file, name of a switch): why the name may stand there."""

ENVIRONMENTS_NAMED_ELSEWHERE: dict[tuple[str, str], str] = {
    ("model/set_up.py", "netns"): "the default of the axes `environment` and `switch_environment`",
    ("model/plan.py", "host"): "the node of whatever runs in none",
    ("path/layout.py", "netns"): "where physical ports end",
    ("path/needs.py", "netns"): "the network stack of who has a namespace with a name",
    ("noises/web.py", "netns"): "the neighbour's own network, whatever the test's",
    ("metrics/doubts.py", "netns"): "what cures a doubt, and is the default",
    # Not the environment, but another thing of that name:
    ("path/orders.py", "netns"): "a word of the traffic program's commands",
    ("runs/clean.py", "netns"): "a word of ip's command line",
    ("switches/links.py", "netns"): "a word of ip's command line",
    ("cluster/description.py", "host"): "a part of an address",
    ("cluster/start.py", "host"): "an option of Dask's scheduler",
    ("switches/across.py", "netns"): "a word of ip's command line",
    ("switches/sriov.py", "netns"): "a word of ip's command line",
    ("noises/stress.py", "vm"): "a worker of stress-ng",
    ("model/record.py", "host"): "a verdict",
    ("metrics/verdict.py", "host"): "a verdict",
    ("metrics/doubts.py", "host"): "a verdict",
    ("report/answer.py", "host"): "a verdict",
    ("papers/comparing.py", "host"): "a verdict",
    ("metrics/repeats.py", "host"): "a verdict",
    ("report/json.py", "host"): "a member of a record",
    ("runs/far_run.py", "host"): "a member of a line of the journal",
    ("hosts/far_undo.py", "netns"): "a word of ip's command line",
    ("report/schema.py", "host"): "a member of a record",
    ("hosts/qemu.py", "host"): "a processor of QEMU's: this one",
}
"""(file, name of an environment): why the name may stand there."""

OF_THIS_PROCESS = {
    "runs/anchor.py": "whether this process has the capabilities of a run",
    "hosts/processes.py": "processes of this machine, which are signalled through a pidfd",
    "runs/workspace.py": "what is mounted in this process's own folder of a run",
}
"""Who may open files in /proc without a host: file, and what of this very process it asks."""

WRITES_JSON = {
    "runs/jsonl.py": "the lines",
    "lab/judging.py": "a figure within a sentence",
    "report/files.py": "a list within a cell of a table",
    "report/page.py": "what the page's script reads",
    "plots/render.py": "what the library that draws reads",
    "report/export.py": "a list within a cell, and the rows of a table as lines",
    "report/query.py": "a figure within a cell of a table, and the structure to read",
    "report/views.py": "the structure of a cell",
}
"""Who may write JSON without an indentation: file, and what."""

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
TREES = {module: ast.parse(path.read_text()) for module, path in SOURCES.items()}


def imports_of(module: str) -> set[str]:
    """Yield the project's modules that a module imports, wherever in it and however it does so."""
    found: set[str] = set()
    package = module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(TREES[module]):
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


IMPORTS = {module: imports_of(module) for module in SOURCES}


def folder_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def reaches(start: str) -> dict[str, str]:
    """Return every module that `start` leads to, with the module that imports it."""
    via: dict[str, str] = {}
    stack = [start]
    while stack:
        module = stack.pop()
        for name in IMPORTS[module]:
            if name not in via:
                via[name] = module
                stack.append(name)
    return via


def cycle_in(edges: dict[str, set[str]]) -> list[str] | None:
    """Return some cycle of a graph, or None."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for following in sorted(edges.get(node, ())):
            found = visit(following, [*path, node])
            if found:
                return found
        done.add(node)
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
        for module, names in IMPORTS.items()
        for name in sorted(names)
        if folder_of(name) not in MAY_IMPORT.get(folder_of(module), set()) | {folder_of(module)}
    ]
    assert not refused


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
    for module, names in IMPORTS.items():
        folder = folder_of(module)
        edges.setdefault(folder, set()).update({folder_of(name) for name in names} - {folder})
    assert cycle_in(edges) is None


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle_in(IMPORTS) is None


def test_a_circle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) is None


def test_a_layout_is_drawn_without_a_host() -> None:
    touching = {f"switchmark.{name}" for name in ("hosts.base", "runs.executor", "runs.workspace")}
    refused = {
        module: sorted(names & touching)
        for module, names in IMPORTS.items()
        if folder_of(module) == "path" and names & touching
    }
    assert not refused


def test_only_the_machine_starts_processes() -> None:
    starters = {
        module: sorted(starts)
        for module, tree in TREES.items()
        if folder_of(module) not in ("hosts", "runs", "cli")
        and (starts := {"subprocess", "pexpect"} & set(_roots_imported(tree)))
    }
    assert not starters


def test_lines_of_json_are_written_in_one_place() -> None:
    """What is spread over lines, hashed or shown within a text is no line."""
    lines = {
        f"{file}:{node.lineno}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "json.dumps"
        and not {"indent", "sort_keys"} & {keyword.arg for keyword in node.keywords}
        if (file := SOURCES[module].relative_to(PACKAGE).as_posix()) not in WRITES_JSON
    }
    assert lines == set()


def reads_of_the_kernel(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return where a file below /proc or /sys is opened by its path, with its line: `Path` or
    `open` of such a name, and a path joined with one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "Path", "os.listdir"):
            named = node.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            named = [node.right]
        else:
            continue
        for each in named:
            first = each.values[0] if isinstance(each, ast.JoinedStr) and each.values else each
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                if re.match(r"/?(proc|sys)\b", first.value):
                    yield node.lineno, ast.unparse(each)


def test_the_kernel_is_asked_through_a_host() -> None:
    """So that another host than this one can be asked."""
    found = {
        file: places
        for module, tree in TREES.items()
        if (places := list(reads_of_the_kernel(tree)))
        and (file := SOURCES[module].relative_to(PACKAGE).as_posix()) not in OF_THIS_PROCESS
    }
    assert found == {}
    assert {file for file in OF_THIS_PROCESS if (PACKAGE / file).exists()} == set(OF_THIS_PROCESS)


def test_a_file_of_the_kernel_that_is_opened_is_found() -> None:
    source = (
        "Path('/proc/stat').read_text()\n"
        "open(f'/sys/bus/{name}')\n"
        "root / 'proc/stat'\n"
        "host.read('/proc/stat')\n"
        "Path('/process')\n"
    )
    assert sorted(line for line, _ in reads_of_the_kernel(ast.parse(source))) == [1, 2, 3]


def _roots_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def test_the_package_never_imports_a_copyleft_library() -> None:
    users = [module for module, tree in TREES.items() if "scapy" in set(_roots_imported(tree))]
    assert not users


# --- names -----------------------------------------------------------------------------------


def implementations(folder: str) -> dict[str, str]:
    """Return what a plural folder holds: names, as its classes or instances write them, by file."""
    found: dict[str, str] = {}
    for path in sorted((PACKAGE / folder).glob("*.py")):
        if path.stem in ("__init__", "base"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
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
def strings_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Return every string constant but docstrings, with its line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(statement.value)
        for parent in ast.walk(tree)
        if isinstance(parent, documented)
        for statement in parent.body
        if isinstance(statement, ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in documentation
        if isinstance(node.value, str)
    ]


def ambiguous_names() -> set[str]:
    """Return the names of switches that are another thing's name too, such as a kind of port, or a
    value of an axis."""
    others: set[str] = {"null", *(value for axis in AXES.values() for value in axis.choices)}
    for folder in DRIVERS - {"switches"}:
        others |= set(implementations(folder))
    kinds = TREES.get("switchmark.model.topology")
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
        own = {"switches/__init__.py", f"switches/{name.replace('-', '_')}.py"}
        word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        for module, tree in TREES.items():
            file = SOURCES[module].relative_to(PACKAGE).as_posix()
            if file in own or (file, name) in NAMED_ELSEWHERE:
                continue
            for line, text in strings_of(tree):
                # A plain word, and any name in the file of another switch (a word of its
                # command lines), counts only as the whole string.
                whole = name in PLAIN_WORDS or file.startswith("switches/")
                if text == name or (not whole and word.search(text)):
                    yield f"{file}:{line}: {name!r} in {text!r}"


def test_a_switch_is_named_only_in_its_own_file_and_the_table() -> None:
    assert not list(places_of_names(set(implementations("switches")) - ambiguous_names()))


def places_of_environments(name: str, trees: Mapping[str, ast.AST]) -> Iterator[str]:
    """Return where an environment is named and should not be, in the trees of some files."""
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    if name in PLAIN_WORDS:
        word = re.compile(rf"^{name}$|environment {name}\b")
    for file, tree in trees.items():
        if file.startswith("environments/") or (file, name) in ENVIRONMENTS_NAMED_ELSEWHERE:
            continue
        yield from (
            f"{file}:{line}: {text!r}" for line, text in strings_of(tree) if word.search(text)
        )


def test_an_environment_is_named_only_beside_its_table() -> None:
    trees = {SOURCES[m].relative_to(PACKAGE).as_posix(): tree for m, tree in TREES.items()}
    names = implementations("environments")
    assert {"host", "netns", "vm"} < names.keys()
    assert not [place for name in names for place in places_of_environments(name, trees)]


def test_an_environment_that_is_named_is_found() -> None:
    texts = ("x = 'netns'", "x = 'run it in environment netns'", "x = 'ip netns exec'")
    found = [len(list(places_of_environments("netns", {"a.py": ast.parse(t)}))) for t in texts]
    assert found == [1, 1, 0]
    assert list(places_of_environments("docker", {"a.py": ast.parse("x = 'docker or so'")}))


def said_by(node: ast.ClassDef) -> set[str]:
    """Return what a class says itself: names that it assigns, also to `self`, and methods."""
    said = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign):
            said |= {ast.unparse(target).removeprefix("self.") for target in each.targets}
    return said


def drivers_of(folder: str, contract: str) -> dict[str, set[str]]:
    """Return what each driver in a folder says, by its class, with what its family says for it.
    Families, which have no name, are left out, and so is the contract."""
    classes = {
        node.name: node
        for path in sorted((PACKAGE / folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }

    def said(name: str) -> set[str] | None:
        """Return None for what derives from something else than the contract."""
        if name == contract:
            return set()
        if name not in classes:
            return None
        bases = [ast.unparse(base).rpartition(".")[2] for base in classes[name].bases]
        above = [found for base in bases if (found := said(base)) is not None]
        return said_by(classes[name]).union(*above) if above else None

    found = {name: members for name in classes if name != contract and (members := said(name))}
    return {name: members for name, members in found.items() if "name" in members}


@pytest.mark.parametrize("folder", REQUIRED)
def test_a_driver_says_itself_what_no_default_can_say(folder: str) -> None:
    contract, required = REQUIRED[folder]
    drivers = drivers_of(folder, contract)
    assert len(drivers) >= len(implementations(folder)) > 1
    lacking = {name: required - said for name, said in drivers.items() if required - said}
    assert lacking == {}


@pytest.mark.parametrize("folder", REQUIRED)
def test_a_contract_requires_these_and_no_more(folder: str) -> None:
    contract, required = REQUIRED[folder]
    (node,) = (
        node
        for node in ast.walk(TREES[f"switchmark.{folder}.base"])
        if isinstance(node, ast.ClassDef) and node.name == contract
    )
    found = {
        ast.unparse(s.target) for s in node.body if isinstance(s, ast.AnnAssign) and not s.value
    }
    found |= {
        s.name
        for s in node.body
        if isinstance(s, ast.FunctionDef)
        and any(ast.unparse(each) == "abstractmethod" for each in s.decorator_list)
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
        for module, names in IMPORTS.items()
        if folder_of(module) != "switches"
        for name in sorted(names & drivers)
    ]
    assert not refused


def test_an_exception_for_a_name_is_still_needed() -> None:
    for file, name in (*NAMED_ELSEWHERE, *ENVIRONMENTS_NAMED_ELSEWHERE):
        texts = [text for _, text in strings_of(ast.parse((PACKAGE / file).read_text()))]
        assert any(name in text for text in texts), (file, name)


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"util", "utils", "common", "helper", "helpers", "misc", "manager"}
    found = [str(path) for path in PACKAGE.rglob("*") if path.stem in drawers]
    found += [str(path) for path in (REPOSITORY / "traffic").rglob("*") if path.stem in drawers]
    assert not found


def test_a_module_says_what_it_owns() -> None:
    assert not [m for m, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]


# --- axes ------------------------------------------------------------------------------------

SPEC = (("switchmark.model.set_up", "SetUp"), ("switchmark.model.spec", "Test"))

ROLES = {"switch", "function", "engine"}
"""Names of axes that are those of parts and of kinds of drivers, too."""

RESOURCES = "resources"
"""What a driver says that it follows: its own affair."""

LISTS_OF_AXES: dict[tuple[str, str], str] = {
    ("path/combinations.py", "_OF_ONE_HOST"): "what is refused between two hosts",
    ("report/caption.py", "_SAID"): "what the caption of a table has words of its own for",
}
"""(file, name of a constant): why it may list axes."""


def axes_of_test() -> dict[str, ast.expr]:
    """Return the fields of `Test`, of what it is made from first, with their annotations."""
    return {
        member.target.id: member.annotation
        for module, name in SPEC
        for node in TREES[module].body
        if isinstance(node, ast.ClassDef) and node.name == name
        for member in node.body
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name)
    }


def lists_of_axes(tree: ast.AST, axes: set[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Return where names of axes, and nothing else, are listed, with the line: what could be a fact
    about them. The reason of a refusal names its axes; a dictionary in a function gives them
    values."""
    exempt: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Refusal", "UsageError"):
            exempt |= {id(value) for value in (*node.args, *(k.value for k in node.keywords))}
        named = [node.arg] if isinstance(node, ast.keyword) else []
        if isinstance(node, ast.Assign):
            named = [ast.unparse(target) for target in node.targets]
        if RESOURCES in named:
            exempt |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.FunctionDef):
            exempt |= {id(inner) for inner in ast.walk(node) if isinstance(inner, ast.Dict)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict) and id(node) not in exempt:
            members = node.keys if isinstance(node, ast.Dict) else node.elts
            names = [each.value for each in members if isinstance(each, ast.Constant)]
            if len(members) > 1 and len(names) == len(members) and set(names) <= axes:
                if not set(names) <= ROLES:
                    yield node.lineno, tuple(map(str, names))


def lines_of_constants(tree: ast.Module) -> dict[str, range]:
    """Return the lines of what a module assigns, by name."""
    return {
        ast.unparse(node.targets[0]): range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in tree.body
        if isinstance(node, ast.Assign)
    }


def test_an_axis_has_a_record() -> None:
    """Which of them it is, and what it sets, comes first; all else has a default."""
    axes = axes_of_test()
    assert len(axes) > 40
    for name, annotation in axes.items():
        records = [
            node
            for node in ast.walk(annotation)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Axis"
        ]
        assert [len(record.args) for record in records] == [2], name


def test_a_fact_of_an_axis_stands_in_its_record() -> None:
    axes = set(axes_of_test())
    elsewhere = []
    for module, tree in TREES.items():
        file = SOURCES[module].relative_to(PACKAGE).as_posix()
        allowed = [
            lines
            for name, lines in lines_of_constants(tree).items()
            if (file, name) in LISTS_OF_AXES
        ]
        elsewhere += [
            f"{file}:{line}: {', '.join(names)}"
            for line, names in lists_of_axes(tree, axes)
            if not any(line in lines for lines in allowed)
        ]
    assert elsewhere == []


def test_a_list_of_axes_is_found() -> None:
    source = (
        "_OF_A_TRIAL = frozenset({*('rate', 'burst'), 'touch'})\n"
        "_RENAMED = {'frame_size': 'frame_bytes', 'duration': 'duration_s'}\n"
        "resources = frozenset({'queues', 'copies'})\n"
        "WHO = ('switch', 'function')\n"
        "def f(test):\n"
        "    for axis in ['chain', 'chains']:\n"
        "        yield Refusal((axis, 'scenario'), 'no')\n"
        "    yield Refusal(('chain', 'scenario'), 'no')\n"
        "    return test.model_copy(update={'chain': 1, 'chains': 1})\n"
    )
    axes = set(axes_of_test())
    assert sorted(lists_of_axes(ast.parse(source), axes)) == [
        (1, ("rate", "burst")),
        (2, ("frame_size", "duration")),
        (6, ("chain", "chains")),
    ]


def test_a_list_of_axes_that_is_allowed_is_still_there() -> None:
    for file, name in LISTS_OF_AXES:
        assert name in lines_of_constants(ast.parse((PACKAGE / file).read_text())), (file, name)


def test_the_name_of_an_axis_is_written_in_one_place() -> None:
    """How a field is spelled in files and on the command line is `model.axis` to say."""
    spelled = re.compile(r"""\.replace\((["'])([_-])\1, \1(?!\2)[ _-]\1\)""")
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in SOURCES.values()}
    found = {file for file, text in files.items() if spelled.search(text)}
    assert found == {"model/axis.py", "observe/perf.py"}  # the other one spells perf's events


# --- sizes -----------------------------------------------------------------------------------


TABLES = {"TABLE", *(folder.upper() for folder in DRIVERS)}
FINDERS = {"find_program", "program_path", "traffic_program"}
PATCHES = {"setattr", "setitem", "delattr", "delitem"}


def patched_tables(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return where a test patches a table, the global of a module that holds one, or what finds a
    program, with its line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in PATCHES:
            continue
        for value in node.args[:2]:
            word = value.value if isinstance(value, ast.Constant) else ast.unparse(value)
            if str(word).rpartition(".")[2] in TABLES | FINDERS:
                yield node.lineno, str(word)


def test_no_test_patches_a_table_or_what_finds_a_program() -> None:
    """`Table.replaced_by` hands in another table, to all who use it, and an environment variable
    names another program (`machine.programs.program_variable`)."""
    found = {
        f"{file.relative_to(REPOSITORY)}:{line}": word
        for file in sorted((REPOSITORY / "tests").rglob("*.py"))
        for line, word in patched_tables(ast.parse(file.read_text()))
    }
    assert found == {}


def test_a_patched_table_is_found() -> None:
    source = (
        "patch.setattr(module, 'SWITCHES', table)\n"
        "patch.setattr('switchmark.environments.TABLE', table)\n"
        "patch.setitem(ENGINES, 'null', other)\n"
        "patch.setattr(vm, 'BOOT_S', 1.0)\n"
        "patch.setattr(vm, 'traffic_program', lambda: 'x')\n"
    )
    assert list(patched_tables(ast.parse(source))) == [
        (1, "SWITCHES"),
        (2, "switchmark.environments.TABLE"),
        (3, "ENGINES"),
        (5, "traffic_program"),
    ]


def test_the_anchor_needs_nothing_but_the_interpreter() -> None:
    """A user without privileges may not be able to read what is installed beside the package."""
    script = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import switchmark.runs.anchor"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", script], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
