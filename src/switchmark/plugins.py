"""Tables of implementations: ours, and third-party ones by entry point, checked by contract."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from switchmark.errors import Unavailable, UsageError

__all__ = ["Table", "check_contract", "load_plugins"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


class Table(Mapping[str, _T]):
    """The implementations of a contract, by name. `unusable` says of plug-ins that are none why
    not, by the names of their entry points."""

    def __init__(self, members: Mapping[str, _T], unusable: Mapping[str, Unavailable]) -> None:
        self._members = MappingProxyType(dict(members))
        self.unusable = MappingProxyType(dict(unusable))

    def __getitem__(self, name: str) -> _T:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def check_contract(found: Any, contract: type[Any], origin: str) -> None:
    """UsageError if `found` lacks a member of the protocol `contract`, or takes other arguments.

    `origin` names the plug-in in the message.
    """
    members = {
        name: member
        for name, member in vars(contract).items()
        if not name.startswith("_") and inspect.isfunction(member)
    }
    names = {name for name in contract.__annotations__ if not name.startswith("_")}
    names |= {name for name, member in vars(contract).items() if isinstance(member, property)}
    for name in sorted(names | set(members)):
        if not hasattr(found, name):
            raise UsageError(f"{origin} is no {contract.__name__}: it has no '{name}'")
    for name, member in members.items():
        if not callable(getattr(found, name)):
            raise UsageError(f"{origin} is no {contract.__name__}: '{name}' is no method")
        want = [p for p in inspect.signature(member).parameters if p != "self"]
        have = list(inspect.signature(getattr(found, name)).parameters)
        if want != have:
            raise UsageError(
                f"{origin} is no {contract.__name__}: {name}({', '.join(have)}) should be "
                f"{name}({', '.join(want)})"
            )


def load_plugins(group: str, contract: type[_T], own: Iterable[_T]) -> Table[_T]:
    """The table of a plural folder: `own` first, then the entry points of `group`.

    One that cannot be imported, does not fit the contract, or takes a name already there is
    unusable, with the reason: it keeps nobody from what else is there.
    """
    table: dict[str, _T] = {one.name: one for one in own}
    unusable: dict[str, Unavailable] = {}
    for point in entry_points(group=group):
        origin = f"the plug-in {point.value}"
        try:
            found = _imported(point, origin)
            check_contract(found, contract, origin)
            if not isinstance(found.name, str):
                raise UsageError(f"{origin} has a name that is no text: {found.name!r}")
            if found.name in table:
                raise UsageError(f"{origin} takes the name '{found.name}', which is taken")
        except UsageError as error:
            dist = getattr(point, "dist", None)
            remove = f": pip uninstall {dist.name}" if dist else ""
            unusable[point.name] = Unavailable(error.message, hint=f"mend it or remove it{remove}")
        else:
            table[found.name] = found
    return Table(table, unusable)


def _imported(point: EntryPoint, origin: str) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{origin} cannot be imported: {reason}") from error
