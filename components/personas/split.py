"""Proof that train and test are apart: what they share is counted, and sharing is refused.

One leak is known and kept: 54 of the 100 RLVER test profiles reuse the player text of a train profile. Such rows are labelled
`leaked`, so that results can be told apart; every other overlap is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from components.personas.persona import Persona

SHOWN = 3


class LeakedSplit(ValueError):
    """Train and test share something; the message says what."""


def _scenario(persona: Persona) -> str | None:
    return persona.story.scenario_id if persona.story else None


def _lines(persona: Persona) -> str | None:
    return "\n".join(persona.story.lines) if persona.story else None


SHAREABLE: dict[str, Callable[[Persona], str | None]] = {
    "persona_ids": lambda persona: persona.persona_id,
    "portraits": lambda persona: persona.portrait.strip(),
    "names": lambda persona: persona.name if persona.source == "generated" else None,
    "scenario_ids": _scenario,
    "backgrounds": lambda persona: persona.background.strip(),
    "stories": _lines,
}


def overlap(train: Sequence[Persona], test: Sequence[Persona]) -> dict[str, int]:
    """How many different values of each kind are in both splits; all zero for a clean split."""
    return {kind: len(_shared(value_of, train, test)) for kind, value_of in SHAREABLE.items()}


def leaks(train: Sequence[Persona], test: Sequence[Persona]) -> list[str]:
    """One sentence per kind of thing that both splits share, with the test personas concerned; empty for a clean split."""
    found: list[str] = []
    for kind, value_of in SHAREABLE.items():
        shared = _shared(value_of, train, test)
        ids = [one.persona_id for one in test if value_of(one) in shared]
        if ids:
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            found.append(f"{len(shared)} {kind.replace('_', ' ')} in train and test alike: test personas {', '.join(ids[:SHOWN])}{more}")
    return found


def labelled_split(train: Sequence[Persona], test: Sequence[Persona]) -> list[Persona]:
    """The test personas, imported ones labelled clean or leaked when train is imported too. Raises LeakedSplit otherwise.

    Only the player text (the portrait) may be shared, and only between imported rows.
    """
    known = {one.portrait.strip() for one in train if one.source == "rlver"}
    labelled = [
        one.model_copy(update={"leaked": one.portrait.strip() in known}) if known and one.source == "rlver" else one for one in test
    ]
    unknown = leaks(train, [one for one in labelled if not one.leaked]) + _beyond_portraits(train, [one for one in labelled if one.leaked])
    if unknown:
        raise LeakedSplit(f"train and test are not apart: {'; '.join(unknown)}")
    return labelled


def _beyond_portraits(train: Sequence[Persona], leaked: Sequence[Persona]) -> list[str]:
    return [one for one in leaks(train, leaked) if " portraits in " not in one]


def _shared(value_of: Callable[[Persona], str | None], train: Sequence[Persona], test: Sequence[Persona]) -> set[str]:
    seen = {value for one in train if (value := value_of(one)) is not None}
    return seen & {value for one in test if (value := value_of(one)) is not None}
