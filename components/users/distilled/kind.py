"""The learned appraiser as it is found by name: `distilled:FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted


def _appraiser(wanted: Wanted) -> Any:
    """Raises BadFile for a folder without an appraiser."""
    from rlver.components.users.distilled.appraiser import DistilledAppraiser
    from rlver.components.users.distilled.folder import read_folder

    return DistilledAppraiser(read_folder(_folder(wanted.which)))


def _folder(which: str) -> Path:
    if not which:
        raise ValueError("distilled names no folder: write distilled:FOLDER")
    return Path(which)


APPRAISER = UserKind(_appraiser, folder=_folder, written=":FOLDER")
