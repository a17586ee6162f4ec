"""This module makes the tables of implementations: the project's own, and third-party ones by entry
point, checked by contract."""

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

_MISSPELT = 0.85  # how like two names are of which one is meant for the other


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


class Table(Mapping[str, _T]):
    """A table holds the implementations of a contract, by name. `unusable` says of plug-ins that
    are none why not, by the names of their entry points."""

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
        """Return why a name cannot be used that the table does not have; None for one that is
        simply not known."""
        return self.unusable.get(name)

    @contextmanager
    def replaced_by(self, other: Table[_T]) -> Iterator[None]:
        """Put what `other` holds in the place of this table's members while the block lasts.

        So a test hands in drivers of its own, and no module that uses the table has to be known.
        """
        before = self._members, self.unusable
        self._members, self.unusable = other._members, other.unusable
        try:
            yield
        finally:
            self._members, self.unusable = before


def check_contract(candidate: Any, contract: type[Any], origin: str) -> None:
    """Raise UsageError if `candidate` is not what `contract` says, with all that is missing or
    extra.

    A method may name its arguments as it likes and have more or fewer that are optional: it must
    take those that the contract requires, and require no other. `origin` names the plug-in in the
    message.
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
    """Return the members that it lacks. A class that derives from the contract lacks only what has
    no default."""
    lacks = sorted(name for name in names if not hasattr(candidate, name))
    if lacks:
        yield f"it has no {', '.join(map(repr, lacks))}"
    if any(name in vars(contract) for name in lacks) and isinstance(contract, ABCMeta):
        if not getattr(contract, "_is_protocol", False):
            yield f"one that derives from {contract.__module__}.{contract.__name__} has defaults"


def _of_another_kind(candidate: Any, contract: type[Any]) -> Iterator[str]:
    """Return the values that should be of a class of this project's, and are not."""
    for name, asked in get_type_hints(contract).items():
        hint = get_origin(asked) or asked
        ours = isinstance(hint, type) and hint.__module__.startswith(f"{__package__}.")
        if ours and hasattr(candidate, name) and not isinstance(getattr(candidate, name), hint):
            yield f"'{name}' is a {type(getattr(candidate, name)).__name__}, not a {hint.__name__}"


def _misfit(candidate: Any, name: str, method: Callable[..., Any]) -> str | None:
    """Return why a method cannot be called as the contract's is; None where it can, or is
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
        wanted = ", ".join(p.name for p in want)
        return f"{name}({', '.join(have.parameters)}) should be {name}({wanted})"
    return None


def _misspelt(candidate: Any, contract: type[Any], names: set[str]) -> Iterator[str]:
    """Return the members that nobody would ask for, where a default stands in for what they are to
    be."""
    if contract not in type(candidate).__mro__:
        return
    for extra in sorted(set(dir(candidate)) - set(dir(contract)) - names):
        meant = difflib.get_close_matches(extra, names, 1, _MISSPELT)
        if meant and not extra.startswith("_"):
            yield f"it has '{extra}', which is nothing to a {contract.__name__}: '{meant[0]}'?"


def load_plugins(group: str, contract: type[_T], own: Iterable[_T]) -> Table[_T]:
    """Return the table of a plural folder: `own` first, then the entry points of `group`.

    One that cannot be imported, does not fit the contract, or takes a name already there is
    unusable, with the reason: it keeps nobody from what else is there.
    """
    table: dict[str, _T] = {one.name: one for one in own}
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
    return Table(table, unusable)


def _imported(point: EntryPoint, origin: str) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{origin} cannot be imported: {reason}") from error
