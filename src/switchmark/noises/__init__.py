"""The table of noises: to add a noise, add its file and one line here."""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.cpus import parse_cpus
from switchmark.noises import stress, web
from switchmark.noises.base import Noise
from switchmark.plugins import Table, load_plugins

TABLE: Table[Noise] = load_plugins(
    "switchmark.noises",
    Noise,  # type: ignore[type-abstract]
    (stress.CPU, stress.MEMORY, stress.CACHE, stress.IO, web.WEB),
)

CPUS_OF_PARTS = ("switch", "functions")
"""Names for the CPUs that a placement gives to these parts."""


def parse_noise(text: str) -> tuple[str, str | tuple[int, ...]]:
    """Return the kind of `KIND[:CPUS]`, and its CPUs: a name from CPUS_OF_PARTS, or numbers; empty
    means that the kernel chooses. UsageError for any other syntax."""
    kind, colon, cpus = text.partition(":")
    if kind not in TABLE:
        raise UsageError(
            f"there is no noise '{kind}'; there are: {', '.join(TABLE)}", hint="--noise cpu:0+1"
        )
    if not colon:
        return kind, ()
    return kind, cpus if cpus in CPUS_OF_PARTS else parse_cpus(cpus.replace("+", ","))
