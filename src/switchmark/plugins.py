"""Tables of implementations: the project's own, and third-party plug-ins from entry points. The
module checks every implementation against its contract."""

from __future__ import annotations

import difflib
import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, get_origin, get_type_hints

from switchmark.errors import Unavailable, UsageError

_MISSPELT = 0.85  # the similarity above which a name counts as a misspelling of another


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


class Table(Mapping[str, _T]):
    """A table of the implementations of a contract, by name. `unusable` maps the entry points of
    rejected plug-ins to the reasons."""

    def __init__(self, members: Mapping[str, _T], unusable: Mapping[str, Unavailable]) -> None:
        self._members = MappingProxyType(dict(members))
        self.unusable = MappingProxyType(dict(unusable))

    def __getitem__(self, name: str) -> _T:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def why_not(self, name: str) -> UsageError | Unavailable | None:
        """Return why a name that is missing from the table cannot be used; None if the name is
        unknown."""
        return self.unusable.get(name)

    @contextmanager
    def replaced_by(self, other: Table[_T]) -> Iterator[None]:
        """Replace this table's members with those of `other` for the duration of the block.

        Tests use this to provide their own drivers, without changes to the modules that use the
        table.
        """
        before = self._members, self.unusable
        self._members, self.unusable = other._members, other.unusable
        try:
            yield
        finally:
            self._members, self.unusable = before


def check_contract(candidate: Any, contract: type[Any], origin: str) -> None:
    """Raise UsageError if `candidate` does not fulfil `contract`, with all missing, extra and wrong
    members.

    A method may choose the names of its arguments and the number of optional arguments. It must
    accept the required arguments of the contract, and must not require others. `origin` names the
    plug-in in the message.
    """
    methods = {
        name: member
        for name, member in vars(contract).items()
        if not name.startswith("_") and inspect.isfunction(member)
    }
    names = {name for name in contract.__annotations__ if not name.startswith("_")}
    names |= {name for name, member in vars(contract).items() if isinstance(member, property)}
    names |= methods.keys()
    wrong = [
        *_missing(candidate, contract, names),
        *_of_another_kind(candidate, contract),
        *(_misfit(candidate, name, method) for name, method in methods.items()),
        *_misspelt(candidate, contract, names),
    ]
    if any(wrong):
        reasons = "; ".join(filter(None, wrong))
        raise UsageError(f"{origin} is no {contract.__name__}: {reasons}")


def _missing(candidate: Any, contract: type[Any], names: Iterable[str]) -> Iterator[str]:
    """Yield the members that the candidate lacks. A subclass of the contract lacks only members
    without a default."""
    lacks = sorted(name for name in names if not hasattr(candidate, name))
    if lacks:
        yield f"it has no {', '.join(map(repr, lacks))}"
    if any(name in vars(contract) for name in lacks) and isinstance(contract, ABCMeta):
        if not getattr(contract, "_is_protocol", False):
            yield f"one that derives from {contract.__module__}.{contract.__name__} has defaults"


def _of_another_kind(candidate: Any, contract: type[Any]) -> Iterator[str]:
    """Yield the values with the wrong class, for members whose class belongs to this project."""
    for name, annotation in get_type_hints(contract).items():
        hint = get_origin(annotation) or annotation
        is_ours = isinstance(hint, type) and hint.__module__.startswith(f"{__package__}.")
        if is_ours and hasattr(candidate, name) and not isinstance(getattr(candidate, name), hint):
            yield f"'{name}' is a {type(getattr(candidate, name)).__name__}, not a {hint.__name__}"


def _misfit(candidate: Any, name: str, method: Callable[..., Any]) -> str | None:
    """Return why a method does not accept the contract's call; None if it does, or if it is
    missing."""
    if not hasattr(candidate, name):
        return None
    theirs = getattr(candidate, name)
    if not callable(theirs):
        return f"'{name}' is no method"
    want = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    have = inspect.signature(theirs)
    needed = [p for p in want if p.default is p.empty]
    try:
        have.bind(
            *(p.name for p in needed if p.kind is not p.KEYWORD_ONLY),
            **{p.name: p.name for p in needed if p.kind is p.KEYWORD_ONLY},
        )
    except TypeError:
        parameters = ", ".join(p.name for p in want)
        return f"{name}({', '.join(have.parameters)}) should be {name}({parameters})"
    return None


def _misspelt(candidate: Any, contract: type[Any], names: set[str]) -> Iterator[str]:
    """Yield the extra members that look like misspellings of optional members of the contract."""
    if contract not in type(candidate).__mro__:
        return
    for extra in sorted(set(dir(candidate)) - set(dir(contract)) - names):
        meant = difflib.get_close_matches(extra, names, 1, _MISSPELT)
        if meant and not extra.startswith("_"):
            yield f"it has '{extra}', which is nothing to a {contract.__name__}: '{meant[0]}'?"


def load_plugins(group: str, contract: type[_T], built_in: Iterable[_T]) -> Table[_T]:
    """Return the table of a plural folder: `built_in` first, then the entry points of `group`.

    A plug-in is unusable if its import fails, it does not fit the contract, or its name is taken.
    The table records the reason, and all other members stay usable.
    """
    table: dict[str, _T] = {one.name: one for one in built_in}
    unusable: dict[str, Unavailable] = {}
    for point in entry_points(group=group):
        origin = f"the plug-in {point.value}"
        try:
            loaded = _imported(point, origin)
            check_contract(loaded, contract, origin)
            if not isinstance(loaded.name, str):
                raise UsageError(f"{origin} has a name that is no text: {loaded.name!r}")
            if loaded.name in table:
                raise UsageError(f"{origin} takes the name '{loaded.name}', which is taken")
        except UsageError as error:
            dist = getattr(point, "dist", None)
            remove = f": pip uninstall {dist.name}" if dist else ""
            unusable[point.name] = Unavailable(error.message, hint=f"mend it or remove it{remove}")
        else:
            table[loaded.name] = loaded
    _NAMES.setdefault(group, tuple(table))
    return Table(table, unusable)


_NAMES: dict[str, tuple[str, ...]] = {}
"""The names of each group when its folder was imported."""


def names_in(group: str) -> tuple[str, ...]:
    """Return the names of a group's table in order, for callers that must not import its
    implementations. Raise LookupError if nobody has loaded the table."""
    if group not in _NAMES:
        raise LookupError(f"the table {group} is not loaded")
    return _NAMES[group]


def _imported(point: EntryPoint, origin: str) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{origin} cannot be imported: {reason}") from error
