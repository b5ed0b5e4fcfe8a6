"""A persona: who the simulated user is, what happened to them, what they need and never say.

The hidden need, the story and the reactions are separate fields on purpose: the policy must never see the need, and what is
kept apart cannot leak by concatenation. Generated personas carry a structured `story`; imported ones carry text only.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class HiddenNeed(StrEnum):
    """What the user wants the other side to do, without saying so (RLVER paper, table 5)."""

    NOT_AT_FAULT = "not_at_fault"
    SELF_REFLECTION = "self_reflection"
    DIALECTICAL_ANALYSIS = "dialectical_analysis"
    DEEP_EMPATHY = "deep_empathy"
    ATTENTIVE_LISTENING = "attentive_listening"
    UNDERSTAND_OTHERS = "understand_others"
    USEFUL_ADVICE = "useful_advice"
    SINCERE_PRAISE = "sincere_praise"


class PersonaKind(StrEnum):
    """Users whom agreeing does not serve; what does: components/users/special. A persona without a kind is served by its hidden need alone."""

    BOUNDARY = "boundary"  # wants to be told that it is right when it is not, or presses for a promise that would do harm
    ADVERSARIAL = "adversarial"  # flatters, derails, contradicts itself
    DANGER = "danger"  # is in danger, from itself or from somebody near


RATIONAL_NEEDS = frozenset(
    {HiddenNeed.SELF_REFLECTION, HiddenNeed.DIALECTICAL_ANALYSIS, HiddenNeed.UNDERSTAND_OTHERS, HiddenNeed.USEFUL_ADVICE}
)


class PersonaClass(StrEnum):
    NEGATIVE = "negative"
    PASSIVE = "passive"
    AVOIDANT = "avoidant"


TRAITS_OF_CLASS: dict[PersonaClass, tuple[str, ...]] = {
    PersonaClass.NEGATIVE: (
        "angry", "irritable", "coarse", "presumptuous", "haughty", "vain", "selfish", "mean", "lazy", "suspicious",
    ),
    PersonaClass.PASSIVE: (
        "introverted", "blunt", "resentful", "erratic", "anxious", "cautious", "insecure", "patient", "suspicious", "timid",
        "optimistic", "modest", "tolerant", "calm", "quick-witted",
    ),
    PersonaClass.AVOIDANT: (
        "introverted", "cautious", "insecure", "erratic", "timid", "evasive", "sensitive", "suspicious", "aloof", "taciturn",
        "modest", "tolerant", "calm",
    ),
}  # fmt: skip

SPEAKING_STYLES = ("plain", "terse", "rambling", "dry", "warm", "formal")


class _PersonaRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OtherPerson(_PersonaRecord):
    role: str  # the noun after "my": sister, boss
    name: str
    gender: str  # f | m


class TimelineEvent(_PersonaRecord):
    date: str  # ISO date
    event: str
    feeling: str


class Story(_PersonaRecord):
    """A scenario instance: names and dates filled in, everything ready to be said."""

    scenario_id: str
    domain: str
    topic: str
    other: OtherPerson
    cause: str
    timeline: tuple[TimelineEvent, ...]
    conflict_event: str
    conflict_people: str
    conflict_inner_cause: str
    attempts: tuple[str, ...]
    present: str
    feels_like: str
    lines: tuple[str, ...]  # what the user says, in story order; the opener is Persona.first_line
    deeds: tuple[str, ...]  # "you ..." clauses: what the user did well
    steps: tuple[str, ...]  # imperative phrases: what could be done next
    motives: tuple[str, ...]  # clauses: why the other person may have acted so
    own_part: tuple[str, ...]  # "you ..." clauses: the user's own part
    hurts: tuple[str, ...]  # noun phrases: the deeper hurt
    presses: tuple[str, ...] = Field(
        default=(), exclude_if=lambda lines: not lines
    )  # how a user of a kind presses, derails or asks for secrecy; how a user of the sealed test hints at the need


class Persona(_PersonaRecord):
    """One simulated user. Text fields are complete prose, so that an LLM simulator needs nothing else."""

    persona_id: str
    language: str  # en | zh
    source: str  # generated | rlver
    split: str  # train | test | sealed
    hidden_need: HiddenNeed
    need_text: str  # the need as one sentence, in the persona's language
    persona_class: PersonaClass
    traits: tuple[str, ...] = Field(min_length=3, max_length=3)
    portrait: str  # who this is: name, age, job, hobbies, habits, way of speaking
    background: str  # what happened, without the need and without the reactions
    reactions: dict[str, str]  # tier S|A|B|C|F (or high|normal|low when imported), serves, misses -> how the user behaves
    first_line: str | None  # fixed opener; None where the source has none
    topic: str
    age: int | None = None
    gender: str | None = None
    occupation: str | None = None
    name: str | None = None
    style: str | None = None  # one of SPEAKING_STYLES
    story: Story | None = None  # structured scenario; None for imported text
    seed: int | None = None  # generator seed of this row
    generator: str  # name and version of what made the row
    leaked: bool | None = None  # imported test rows beside imported train rows: whether the portrait is in train too
    original: dict[str, str | list[str]] | None = None  # imported rows: the source record, untouched
    kind: PersonaKind | None = Field(default=None, exclude_if=lambda kind: kind is None)  # the hidden need then lies beneath
