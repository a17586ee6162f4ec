"""What is to be built for a test on this host, and beside it: cores, memory, NICs, noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import Unavailable, UsageError
from switchmark.layout.assembly import build, construct
from switchmark.layout.layout import Layout, lay_out
from switchmark.layout.resolve import may_share_process
from switchmark.layout.roles import tenants_of
from switchmark.machine.cgroups import cpu_root
from switchmark.machine.cpus import format_cpus, read_cpus
from switchmark.machine.host import Host, LocalHost
from switchmark.machine.hugepages import can_reserve
from switchmark.machine.nics import lend
from switchmark.machine.pci import VFIO, Device, find_device, hand_over
from switchmark.machine.placement import AUTO, Placement, place
from switchmark.machine.script import describe
from switchmark.machine.workspace import default_base
from switchmark.metrics.balance import AT_SWITCH
from switchmark.model.plan import Plan, Reserve
from switchmark.model.spec import Test
from switchmark.model.topology import mac_address
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.noises.base import Site
from switchmark.switches import TABLE as SWITCHES

__all__ = [
    "environments_of",
    "find_nics",
    "followed",
    "lend_nics",
    "noise_beside",
    "plan",
    "prepare",
]

_PLAN_PREFIX = "smPLAN"
_NOISE_S = 60.0


def plan(test: Test, *others: Test) -> list[str]:
    """The steps of a test, and of others that share its path, as shell lines; touches nothing,
    needs no privileges.

    The placement is that of this machine, the switch's mode what its probe finds, if it does.
    """
    layout, placement = prepare(
        test,
        _PLAN_PREFIX,
        f"{default_base()}/{_PLAN_PREFIX}",
        _mode(SWITCHES[test.switch].probe),
        {name: _mode(ENVIRONMENTS[name].probe) for name in environments_of(test)},
        _reservable,
    )
    seats = [f"#   {part}: {_seat_in_words(placement, part)}" for part in placement.seats]
    doubts = [f"# doubts: {', '.join(placement.doubts)}"] if placement.doubts else []
    try:
        lent = describe(lend_nics(LocalHost(), layout, find_nics(LocalHost(), layout)), inside)
    except (Unavailable, UsageError) as error:
        lent = _impossible(error)
    return [
        f"# placement: {placement.policy}{' (auto)' * (test.placement == AUTO)}",
        *seats,
        *doubts,
        *lent,
        *describe(build(layout), inside),
        *(
            line
            for each in {each.noise: each for each in (test, *others)}.values()
            for line in _noise_lines(replace(layout, test=each), placement)
        ),
    ]


def _noise_lines(layout: Layout, placement: Placement) -> list[str]:
    """The noise beside a test as shell lines, or why this machine cannot make it."""
    try:
        return describe(noise_beside(layout, placement), inside)
    except (Unavailable, UsageError) as error:
        return _impossible(error)


def _impossible(error: Exception) -> list[str]:
    return [f"# not possible here: {line}" for line in str(error).splitlines() if line]


def lend_nics(host: Host, layout: Layout, devices: Mapping[str, Device]) -> Plan:
    """The NICs that the user names, made ready for the run. UsageError or Unavailable where they
    are in use, or this host cannot lend them."""
    steps: Plan = ()
    for port in layout.wiring.ports:
        for name, router in ((port.nic, True), (port.nic_peer, False)):
            if name and not port.pci:
                steps += lend(host, name, mac_address(port.index, router=router))
    if devices:
        driver = VFIO if layout.test.driver == "auto" else layout.test.driver
        steps += hand_over(host, list(devices.values()), driver, layout.wiring.memory)
    return steps


def find_nics(host: Host, layout: Layout) -> Mapping[str, Device]:
    """The NICs that the user names by PCI address, by place. UsageError where one is not there."""
    return {
        place: find_device(host, name)
        for port in layout.wiring.ports
        for place, name in ((f"{port.id}{AT_SWITCH}", port.nic), (port.id, port.nic_peer))
        if port.pci and name
    }


def environments_of(test: Test) -> tuple[str, ...]:
    """Those of its functions and of its switch, each once."""
    return tuple(dict.fromkeys((test.environment, test.switch_environment)))


def prepare(
    test: Test,
    prefix: str,
    run_dir: str,
    mode: str | None,
    modes: Mapping[str, str | None],
    can: Callable[[Plan], bool],
) -> tuple[Layout, Placement]:
    """The layout with its switch on the cores that the placement gives it. `modes` are those of
    the probed environments. `can` says whether steps can be carried out: memory that is up to us
    is hugepages if all of them can be had."""
    layout = lay_out(test, prefix=prefix, run_dir=run_dir, mode=mode)
    cpus = read_cpus()
    placement = _placed(test, layout)
    used = {cpu for seat in placement.seats.values() for cpu in seat.cpus}
    draw = partial(
        lay_out,
        test,
        prefix=prefix,
        run_dir=run_dir,
        policy=placement.policy,
        mode=mode,
        cores=placement.seats["switch"].cpus,
        node=min((cpu.node for cpu in cpus if cpu.id in used), default=0),
        cgroups=cpu_root(LocalHost()),
        modes=modes,
        seats={part: seat.cpus for part, seat in placement.seats.items()},
    )
    layout = draw(memory="hugepages")
    pages = tuple(step for step in construct(layout) if isinstance(step, Reserve))
    if test.memory == "auto" and pages and not can(pages):
        layout = draw(memory="no-huge")
    return layout, placement


def followed(test: Test, mode: str | None) -> str:
    """The placement that this host makes of the one asked for. `mode` is that of the switch."""
    return _placed(test, lay_out(test, prefix=_PLAN_PREFIX, run_dir="/run", mode=mode)).policy


def _placed(test: Test, layout: Layout) -> Placement:
    may_share = test.placement == AUTO and may_share_process(test)
    return place(tenants_of(layout), read_cpus(), test.placement, may_share=may_share)


def noise_beside(layout: Layout, placement: Placement) -> Plan:
    """The noise beside a test's trials, on its CPUs."""
    test, wiring = layout.test, layout.wiring
    if test.noise is None:
        return ()
    kind, where = parse_noise(test.noise)
    if isinstance(where, str):
        seats = placement.seats
        of_switch = where == "switch"
        cpus = {cpu for who in seats if (who == "switch") == of_switch for cpu in seats[who].cpus}
        if not cpus:
            raise UsageError(
                f"noise {test.noise}: no CPU is set apart for the {where} here",
                hint=f"--noise {kind}:0",
                axes=("noise",),
            )
        where = tuple(sorted(cpus))
    allowed = [cpu.id for cpu in read_cpus()]
    if outside := sorted(set(where) - set(allowed)):
        raise UsageError(
            f"noise {test.noise}: there is no CPU {format_cpus(outside)} here",
            hint=f"--noise {kind}:{allowed[0]}",
        )
    asked_s = (test.warmup + test.duration) * test.repeat
    site = Site(
        prefix=wiring.prefix,
        run_dir=wiring.run_dir,
        cpus=where,
        workers=len(where or allowed),
        seconds=_NOISE_S + 2 * asked_s,
    )
    return NOISES[kind].start(site)


def _mode(probe: Callable[[Host], Version]) -> str | None:
    """The mode that a probe of this machine finds, if it does."""
    try:
        return probe(LocalHost()).mode
    except Unavailable:
        return None


def _reservable(steps: Plan) -> bool:
    """Whether pages can be reserved on their nodes at all, as far as can be told by looking."""
    return all(can_reserve(LocalHost(), s.node) for s in steps if isinstance(s, Reserve))


def _seat_in_words(placement: Placement, part: str) -> str:
    seat = placement.seats[part]
    if not seat.cpus:
        return "no CPU of its own" if part == "switch" else "any CPU"
    cpus = ", ".join(map(str, seat.cpus))
    return f"CPU {cpus}, yielding" if seat.yield_ else f"CPU {cpus}"
