"""The talking user as it is found by name: `simulator.speaker: talking`. It appraises nothing: put it together with an appraiser."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted


def _speaker(wanted: Wanted) -> Any:
    from rlver.components.users.talking.speaker import TalkingSpeakers

    return TalkingSpeakers(wanted.which or wanted.difficulty)


SPEAKER = UserKind(_speaker, written="[:DIFFICULTY]")
