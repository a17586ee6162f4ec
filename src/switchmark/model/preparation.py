"""The preparations of a host for a measurement, and the values that they set.

This is the only list of them: options, checks, plans, records, reports, `doctor` and the reference
follow from the records here. To add one, add its record to the table. The order of the table is the
order in which values are set; they are restored in the opposite order.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType

from switchmark.errors import UsageError
from switchmark.model.choice import chosen
from switchmark.model.cpus import cpu_mask, format_cpus
from switchmark.model.version import Verified

ALL = "all"
"""The word for all preparations."""

OPTION = "--prepare"

OTHER_CPUS, OTHER_CPUS_MASK = "{other-cpus}", "{other-cpus-mask}"
"""Values that depend on the test: the CPUs that no part of it uses, as a list and as a mask."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value to set in all files of a pattern."""

    files: str
    """The files, as a pattern of the shell."""
    value: str
    """The value, or OTHER_CPUS, or OTHER_CPUS_MASK."""
    like: tuple[str, ...] = ()
    """Other contents that mean the same. They stay as they are."""
    refusable: bool = False
    """Whether the kernel may refuse the value in some of the files. These keep their value."""

    @property
    def of_test(self) -> bool:
        """Return whether the value depends on the CPUs of the test."""
        return self.value in (OTHER_CPUS, OTHER_CPUS_MASK)

    def value_for(self, others: Collection[int]) -> str:
        """Return the value if no part of the test uses the CPUs in `others`."""
        forms = {OTHER_CPUS: format_cpus(others), OTHER_CPUS_MASK: cpu_mask(others)}
        return forms.get(self.value, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """A preparation of a host: where its values are, what it sets, why, and who does so."""

    name: str
    """Its name on the command line."""
    what: str
    """The thing that it sets, in words."""
    effect: str
    """The state that it sets, in words."""
    purpose: str
    """What it is good for."""
    settings: tuple[Setting, ...]
    """The values to set, in order. A host has the preparation if it has a file of one of them."""
    lacking: str
    """Why a host may lack it."""
    fix: str
    """How a host gets it."""
    papers: Mapping[str, str]
    """What works of the literature did, by their names; empty if none names it."""
    verified: Verified = "plan-only"
    """How far it was verified on real hosts."""
    cures: tuple[str, ...] = ()
    """The doubts that it prevents."""
    spoils: bool = False
    """Whether the values of another state make figures unreliable on any host."""
    one_thread: bool = False
    """Whether it takes all threads of a core but the first offline."""

    @property
    def of_test(self) -> bool:
        """Return whether its values depend on the CPUs of the test."""
        return any(setting.of_test for setting in self.settings)


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a preparation on a host, with its present value."""

    setting: Setting
    path: str
    value: str

    @property
    def is_set(self) -> bool:
        """Return whether the value means what the preparation would set. A value that depends on
        the test is never set."""
        return self.value == self.setting.value or self.value in self.setting.like


def found(preparation: Preparation, files: Mapping[str, bytes]) -> list[Found]:
    """Return the files of a preparation among the files of a host, in the order of setting."""
    return [
        Found(setting, path, present(content))
        for setting in preparation.settings
        for path, content in sorted(files.items(), key=lambda entry: _number(entry[0]))
        if fnmatchcase(path, setting.files)
    ]


def state(preparation: Preparation, files: Mapping[str, bytes]) -> list[Found]:
    """Return the files that show the state of a preparation: those of its last setting that has
    files. Earlier settings follow from it, or are alternatives."""
    entries = found(preparation, files)
    return [entry for entry in entries if entry.setting == entries[-1].setting]


def present(content: bytes) -> str:
    """Return the present value in a file of a preparation."""
    return (chosen(content) or content).decode(errors="replace").strip()


def _number(path: str) -> tuple[int, str]:
    """Return a key that sorts numbered folders by number."""
    return int("".join(filter(str.isdecimal, path)) or 0), path


_CPU = "/sys/devices/system/cpu"

_TABLE = (
    Preparation(
        "smt",
        "simultaneous multithreading",
        "one thread per core",
        "no other thread shares the execution units of a core with a part of the test",
        (Setting(f"{_CPU}/smt/control", "off", like=("forceoff", "notsupported")),),
        lacking="the kernel has no control of SMT (CONFIG_HOTPLUG_SMT)",
        fix="turn SMT off in the firmware, or boot with nosmt",
        papers={
            "emmerich-2014": "disabled Hyper-Threading",
            "ara-2021": "never used both hyperthreads of a core",
        },
        cures=("sibling-busy",),
        one_thread=True,
    ),
    Preparation(
        "governor",
        "the frequency governor",
        "governor performance on all CPUs",
        "CPUs run at one frequency, whatever their load",
        (
            # A driver that derives the preference from the governor refuses other preferences
            # while the governor is performance, so this comes first and is restored last.
            Setting(f"{_CPU}/cpufreq/policy[0-9]*/energy_performance_preference", "performance"),
            Setting(f"{_CPU}/cpufreq/policy[0-9]*/scaling_governor", "performance"),
        ),
        lacking="the system does not scale the frequency of its CPUs, or its firmware or "
        "hypervisor does so",
        fix="allow the operating system to control the frequency (firmware), or measure on the "
        "host of this virtual machine",
        papers={
            "ara-2021": "governor performance",
            "zhang-2021": "governor performance, at 2.6 GHz",
            "emmerich-2014": "disabled frequency scaling with the load",
        },
        cures=("frequency-changed",),
        spoils=True,
    ),
    Preparation(
        "turbo",
        "the turbo frequency",
        "no turbo frequencies",
        "the frequency does not depend on temperature and on the number of busy cores",
        (
            Setting(f"{_CPU}/intel_pstate/no_turbo", "1"),
            Setting(f"{_CPU}/cpufreq/boost", "0"),
        ),
        lacking="the frequency driver has no switch for turbo frequencies",
        fix="turn Turbo Boost or Core Performance Boost off in the firmware",
        papers={
            "ara-2021": "disabled Turbo Boost",
            "zhang-2021": "disabled Turbo Boost",
            "emmerich-2014": "disabled Turbo Boost",
        },
        cures=("frequency-changed",),
    ),
    Preparation(
        "irq",
        "the interrupts of devices",
        "interrupts on CPUs that no part of the test uses",
        "drivers of devices take no CPU time from the parts of the test",
        (
            Setting("/proc/irq/default_smp_affinity", OTHER_CPUS_MASK),
            Setting("/proc/irq/[0-9]*/smp_affinity_list", OTHER_CPUS, refusable=True),
        ),
        lacking="the kernel does not show the interrupts of devices in /proc/irq",
        fix="boot with irqaffinity=",
        papers={
            "emmerich-2014": "assigned the interrupts of the NICs to cores, and recommends cores "
            "that no virtual machine uses",
        },
        verified="verified",
        cures=("interrupts",),
    ),
    Preparation(
        "aslr",
        "the randomisation of addresses (ASLR)",
        "no randomisation of addresses (ASLR)",
        "all processes of a program have the same memory layout, so repeats do not differ by it",
        (Setting("/proc/sys/kernel/randomize_va_space", "0"),),
        lacking="the kernel does not show kernel.randomize_va_space",
        fix="mount /proc with its folder sys",
        papers={},
        verified="verified",
    ),
    Preparation(
        "thp",
        "transparent hugepages",
        "no transparent hugepages",
        "the kernel does not merge pages during a trial; hugepages that a run reserves stay",
        (Setting("/sys/kernel/mm/transparent_hugepage/enabled", "never"),),
        lacking="the kernel has no transparent hugepages (CONFIG_TRANSPARENT_HUGEPAGE)",
        fix="leave it out: there are none to turn off",
        papers={},
        verified="verified",
    ),
)

TABLE: Mapping[str, Preparation] = MappingProxyType({each.name: each for each in _TABLE})


def parse_preparations(text: str) -> str:
    """Return the names in a list with commas, each once and in the order of the table; `all` stands
    for all of them."""
    words = [word.strip() for word in str(text).split(",")]
    for word in words:
        if word not in (*TABLE, ALL):
            close = difflib.get_close_matches(word, [*TABLE, ALL], n=1)
            meant = f"; did you mean '{close[0]}'?" if close else ""
            raise UsageError(
                f"a host has no preparation '{word}'; there are: {', '.join(TABLE)}, and {ALL}"
                f"{meant}"
            )
    return ",".join(name for name in TABLE if name in words or ALL in words)


def named(text: str | None) -> tuple[Preparation, ...]:
    """Return the preparations in the value of the axis."""
    return tuple(TABLE[name] for name in text.split(",")) if text else ()


def option(names: Collection[str]) -> str:
    """Return the option that asks for some preparations."""
    return f"{OPTION} {','.join(name for name in TABLE if name in names)}"
