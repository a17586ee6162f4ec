"""The table of fuzz targets."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.harness import Target
from fuzz.outside import interruptions, surroundings
from fuzz.stored import journals, run_folders
from fuzz.written import arguments, campaigns, host_files, lab_files

TARGETS: Mapping[str, Target] = {
    "campaigns": campaigns,
    "host-files": host_files,
    "lab-files": lab_files,
    "arguments": arguments,
    "run-folders": run_folders,
    "journals": journals,
    "surroundings": surroundings,
    "interruptions": interruptions,
}
"""Each target by the name that `make fuzz TARGET=NAME` takes."""
