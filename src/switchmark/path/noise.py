"""This module decides which noise runs beside a test, and on which CPUs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu, format_cpus
from switchmark.model.plan import Plan
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.noises.base import Site
from switchmark.path.path import Path
from switchmark.path.placement import Placement


def noise_beside(path: Path, placement: Placement, cpus: Sequence[Cpu]) -> Plan:
    """Return the noise beside a test's trials, on its CPUs; `cpus` are those that the host
    allows."""
    test, wiring = path.test, path.wiring
    if test.noise is None:
        return ()
    kind, where = parse_noise(test.noise)
    if isinstance(where, str):
        pins = placement.pins
        of_switch = where == "switch"
        taken = {cpu for who in pins if (who == "switch") == of_switch for cpu in pins[who].cpus}
        if not taken:
            raise UsageError(
                f"noise {test.noise}: no CPU is set apart for the {where} here",
                hint=f"--noise {kind}:0",
                axes=("noise",),
            )
        where = tuple(sorted(taken))
    allowed = [cpu.id for cpu in cpus]
    if outside := sorted(set(where) - set(allowed)):
        raise UsageError(
            f"noise {test.noise}: there is no CPU {format_cpus(outside)} here",
            hint=f"--noise {kind}:{allowed[0]}",
        )
    site = Site(
        prefix=wiring.prefix,
        run_dir=wiring.run_dir,
        cpus=where,
        workers=len(where or allowed),
    )
    return NOISES[kind].start(site)
