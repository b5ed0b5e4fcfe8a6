"""The scripted user as it is found by name: `scripted`, and as an appraiser `scripted:DIFFICULTY`."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.scripted.simulator import ScriptedAppraiser

    return ScriptedAppraiser(wanted.which or wanted.difficulty)


def _simulator(wanted: Wanted) -> Any:
    from rlver.components.users.scripted.simulator import ScriptedSimulator

    return ScriptedSimulator(wanted.which or wanted.difficulty)


APPRAISER = UserKind(_appraiser, written="[:DIFFICULTY]")
SPEAKER = SIMULATOR = UserKind(_simulator, written="[:DIFFICULTY]")
