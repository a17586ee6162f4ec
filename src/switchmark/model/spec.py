"""The test, which is one point of a campaign, and the records of its axes.

An axis is a field of `Test` with its record (`model.axis`). Options, campaign files, the reference,
records and reports are made from these; nothing else lists axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from switchmark.model.axis import Axis, Property, axes_of
from switchmark.model.sent import Sent
from switchmark.model.units import (
    FLOW_NUMBERS,
    FLOWS_MAX,
    VLAN_USUAL,
    Rate,
    mean_frame_bytes,
    parse_count,
    parse_cpu_limit,
    parse_duration,
    parse_frame_size,
    parse_line_rate,
    parse_rate,
    parse_share,
    parse_shares,
)


def _usual_burst(axes: dict[str, Any]) -> int:
    """32 frames for throughput; one at a time for latency, unless bursts are asked for."""
    return 1 if axes.get("dimension") == "latency" else 32


def _limit(text: str | int | float) -> str:
    """Read a CPU limit, and write it with whom it is for."""
    return str(parse_cpu_limit(text))


class Test(Sent):
    """A test has one value of each axis, and so it is one point of a campaign.

    Its axes are those of what is set up, of what frames are like, and, here, those of what else
    is sent and how it is measured.
    Each field says its type, its record and its usual value. Ranges are checked here, names against
    the tables later (`layout.resolve`). Rates are per sender and stay as written.
    """

    __test__ = False  # not a test case, whatever pytest thinks of its name

    frame_size: Annotated[
        int | str,
        Axis(
            "load",
            "bytes with the FCS, or imix",
            unit="bytes",
            parse=parse_frame_size,
            values="`64` to `9600`, `imix`",
            json_name="frame_bytes",
            heading="bytes",
            own_column=True,
            used=2,
        ),
    ] = 64
    rate: Annotated[
        str,
        Axis(
            "load",
            "per sender: max, 10M, 500kpps, 2.5Gbps, 50% (of R+; up to 1000%)",
            unit="pps",
            parse=parse_rate,
            as_written=True,
            values="`max`, `1000`, `10M`, `500kpps`, `2.5Gbps`, `50%`",
            json_number="rate_pps",
            used=2,
        ),
    ] = "max"
    line_rate: Annotated[
        str | None,
        Axis(
            "load",
            "what a link of each sender would carry, which sends no faster: 10Gbps",
            unit="pps",
            parse=parse_line_rate,
            as_written=True,
            values="`10Gbps`, `1M`",
            later=True,
        ),
    ] = None
    burst: Annotated[
        int,
        Axis(
            "load",
            "frames handed over at once [32; 1 for latency]",
            unit="frames",
            left_out=1,
            used=1,
        ),
    ] = Field(default_factory=_usual_burst, ge=1, le=4096)
    pairs: Annotated[int, Axis("path", "senders, each with its receiver", blame=5, used=1)] = Field(
        1, ge=1, le=64
    )
    chain: Annotated[
        int,
        Axis(
            "chain",
            "functions in a row, in loopback; in p2v the last of them receives",
            blame=4,
            used=2,
        ),
    ] = Field(1, ge=1, le=8)
    chains: Annotated[int, Axis("chain", "chains side by side, in loopback", blame=5)] = Field(
        1, ge=1, le=64
    )
    flows: Annotated[
        int,
        Axis(
            "path",
            "flows of each sender: 64, 10k, 1M",
            parse=parse_count,
            values=f"`1` to `{FLOWS_MAX // 1_000_000}M`, `10k`",
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=FLOWS_MAX)
    flows_by: Annotated[
        Literal["mac", "ip", "port"],
        Axis("path", "what the flows of a sender differ in", asked_as="load"),
    ] = "port"
    copies: Annotated[
        int,
        Axis(
            "path",
            "functions or physical ports that each frame is copied to",
            followed_by=("switch",),
            blame=5,
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=64)
    vlan: Annotated[
        int | None, Axis("path", "VLAN id of every frame, or none", asked_as="load")
    ] = Field(None, ge=1, le=4094)
    touch: Annotated[
        Literal["none", "header", "full"],
        Axis("load", "how much of a payload is written and checked"),
    ] = "header"
    placement: Annotated[
        str,
        Axis(
            "path",
            "how parts are put on cores: auto, pinned, unpinned (:switch, :function: that alone), "
            "shared-process, CPUs (0+2-5)",
            values="`auto`, `pinned`, `unpinned`, `unpinned:switch`, `unpinned:function`, "
            "`shared-process`, CPUs: `0+2-5`",
            asked_as="where",
            used=2,
        ),
    ] = "auto"
    cpu_limit: Annotated[
        str | None,
        Axis(
            "functions",
            "percent of a core, of the switch or each function: 50, function:12.5",
            unit="percent of a core",
            parse=_limit,
            values="`50`, `switch:50`, `function:12.5`",
            used=2,
        ),
    ] = None
    noise: Annotated[
        str | None,
        Axis(
            "load",
            "who else works on this machine: cpu, memory, cache, io, web; on CPUs: cpu:0+1",
            values="`cpu`, `web:0+1`, `cache:switch`, `io:functions`",
        ),
    ] = None
    profile: Annotated[
        int | None,
        Axis(
            "method",
            "samples a second of what each CPU does, by kernel function (perf record), or none",
            unit="samples a second",
            later=True,
        ),
    ] = Field(None, ge=1, le=10_000)
    search: Annotated[
        str, Axis("method", "how the rate is found", table="searches", left_out=1, used=2)
    ] = "fixed"
    loss_ratio: Annotated[
        float, Axis("method", "of the goal pdr: 0.5%", parse=parse_share, values="`0.5%`, `0.005`")
    ] = 0.005
    precision: Annotated[
        float,
        Axis(
            "method",
            "how narrow a rate is bounded: 0.5%",
            parse=parse_share,
            values="`0.5%`, `0.005`",
        ),
        # A search that is asked for much less comes to where no number lies between two rates.
    ] = Field(0.005, ge=1e-9)
    loads: Annotated[
        str,
        Axis(
            "method",
            "of search latency-at-load, in percent of R+",
            unit="percent of R+",
            parse=parse_shares,
            as_written=True,
            values="`10,50,99`",
            undivided=True,
        ),
    ] = "10,50,99"
    duration: Annotated[
        float,
        Axis(
            "method",
            "of a trial: 2, 500ms, 1min; 0.3 with 20 repeats by default for several switches",
            unit="s",
            parse=parse_duration,
            values="`2`, `0.5`, `200ms`, `30s`, `2min`, `1h`",
            compared=0.3,
            apart=1.6,
            json_name="duration_s",
            left_out=1,
            used=1,
        ),
    ] = Field(10.0, gt=0, le=86400)
    warmup: Annotated[
        float,
        Axis(
            "method",
            "before it, not counted; before the first of a path in turn, 0.5",
            unit="s",
            parse=parse_duration,
            compared=0.05,
            values="as `duration`, or `0`",
            json_name="warmup_s",
            left_out=3,
            used=1,
        ),
    ] = Field(0.5, ge=0, le=3600)
    repeat: Annotated[
        int,
        Axis(
            "method",
            "trials of each test, or whole searches, those of all tests in turn; 20 trials by "
            "default for several switches, 5 of a given duration",
            compared=20,
            apart=5,
            given=5,
            left_out=2,
            asked_as="statistics",
            used=2,
        ),
    ] = Field(1, ge=1, le=1000)
    finals: Annotated[
        int,
        Axis(
            "method",
            "trials of a search at the rate that it finds, or at each load; bursts of back-to-back",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(1, ge=1, le=1000)
    until_certain: Annotated[
        float | None,
        Axis(
            "method",
            "repeat, 5 times or more, until half of the interval is below, such as 1%",
            parse=parse_share,
            values="`1%`, `0.01`",
            left_out=1,
            asked_as="statistics",
            used=1,
        ),
    ] = None
    until_decided: Annotated[
        int | None,
        Axis(
            "method",
            "go on to so many repeats, until compared switches are told apart or shown to be the "
            "same; they are judged three times at most",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(None, ge=3, le=1000)
    seed: Annotated[
        int,
        Axis(
            "method",
            "shuffles the order; 0 runs as written",
            of_campaign=True,
            left_out=3,
            asked_as="statistics",
        ),
    ] = Field(0, ge=0)
    nic: Annotated[
        str | None,
        Axis(
            "ports",
            "real NICs, by interface or PCI address: PART=SWITCH-NIC:GENERATOR-NIC,...",
            blame=6,
            values="`a0=eth1:eth2,b0=0000:03:00.0:0000:04:00.0`",
            undivided=True,
            used=2,
        ),
    ] = None

    @property
    def switch_core_count(self) -> int:
        """Return how many CPUs a switch that polls has: one, unless it is asked to have more."""
        return 1 if self.switch_cores == "auto" else self.switch_cores

    @property
    def tag(self) -> int | None:
        """Return the VLAN id of every frame; None for frames without a tag."""
        return self.vlan or (VLAN_USUAL if self.encapsulation == "vlan" else None)

    @property
    def flow_numbers(self) -> int:
        """Return how many flows of a sender its frames number, which are counted by themselves: all
        of them, or one a queue (or core) where they are too many or in no order. These have
        sub-flows."""
        senders = self.pairs * self.chains * (2 if self.direction == "bi" else 1)
        numbered = self.flow_order == "sequential" and self.flows * senders <= FLOW_NUMBERS
        return self.flows if numbered else max(self.queues, self.function_cores)

    @property
    def limits(self) -> Mapping[str, float]:
        """Return the CPU limit in percent of one core, of `switch` or of `function`."""
        if self.cpu_limit is None:
            return {}
        limit = parse_cpu_limit(self.cpu_limit)
        return {limit.who: limit.percent}

    @property
    def parsed_rate(self) -> Rate:
        """Return the rate as it was asked for: `max`, in frames, in bits, or as a share of R+."""
        return parse_rate(self.rate)

    @property
    def saturates(self) -> bool:
        """Say whether some trial will ask for more than may be carried."""
        found = self.parsed_rate.is_max or self.search != "fixed"
        return self.dimension == "throughput" and found

    @property
    def rate_pps(self) -> float | None:
        """Return the frames per second of each sender; None for a share of R+, and for `max`
        without a line rate."""
        if self.parsed_rate.is_max:
            return self.line_pps
        return self.parsed_rate.per_second(mean_frame_bytes(self.frame_size))

    @property
    def line_pps(self) -> float | None:
        """Return the frames per second that the link of a sender would carry; None without one."""
        if self.line_rate is None:
            return None
        return parse_line_rate(self.line_rate).per_second(mean_frame_bytes(self.frame_size))


AXES = axes_of(Test)
"""The record of every axis, by the name of its field, in the order of the fields."""


def usual_values(*of: Property) -> dict[str, Any]:
    """Return the usual values of the axes that are properties of these, by name."""
    return {axis.name: axis.default for axis in AXES.values() if axis.of in of}
