"""The axes of what the frames of a test are like, and of when they come: those that came later.

Their records are as those of the other axes (`model.spec`), which has all of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from switchmark.model.axis import Axis
from switchmark.model.set_up import SetUp


class Sent(SetUp):
    """What is sent is a set-up's, and is as these axes say."""

    ip_version: Annotated[
        Literal["4", "6"],
        Axis(
            "path",
            "IP of every frame; in a tunnel of the one inside",
            parse=str,
            asked_as="load",
            later=True,
        ),
    ] = "4"
    encapsulation: Annotated[
        Literal["auto", "none", "vlan", "vxlan", "vxlan6"],
        Axis(
            "path",
            "what frames are in: a VLAN (auto: if --vlan says which), a VXLAN tunnel of IPv4 or 6",
            asked_as="load",
            later=True,
        ),
    ] = "auto"
    flow_order: Annotated[
        Literal["sequential", "random", "zipf"],
        Axis(
            "path",
            "which flow the next frame is of: in turn, any, or any by Zipf's law (the k-th 1/k)",
            asked_as="load",
            later=True,
        ),
    ] = "sequential"
    arrivals: Annotated[
        Literal["burst", "even", "poisson", "on-off"],
        Axis(
            "load",
            "how frames come at a rate: bursts, singly and evenly, by chance, in trains of 4 times "
            "the rate",
            later=True,
        ),
    ] = "burst"

    @property
    def tunnel(self) -> Literal["4", "6"] | None:
        """Return the IP of the tunnel that frames are in; None if they are in none."""
        of: dict[str, Literal["4", "6"]] = {"vxlan": "4", "vxlan6": "6"}
        return of.get(self.encapsulation)

    @property
    def outer_ip_version(self) -> Literal["4", "6"]:
        """Return the IP of what a switch sees: of the tunnel, if frames are in one."""
        return self.tunnel or self.ip_version
