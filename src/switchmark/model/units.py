"""Values with units, such as rates, frame sizes and durations, and the arithmetic of Ethernet.

Frame sizes include the FCS (RFC 2544). A rate is per sender, in frames per second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError

CORES_MAX = 64
FCS_BYTES = 4
FLOWS_MAX = 16_000_000
FLOW_NUMBERS = 16384
"""The highest number of flows that frames can number; more flows become sub-flows."""
PREAMBLE_AND_GAP_BYTES = 20
LAYER_2_BYTES = 18
"""Ethernet's header and FCS, which the MTU does not include."""
MTU_USUAL = 1500
VLAN_USUAL = 100
FRAME_MIN = 64
FRAME_MAX = 9600
RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""The sizes for Ethernet in RFC 2544, section 9.1."""

_GENOME = {
    **dict(zip("abcdefg", RFC2544_SIZES, strict=True)),
    "h": 2112,
    "i": 9000,
    "z": MTU_USUAL + LAYER_2_BYTES,
}
"""The letters of an IMIX genome (RFC 6985, section 4); `j`, 16000 bytes, is beyond `FRAME_MAX`."""

_GENOME_MAX = 64
"""The most frames of a mix (`SIZES_MAX` of the traffic program)."""

_MIXES = {
    "imix": (64, 64, 594, 64, 594, 64, 1518, 64, 594, 64, 594, 64),
    "imix:csit": (64, 64, 570, 64, 570, 64, 1518, 64, 570, 64, 570, 64),
    "imix:vsperf": (64, 64, 512, 64, 512, 64, 1518, 64, 512, 64, 512, 64),
}
"""The named mixes: 7 x 64, 4 x 594, 570 or 512, 1 x 1518, spread over twelve frames. FD.io's CSIT
has the sizes of the second in the same proportion (28, 16, 4). The third has the default of VSPERF,
the genome `aaaaaaaddddg` (`conf/03_traffic.conf`), which keeps the proportion, not the order."""

PPS = (("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6))
"""Units of a rate with their sizes, for `scaled`."""

_SHARE_MAX = 1000
"""The highest load, in percent of R+; above 100 the offered load exceeds the received rate."""

_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9}


@dataclass(frozen=True, slots=True)
class Rate:
    """A requested rate: one of these fields is set, or none of them for `max`."""

    pps: float | None = None
    """The rate in frames per second."""
    bps_l1: float | None = None
    """The rate in bits per second, including preamble and gap."""
    share: float | None = None
    """The rate as a share of R+."""

    @property
    def is_max(self) -> bool:
        return self.pps is None and self.bps_l1 is None and self.share is None

    @property
    def number(self) -> float:
        """Return the number in the request, in its unit; infinity for `max`."""
        rates = (self.pps, self.bps_l1, self.share)
        return next((number for number in rates if number is not None), math.inf)

    def __str__(self) -> str:
        if self.share is not None:
            return f"{self.share * 100:g}%"
        if self.bps_l1 is not None:
            return f"{self.bps_l1 / 1e9:g}Gbps"
        return "max" if self.pps is None else format_pps(self.pps)

    def per_second(self, frame_bytes: float) -> float | None:
        """Return the frames per second for a mean frame size; None for `max` or a share of R+."""
        if self.pps is not None:
            return self.pps
        if self.bps_l1 is not None:
            return self.bps_l1 / ((frame_bytes + PREAMBLE_AND_GAP_BYTES) * 8)
        return None


def parse_rate(text: str | int | float) -> Rate:
    """Parse a rate: `max`, `1000`, `10M`, `500kpps`, `2.5Gbps` (L1 bits), `50%` (of R+). Raises
    UsageError for anything else, as all parsers here."""
    word = str(text).strip().replace("_", "")
    if word == "max":
        return Rate()
    match = re.fullmatch(r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([kKmMgG]?)(pps|bps|%)?", word)
    if match is None or (match[3] == "%" and match[2]):
        raise UsageError(
            f"'{text}' is not a rate",
            hint="write max, 1000, 10M, 500kpps, 2.5Gbps or 50%",
        )
    value = float(match[1]) * _SCALE[match[2]]
    if match[3] == "%":
        if not 0 < value <= _SHARE_MAX:
            raise UsageError(f"a rate of '{text}' is not between 0% and {_SHARE_MAX}% of R+")
        return Rate(share=value / 100)
    if match[3] == "bps":
        if value < 1:
            raise UsageError(f"a rate of '{text}' is below 1 bit per second")
        return Rate(bps_l1=value)
    if value < 1:
        raise UsageError(f"a rate of '{text}' is below 1 frame per second")
    if value > 1e9:
        raise UsageError(f"a rate of '{text}' is above 10^9 frames per second")
    return Rate(pps=value)


def parse_line_rate(text: str | int | float) -> Rate:
    """Parse the speed of a link: `10Gbps` (L1 bits), `1M` (frames)."""
    rate = parse_rate(text)
    if rate.is_max or rate.share is not None:
        raise UsageError(f"'{text}' is not the rate of a link", hint="write 10Gbps, 1M or none")
    return rate


def parse_count(text: str | int) -> int:
    """Parse a count: `64`, `10k`, `1M`, `1.5M`."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)([kKM]?)", str(text).strip().replace("_", ""))
    count = 0.0 if match is None else float(match[1]) * _SCALE[match[2]]
    if not count.is_integer() or count < 1:
        raise UsageError(f"'{text}' is not a number of things", hint="write 64, 10k or 1M")
    return int(count)


def parse_frame_size(text: str | int) -> int | str:
    """Parse a frame size: bytes with the FCS, 64 to 9600, the name of a mix, or the genome of one
    (RFC 6985), such as `genome:aaafg`."""
    word = str(text).strip()
    if word.lower() in _MIXES:
        return word.lower()
    if word.lower().startswith("genome:"):
        letters = word.lower().partition(":")[2]
        if not 1 <= len(letters) <= _GENOME_MAX or not set(letters) <= set(_GENOME):
            raise UsageError(
                f"'{text}' is not a genome of 1 to {_GENOME_MAX} frames",
                hint=f"write genome:aaafg, with the letters {''.join(_GENOME)} of RFC 6985",
            )
        return f"genome:{letters}"
    if not re.fullmatch(r"[0-9]+", word):
        raise UsageError(
            f"'{text}' is not a frame size",
            hint=f"write 64 to 9600, {', '.join(_MIXES)} or genome:aaafg",
        )
    size = int(word)
    if not FRAME_MIN <= size <= FRAME_MAX:
        raise UsageError(
            f"a frame of {size} bytes is outside of {FRAME_MIN} to {FRAME_MAX} (with the FCS)"
        )
    return size


@dataclass(frozen=True, slots=True)
class VerificationRule:
    """How a search repeats a trial with loss: at most `trials` trials at a load, of which one
    without loss is enough. Without `trials`, two of three decide. A trial with more loss than
    `high_loss` is not repeated."""

    trials: int | None
    high_loss: float = 1.0


MAJORITY = VerificationRule(None)
"""Two of three trials decide."""


def parse_verification(text: str) -> VerificationRule:
    """Parse the rule for trials with loss: `majority`, `none`, `tst009`, `tst009:3`,
    `tst009:3:50%`."""
    word = str(text).strip()
    if word in ("majority", "none"):
        return MAJORITY if word == "majority" else VerificationRule(1)
    match = re.fullmatch(r"tst009(?::([0-9]{1,2})(?::(.+))?)?", word)
    trials = int((match and match[1]) or 2)
    if match is None or trials < 2:
        raise UsageError(
            f"'{text}' is no rule for trials with loss",
            hint="write majority, none, tst009, tst009:3 or tst009:3:50%",
        )
    return VerificationRule(trials, parse_share(match[2]) if match[2] else 1.0)


def sizes_of(size: int | str) -> tuple[int, ...]:
    """Return the frame sizes that a sender cycles through, in bytes with the FCS."""
    if not isinstance(size, str):
        return (size,)
    if size in _MIXES:
        return _MIXES[size]
    return tuple(_GENOME[letter] for letter in size.partition(":")[2])


def parse_duration(text: str | int | float) -> float:
    """Parse a duration, such as `2`, `0.5`, `200ms`, `30s`, `2min`, `1h`, and return seconds."""
    match = re.fullmatch(
        r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(ms|s|min|h)?", str(text).strip()
    )
    if match is None:
        raise UsageError(f"'{text}' is not a duration", hint="write 2, 0.5, 200ms, 30s or 2min")
    return float(match[1]) * {"ms": 1e-3, None: 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}[match[2]]


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """A CPU limit in percent of a core for `who`: `switch`, or `function` for every function."""

    who: str
    percent: float

    def __str__(self) -> str:
        return f"{self.who}:{self.percent:g}"


def parse_cores(text: str | int) -> int | Literal["auto"]:
    """Parse a number of CPUs, or `auto`."""
    number = str(text)
    if number == "auto":
        return "auto"
    if not number.isdecimal() or not 1 <= int(number) <= CORES_MAX:
        raise UsageError(f"'{text}' is neither auto nor a number of CPUs from 1 to {CORES_MAX}")
    return int(number)


def parse_cpu_limit(text: str | int | float) -> CpuLimit:
    """Parse a CPU limit: `50`, `12.5%` (of the switch), `switch:50`, `function:50`."""
    match = re.fullmatch(r"(?:(switch|function):)?([0-9]+(?:\.[0-9]+)?)%?", str(text).strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not a CPU limit", hint="write 50, switch:50 or function:12.5"
        )
    percent = float(match[2])
    if not 1 <= percent <= 100_000:
        raise UsageError(f"a CPU limit of '{text}' is not between 1 and 100000 percent of a core")
    return CpuLimit(match[1] or "switch", percent)


def parse_share(text: str | int | float) -> float:
    """Parse a share above 0 and below 1, such as `0.5%` or `0.005`."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(%?)", str(text).strip())
    share = 0.0 if match is None else float(match[1]) / (100 if match[2] else 1)
    if not 0 < share < 1:
        raise UsageError(f"'{text}' is not a share above 0 and below 1", hint="write 0.5% or 0.005")
    return share


def parse_load_share(text: str) -> float:
    """Parse a share of a rate in percent, above 0 and up to 1000 %, such as `50%`."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*%", text.strip())
    share = 0.0 if match is None else float(match[1]) / 100
    if not 0 < share <= 10:
        raise UsageError(f"'{text}' is not a share of a rate, up to 1000 %", hint="write 50%")
    return share


def parse_exceed_ratio(text: str | int | float) -> float:
    """Parse a share from 0 to below 1, such as `0`, `50%` or `0.5`."""
    return 0.0 if re.fullmatch(r"0*\.?0*%?", str(text).strip()) else parse_share(text)


def parse_shares(text: str) -> tuple[float, ...]:
    """Parse percentages of R+, such as `10,50,99`, and return shares in ascending order."""
    texts = [word.strip().removesuffix("%") for word in str(text).split(",")]
    if not all(re.fullmatch(r"[0-9]*\.?[0-9]+", word) for word in texts):
        raise UsageError(f"'{text}' is no list of percents of R+", hint="write 10,50,99")
    shares = tuple(sorted({float(word) / 100 for word in texts}))
    if not 0 < shares[0] <= shares[-1] <= 1:
        raise UsageError(f"loads of '{text}' are not all between 0 and 100 % of R+")
    return shares


def mean_frame_bytes(size: int | str) -> float:
    """Return the mean frame size of a size or of a mix, in bytes with the FCS."""
    sizes = sizes_of(size)
    return sum(sizes) / len(sizes)


def mtu_for(size: int | str) -> int:
    """Return the MTU of ports for frames of this size, or of this mix: at least Ethernet's 1500."""
    return min(max(MTU_USUAL, max(sizes_of(size)) - LAYER_2_BYTES), FRAME_MAX)


def gbps_l2(pps: float, frame_bytes: float) -> float:
    """Return the layer-2 rate in Gbit/s: frame bytes."""
    return pps * frame_bytes * 8 / 1e9


def gbps_l1(pps: float, frame_bytes: float) -> float:
    """Return the layer-1 rate in Gbit/s: frame bytes, preamble and inter-frame gap."""
    return gbps_l2(pps, frame_bytes + PREAMBLE_AND_GAP_BYTES)


def format_pps(pps: float | None) -> str:
    """Format a rate as `950 pps`, `12.3 kpps`, `1.23 Mpps`, or `-`."""
    return "-" if pps is None else scaled(pps, PPS)


def scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Format a value with three digits in the best of `units`, which have their sizes and go from
    the smallest to the largest: 999.7 pps is `1 kpps`."""
    name, size = _unit_for(value, units)
    return f"{_three_digits(value / size)} {name}"


def scaled_to(value: float, other: float, units: Sequence[tuple[str, float]]) -> str:
    """Format a value with three digits in the best unit for `other`, without the unit's name."""
    return _three_digits(value / _unit_for(other, units)[1])


def _unit_for(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the smallest unit that leaves less than 1000 after rounding, or else the largest."""
    fitting = (unit for unit in units if float(f"{value / unit[1]:.3g}") < 1000)
    return next(fitting, units[-1])


def _three_digits(value: float) -> str:
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e+" in text else text
