"""This module gives the parts of a layout CPUs of their hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.model.cpus import Cpu
from switchmark.model.test import Test
from switchmark.path.layout import Layout
from switchmark.path.placement import AUTO, Placement, place
from switchmark.path.resolve import may_share_process
from switchmark.path.roles import cpu_users_of
from switchmark.switches.across import far_switch


def place_parts(
    test: Test,
    layout: Layout,
    cpus: Sequence[Cpu],
    theirs: Sequence[Cpu] = (),
    nodes: Sequence[Mapping[str, int]] = ({}, {}),
) -> Placement:
    """Return the placement of a test on the CPUs of its host; of two machines, `theirs` are those
    of the second. `nodes` are the NUMA nodes of NICs, by name, of each."""
    users = cpu_users_of(layout)
    if not theirs:
        may_share = test.placement == AUTO and may_share_process(test)
        placed = place(users, cpus, test.placement, may_share=may_share, nodes=nodes[0])
    else:
        far = layout.wirings[1].at.host
        there = {far_switch(far), *(p.id for p in layout.parts if layout.nodes[p.id].host == far)}
        ours = [user for user in users if user.id not in there]
        others = [user for user in users if user.id in there]
        other = place(others, theirs, test.placement, nodes=nodes[1])
        placed = place(ours, cpus, test.placement, nodes=nodes[0]).beside(other)
    return replace(placed, doubts=(*placed.doubts, *layout.between.doubts))
