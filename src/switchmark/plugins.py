"""Tables of implementations: ours, and third-party ones by entry point, checked by contract."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from switchmark.errors import UsageError

__all__ = ["check_contract", "load_plugins"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


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
        want = [p for p in inspect.signature(member).parameters if p != "self"]
        have = list(inspect.signature(getattr(found, name)).parameters)
        if want != have:
            raise UsageError(
                f"{origin} is no {contract.__name__}: {name}({', '.join(have)}) should be "
                f"{name}({', '.join(want)})"
            )


def load_plugins(group: str, contract: type[_T], own: Iterable[_T]) -> Mapping[str, _T]:
    """The table of a plural folder: `own` first, then the entry points of `group`.

    UsageError names the plug-in, the member and the signature of one that does not fit, or
    that takes a name already there.
    """
    table: dict[str, _T] = {one.name: one for one in own}
    for point in entry_points(group=group):
        origin = f"the plug-in {point.value}"
        found = point.load()
        check_contract(found, contract, origin)
        if found.name in table:
            raise UsageError(f"{origin} takes the name '{found.name}', which is taken")
        table[found.name] = found
    return MappingProxyType(table)
