"""The hearing appraiser as it is found by name: `heard[:DIFFICULTY]`. It speaks for no user: put it together with a speaker."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.heard.appraiser import HeardAppraiser

    return HeardAppraiser(wanted.which or wanted.difficulty)


APPRAISER = UserKind(_appraiser, written="[:DIFFICULTY]")
