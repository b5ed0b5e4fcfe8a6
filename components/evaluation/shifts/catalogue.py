"""All shifts by name, and the users that a robustness report asks: who they are is the tag in the transcript, and nothing else."""

from __future__ import annotations

from components.dialogue.transcript import SimulatorTag
from components.evaluation.shifts import persons, styles
from components.evaluation.shifts.cues import in_unseen_cues
from components.evaluation.shifts.shift import Shift
from components.evaluation.shifts.simulator import ShiftedUser
from components.simulator.protocol import Simulator
from components.simulator.scripted.effects import DIFFICULTIES
from components.simulator.scripted.simulator import VERSION, ScriptedSimulator

UNSHIFTED = "unshifted"
SHIFTS = (
    Shift("familiar-names", 1, "people with first names of training users", person=persons.with_training_names),
    Shift("familiar-stories", 1, "stories that training users told", person=persons.with_a_training_story),
    Shift("unseen-cues", 1, "the need hinted at in sentences never used in training", words=in_unseen_cues),
    Shift("terse", 1, "short, without reactions and small words", words=styles.terse),
    Shift("rambling", 1, "long lead-ups, things that belong nowhere", words=styles.rambling),
    Shift("sarcastic", 1, "false delight before and after", words=styles.sarcastic),
    Shift("typos", 1, "one longer word in five mistyped", words=styles.with_typos),
    Shift("non-native", 1, "no articles, plain verbs, mixed-up prepositions", words=styles.non_native),
    Shift("very-young", 1, "as a child types", words=styles.very_young),
    Shift("very-old", 1, "as somebody well over eighty writes", words=styles.very_old),
)
_BY_TAG = {shift.tag: shift for shift in SHIFTS}


class UnknownVersion(ValueError):
    """No user of this program has such a version."""


def users(difficulty: str) -> dict[str, Simulator]:
    """Every user of the report by the name of its row: the unshifted one first, the shifted ones, then those of other difficulties."""
    shifted: dict[str, Simulator] = {shift.tag: ShiftedUser(difficulty, shift) for shift in SHIFTS}
    others: dict[str, Simulator] = {name: ScriptedSimulator(name) for name in DIFFICULTIES if name != difficulty}
    return {UNSHIFTED: ScriptedSimulator(difficulty)} | shifted | others


def about(row: str) -> str:
    """What the row `row` of the report changes, in a few words."""
    if row == UNSHIFTED:
        return "the test personas as they are"
    return _BY_TAG[row].about if row in _BY_TAG else f"users of the difficulty {row}"


def user_of(tag: SimulatorTag) -> Simulator:
    """The scripted user that a transcript names, shifted or not. Raises UnknownVersion for one of another version or difficulty."""
    base, _, shift = tag.version.partition("+")
    if base != VERSION or tag.difficulty not in DIFFICULTIES or (shift and shift not in _BY_TAG):
        raise UnknownVersion(f"made by {tag.kind} {tag.difficulty}, version {tag.version}; this is version {VERSION}")
    return ShiftedUser(tag.difficulty, _BY_TAG[shift]) if shift else ScriptedSimulator(tag.difficulty)
