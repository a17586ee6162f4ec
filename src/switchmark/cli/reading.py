"""The records that a command gets: those of a run folder, or of files of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from switchmark.model.record import Record


def records_of(path: Path) -> list[Record]:
    """Return the records of a run folder, of a document of FD.io CSIT, or of a folder of them."""
    from switchmark.campaign.store import read_records
    from switchmark.report import csit_import

    return csit_import.records_of(path) if csit_import.is_csit(path) else read_records(path)
