"""The hearing appraiser as it is found by name: `heard[:DIFFICULTY]`. It speaks for no user: put it together with a speaker."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted
from rlver.components.domain.packages import MINILM, SMOLLM2


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.heard.appraiser import HeardAppraiser

    return HeardAppraiser(wanted.which or wanted.difficulty)


APPRAISER = UserKind(_appraiser, weights=(SMOLLM2.name, MINILM.name), written="[:DIFFICULTY]")
