"""The appraiser of users of a kind as it is found by name: `special[:DIFFICULTY]`. Its users are spoken by `talking`."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.special.appraiser import SpecialAppraiser

    return SpecialAppraiser(wanted.which or wanted.difficulty)


APPRAISER = UserKind(_appraiser, written="[:DIFFICULTY]")
