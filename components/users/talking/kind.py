"""The talking user as it is found by name: `simulator.speaker: talking`. It appraises nothing: put it together with an appraiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlver.components.domain.kinds import UserKind, Wanted

if TYPE_CHECKING:
    from rlver.components.users.talking.speaker import TalkingSpeakers


def _speaker(wanted: Wanted) -> TalkingSpeakers:
    from rlver.components.users.talking.speaker import TalkingSpeakers

    return TalkingSpeakers(wanted.which or wanted.difficulty)


SPEAKER = UserKind(_speaker, written="[:DIFFICULTY]")
