"""This module gives the parts of a layout CPUs of their hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.layout.layout import Layout
from switchmark.layout.resolve import may_share_process
from switchmark.layout.roles import cpu_users_of
from switchmark.machine.cpus import Cpu
from switchmark.machine.placement import AUTO, Placement, place
from switchmark.model.spec import Test
from switchmark.switches.across import far_switch

__all__ = ["place_parts"]


def place_parts(
    test: Test, layout: Layout, cpus: Sequence[Cpu], theirs: Sequence[Cpu] = ()
) -> Placement:
    """Return the placement of a test on the CPUs of its host; of two machines, `theirs` are those
    of the second."""
    users = cpu_users_of(layout)
    may_share = test.placement == AUTO and may_share_process(test)
    if not theirs:
        placement = place(users, cpus, test.placement, may_share=may_share)
        return replace(placement, doubts=(*placement.doubts, *layout.between.doubts))
    far = layout.wirings[1].at.host
    there = {part.id for part in layout.parts if layout.nodes[part.id].host == far}
    there.add(far_switch(far))
    near = place([user for user in users if user.id not in there], cpus, test.placement)
    other = place([user for user in users if user.id in there], theirs, test.placement)
    return replace(
        near,
        pins={user.id: {**near.pins, **other.pins}[user.id] for user in users},
        doubts=tuple(dict.fromkeys((*near.doubts, *other.doubts, *layout.between.doubts))),
        unpinned=near.unpinned | other.unpinned,
    )
