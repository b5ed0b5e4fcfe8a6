"""Of which set the personas are that a score is of, and which user they are played by. The set is part of every id: en-test-0001-…; imported personas name none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rlver.components.domain.looks import split_in
from rlver.components.domain.transcript import Dialogue

IMPORTED = "imported"


def persona_splits(dialogues: Iterable[Dialogue]) -> dict[str, int]:
    """Personas by set; `imported` are those whose id names none."""
    ids = {one.persona_id for one in dialogues}
    return dict(sorted(Counter(split_in(one) or IMPORTED for one in ids).items()))


def said(splits: Mapping[str, int]) -> str:
    """`100 test`; of several sets `32 train, 100 test`, by name."""
    return ", ".join(f"{count} {split}" for split, count in splits.items())


def only_set(dialogues: Iterable[Dialogue]) -> dict[str, int]:
    """The one set of a score with its number of personas. Raises ValueError for several: such a score is of none of them."""
    found = persona_splits(dialogues)
    if refusal := mixture(found):
        raise ValueError(refusal)
    return found


def mixture(splits: Mapping[str, int]) -> str | None:
    """What is wrong where personas of several sets are in one score, else None."""
    if len(splits) < 2:
        return None
    return f"Personas of several sets ({said(splits)}) are in one score, which is of none of them: score each set by itself."


def user_of(dialogue: Dialogue) -> str:
    tag = dialogue.simulator
    return f"{tag.kind}/{tag.difficulty}/{tag.version}"


def refuse_mixed_users(dialogues: Iterable[Dialogue]) -> None:
    """Raise ValueError for dialogues with several simulators."""
    if len(users := sorted({user_of(dialogue) for dialogue in dialogues})) > 1:
        raise ValueError(f"scores of different simulators are not comparable, got {', '.join(users)}; hold all with the same one")


def refuse_mixed_policies(dialogues: Iterable[Dialogue]) -> None:
    """Raise ValueError for dialogues of several policies."""
    if len(policies := sorted({dialogue.policy for dialogue in dialogues})) > 1:
        raise ValueError(f"figures are of one policy, got {', '.join(policies)}; put each into a file of its own")


def refuse_mixture(dialogues: Sequence[Dialogue]) -> None:
    """Raise ValueError for several policies, simulators or sets of personas: figures of a mixture are of none of them."""
    refuse_mixed_policies(dialogues)
    refuse_mixed_users(dialogues)
    only_set(dialogues)
