"""The sub-flows of a test: flows that frames cannot number, because there are too many or because
they have no fixed order. This module is pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address

from switchmark.engines.base import Engine
from switchmark.model.objects import Message
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test

_ADDRESSES = IPv4Address("10.0.0.0")
_MACS = 0x800000
_MOST = {"ip": 2**24, "mac": 2**23}
"""The maximum number of sub-flows over all senders, for header fields with too few values for all
allowed flows."""


def has_subflows(test: Test) -> bool:
    """Return whether frames with the same flow number have different headers."""
    return test.flows > 1 and (test.flow_order != "sequential" or test.flow_numbers < test.flows)


def subflows_of(test: Test, first: int, *, several: int, answers: bool) -> Message:
    """Return the sub-flows of `several` flow numbers of a sender, from number `first` on. Every
    queue or core has a share of the sub-flows, and every chain has all of them."""
    shares = test.flow_numbers
    per_sender = test.flows // shares
    return {
        "count": per_sender,
        "first": per_sender * first if shares > 1 else 0,
        "step": per_sender if shares > 1 and several > 1 else 0,
        "by": test.flows_by,
        "order": test.flow_order,
        "seed": test.seed,
        "answered": answers,
    }


def flow_run(test: Test, engine: Engine) -> int:
    """Return the number of consecutive frames that a sender sends of a flow before the next flow.
    It is 1, or a power of 2 for an engine whose packets have frames of one flow only. It is at most
    a burst, because a packet has no frames of two bursts."""
    most = min(engine.packet_frames, test.burst)
    return 1 << most.bit_length() - 1 if test.flows > 1 else 1


def first_subflow(test: Test, index: int) -> Message:
    """Return the address of a flow's first sub-flow, if the address varies."""
    first = index * test.flows
    if test.flows_by == "mac":
        low = _MACS + first
        return {"src_mac": f"02:53:4d:{low >> 16:02x}:{low >> 8 & 255:02x}:{low & 255:02x}"}
    return {"src_ip": str(_ADDRESSES + first)} if test.flows_by == "ip" else {}


def reasons_of_flows(test: Test, engine: Engine) -> Iterable[Refusal]:
    """Yield the refusals of a test's flows."""
    senders = test.pairs * test.chains * (2 if test.direction == "bi" else 1)
    if not has_subflows(test):
        if test.flow_order != "sequential":
            yield Refusal(
                ("flow_order", "flows"),
                f"a single flow has no order, so --flow-order {test.flow_order} has no effect",
                "--flows 1M",
            )
        return
    most = _MOST.get(test.flows_by)
    if most is not None and test.flows * senders > most:
        yield Refusal(
            ("flows", "flows_by", "pairs", "chains", "direction"),
            f"{test.flows * senders} flows in all; there are {most} addresses for --flows-by "
            f"{test.flows_by}",
            "--flows-by port",
        )
    if engine.needs_ip:
        yield Refusal(
            ("flows", "flow_order", "engine"),
            f"engine {test.engine} sends every flow by a separate socket, in turn, up to "
            f"{engine.flows_max} flows",
            "--engine raw-mmsg",
        )
    shares = test.flow_numbers
    if test.flows % shares:
        several = "queues" if shares == test.queues else "function_cores"
        yield Refusal(
            ("flows", several),
            f"{test.flows} flows do not share {shares} {several.split('_')[-1]} evenly",
            f"--flows {test.flows // shares * shares or shares}",
        )
