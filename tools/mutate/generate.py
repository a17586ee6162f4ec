"""This module generates the mutants of a file: each mutation that mutmut's operators make, wherever
in the file. mutmut alone leaves out decorated functions and what runs at import.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src/switchmark"
BUILD = REPOSITORY / "build/mutate"

VERSION = 1
"""Of the form in which mutants are kept."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a file."""

    path: str
    """The file, from `src/switchmark`."""
    start: int
    end: int
    """The bytes that are replaced."""
    text: str
    """What replaces them."""
    lines: tuple[int, int]
    """The first and last line of the statement around it, or of its head."""
    function: str
    """The qualified name of the function that it is in; empty if it is executed at import."""
    at_import: bool
    """Whether it is executed at import, and not in a function or lambda."""
    key: str
    """What stays the same as long as the function and the mutation do."""

    def apply(self, source: bytes) -> bytes:
        """Return the source of the file with this change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    @cached_property
    def change(self) -> tuple[str, str]:
        """Return the lines that differ, before and after, each side as one line."""
        source = source_of(self.path)
        before, after = source.decode().splitlines(), self.apply(source).decode().splitlines()
        gone: list[str] = []
        new: list[str] = []
        for line in difflib.unified_diff(before, after, n=0, lineterm=""):
            if line[:1] in "-+" and line[:3] not in ("---", "+++"):
                (gone if line[0] == "-" else new).append(line[1:].strip())
        return " ".join(gone), " ".join(new)

    @property
    def room(self) -> str:
        """Return the folder of the file."""
        return self.path.split("/")[0]


@cache
def source_of(path: str) -> bytes:
    """Return the content of a file of the package."""
    return (PACKAGE / path).read_bytes()


class _Everywhere(MutationVisitor):
    """The visitor of mutmut, which goes into decorated functions, too."""

    METADATA_DEPENDENCIES = (  # type: ignore[assignment]
        *MutationVisitor.METADATA_DEPENDENCIES,
        ByteSpanPositionProvider,
    )

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self.spans: list[tuple[int, int] | None] = []

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        return not isinstance(node, cst.FunctionDef) and super()._skip_node_and_children(node)

    def _create_mutations(self, node: cst.CSTNode) -> None:
        super()._create_mutations(node)
        span = self.get_metadata(ByteSpanPositionProvider, node, None)
        span_ = None if span is None else (span.start, span.start + span.length)
        self.spans.extend([span_] * (len(self.mutations) - len(self.spans)))


def mutants_of(path: str) -> list[Mutant]:
    """Return all mutants of a file of the package, kept in the build folder as long as it stays."""
    source = source_of(path)
    digest = hashlib.sha256(f"{VERSION}{path}".encode() + source).hexdigest()[:16]
    cache = BUILD / "mutants" / f"{digest}.pickle"
    if cache.exists():
        mutants: list[Mutant] = pickle.loads(cache.read_bytes())
        return mutants
    mutants = list(_generate(path, source))
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(pickle.dumps(mutants))
    return mutants


def _generate(path: str, source: bytes) -> Iterator[Mutant]:
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Everywhere()
    module = wrapper.visit(visitor)
    scopes = Scopes(source)
    texts: set[str] = set()
    for mutation, span in zip(visitor.mutations, visitor.spans, strict=True):
        start, end, text = _replacement(module, mutation, span, source)
        line = source.count(b"\n", 0, span[0] if span else start) + 1
        column = start - (source.rfind(b"\n", 0, start) + 1)
        scope = scopes.around(line, column)
        content = b"\n".join(source.splitlines()[scope.first - 1 : scope.last])
        offset = start - _offset(source, scope.first)
        identity = f"{path} {scope.function} {offset} {end - start} {text}".encode()
        key = hashlib.sha256(identity + content).hexdigest()[:16]
        if key not in texts:
            texts.add(key)
            yield Mutant(
                path, start, end, text, scope.statement, scope.function, scope.at_import, key
            )


def _replacement(
    module: cst.Module, mutation: Mutation, span: tuple[int, int] | None, source: bytes
) -> tuple[int, int, str]:
    """Return the first byte and the end of what is replaced, and the text in place of it."""
    node, new = mutation.original_node, mutation.mutated_node
    if span is not None and not isinstance(node, cst.Match):
        text = module.code_for_node(new)
        if isinstance(node, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
            text = f" {text.strip()} "
        try:
            ast.parse(source[: span[0]] + text.encode() + source[span[1] :])
            return *span, text
        except SyntaxError:
            pass
    whole = deep_replace(module, node, new)
    assert isinstance(whole, cst.Module)
    mutated = whole.code.encode()
    same = _common(source, mutated)
    behind = _common(source[same:][::-1], mutated[same:][::-1])
    return same, len(source) - behind, mutated[same : len(mutated) - behind].decode()


def _common(one: bytes, other: bytes) -> int:
    """Return the number of bytes with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _offset(source: bytes, line: int) -> int:
    return sum(len(line) for line in source.splitlines(keepends=True)[: line - 1])


@dataclass(frozen=True)
class Scope:
    """What a place of a file belongs to."""

    statement: tuple[int, int]
    function: str
    first: int
    last: int
    """The lines of the function, or of the statement at the top."""
    at_import: bool


class Scopes:
    """The functions and statements of a file."""

    def __init__(self, source: bytes) -> None:
        self.tree = ast.parse(source)
        self.functions: dict[str, tuple[int, int]] = {}
        """The first and last line of each function, with its decorators, by qualified name."""
        self._statements: list[tuple[int, int, str, ast.stmt]] = []
        self._lambdas = [node for node in ast.walk(self.tree) if isinstance(node, ast.Lambda)]
        self._walk(self.tree.body, "", "")

    def _walk(self, body: list[ast.stmt], function: str, prefix: str) -> None:
        for node in body:
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.ExceptHandler, ast.match_case)):
                    inner.extend(child.body)
            last = node.end_lineno or node.lineno
            if inner:
                heads = [inner_node for inner_node in inner if inner_node.lineno > node.lineno]
                last = min((self._first(head) for head in heads), default=node.lineno + 1) - 1
            self._statements.append((self._first(node), last, function, node))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = prefix + node.name
                self.functions[name] = (self._first(node), node.end_lineno or node.lineno)
                self._walk(node.body, name, f"{name}.<locals>.")
            elif isinstance(node, ast.ClassDef):
                self._walk(node.body, function, f"{prefix}{node.name}.")
            else:
                self._walk(inner, function, prefix)

    @staticmethod
    def _first(node: ast.stmt) -> int:
        decorators = getattr(node, "decorator_list", [])
        lines: list[int] = [decorator.lineno for decorator in decorators]
        return min([node.lineno, *lines])

    def around(self, line: int, column: int) -> Scope:
        """Return what a place belongs to."""
        around = [
            statement for statement in self._statements if statement[0] <= line <= statement[1]
        ]
        if not around:  # the head of an `except`, `case`, `else`
            around = [max(statement for statement in self._statements if statement[0] <= line)]
            around = [(line, line, *span_[2:]) for span_ in around]
        first, last, function, node = min(around, key=lambda item: item[1] - item[0])
        in_lambda = any(
            (item.body.lineno, item.body.col_offset)
            <= (line, column)
            < (item.body.end_lineno or 0, item.body.end_col_offset or 0)
            for item in self._lambdas
        )
        outer = function.split(".<locals>.")[0]
        ends = self.functions[outer] if outer else (first, node.end_lineno or last)
        return Scope((first, last), outer, *ends, not function and not in_lambda)
