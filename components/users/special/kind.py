"""The appraiser of users of a kind as it is found by name: `special[:DIFFICULTY]`. Its users are spoken by `talking`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlver.components.domain.kinds import UserKind, Wanted

if TYPE_CHECKING:
    from rlver.components.users.special.appraiser import SpecialAppraiser


def _appraiser(wanted: Wanted) -> SpecialAppraiser:
    from rlver.components.users.special.appraiser import SpecialAppraiser

    return SpecialAppraiser(wanted.which or wanted.difficulty)


APPRAISER = UserKind(_appraiser, written="[:DIFFICULTY]")
