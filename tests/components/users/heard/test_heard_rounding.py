"""Verifying what another machine has heard: a step of the grid and what follows from it is told, anything more is a difference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from fakes import dialogues_of, people
from heard_by_hand import NEEDS_READER, ByHand, heard

from rlver.components.domain.acts import ACTS
from rlver.components.domain.emotion import EmotionRules, apply_change
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaKind
from rlver.components.domain.protocols import About, Exchange, Rounding, exchanges_of, now
from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag
from rlver.components.replay.verification import Mismatch, first_difference
from rlver.components.users.heard.appraiser import HeardAppraiser, Hearing
from rlver.components.users.heard.reading import CARRIED, QUALITIES, SIGNS_HEARD, Heard, Reader
from rlver.components.users.heard.rounding import Rounded
from rlver.components.users.scripted.appraiser import Listener, appraisal, listener_of
from rlver.components.users.scripted.effects import DIFFICULTIES, SERVES
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.components.users.talking.speaker import TalkingSpeakers
from rlver.components.users.together import Together
from rlver.flows.cli import main

TURNS = 3
RULES = EmotionRules(max_turns=TURNS)
SAID = (
    "That was a hard thing to carry alone.",
    "Nobody could have seen it coming, and it was not your fault.",
    "Tell me how it went on from there.",
)
PEOPLE = {persona.persona_id: persona for persona in people()[1]}
Otherwise = Mapping[int, Heard]


@dataclass(frozen=True)
class Elsewhere:
    """The hearing user on a machine that hears some replies otherwise; read by hand where replies are given, else by the real reader."""

    otherwise: Otherwise = field(default_factory=dict)
    by_hand: Mapping[str, Heard] | None = None
    rounding: tuple[Sequence[Appraisal], list[Rounding]] | None = None

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind="heard", difficulty="vanilla", version="by hand")

    @property
    def name(self) -> str:
        return self.tag.kind

    def appraiser(self, about: About, seed: int = 0) -> Any:
        if self.by_hand is None:
            return replace(HeardAppraiser("vanilla").appraiser(about, seed), otherwise=self.otherwise)
        hearing = Hearing(listener_of(about), DIFFICULTIES["vanilla"], cast(Reader, ByHand(self.by_hand)), otherwise=self.otherwise)
        return Rounded(hearing, *self.rounding) if self.rounding else hearing

    def beside(self, recorded: Sequence[Appraisal], rounded: list[Rounding]) -> Elsewhere:
        return replace(self, rounding=(recorded, rounded))

    def refusal(self, turns: Sequence[Any]) -> None:
        return None


def held(kind: Any, speaker: Any, persona: Persona) -> Dialogue:
    return dialogues_of(Together(kind, speaker, 40), [persona], lambda number, turn: SAID[turn], RULES)[0]


def verified(dialogue: Dialogue, here: Together) -> tuple[Mismatch | None, list[Rounding]]:
    rounded = list[Rounding]()
    return first_difference(dialogue, PEOPLE, lambda tag, is_appraiser: here, rounded), rounded


def moved(one: Heard, name: str, by: float) -> Heard:
    """With one probability, or the value, higher or lower by so much."""
    if name == "value":
        return replace(one, value=round(one.value + by, 2))
    if name in one.acts:
        return replace(one, acts={**one.acts, name: round(one.acts[name] + by, 2)})
    return replace(one, quality={**one.quality, name: round(one.quality[name] + by, 2)})


def by_hand(random: Random) -> dict[str, Heard]:
    def grid() -> float:
        return random.randrange(5, 45) / 50

    found = {}
    for number, reply in enumerate(SAID):
        acts = dict.fromkeys(ACTS, 0.0) | {act: grid() for act in random.sample(ACTS, 4)}
        one = heard(acts, random.randrange(-90, 90) / 50, {quality: grid() for quality in QUALITIES}, number, grid())
        found[reply] = replace(one, spans=dict.fromkeys(ACTS, reply))
    return found


@pytest.mark.long
def test_one_step_anywhere_verifies_and_five_do_not() -> None:
    random, changes, refused, users = Random(1), set[int](), list[bool](), ScriptedSimulator("vanilla")
    for _ in range(120):
        persona, read, reply = random.choice(list(PEOPLE.values())), by_hand(random), random.randrange(TURNS)
        here = Together(Elsewhere(by_hand=read), users, 40)
        plain = held(here.appraiser, users, persona)
        names = [act for act, one in read[SAID[reply]].acts.items() if one] + [*QUALITIES, "value"]
        name, step = random.choice(names), random.choice([-0.02, 0.02])
        far = {times: moved(read[SAID[reply]], name, times * step) for times in (1, 5)}
        once, often = (held(Elsewhere({reply: far[times]}, read), users, persona) for times in (1, 5))
        difference, rounded = verified(once, here)
        assert difference is None and bool(rounded) == (once != plain), (name, step, difference)
        assert all(one.probability == 0.02 for one in rounded)
        changes.update(one.change for one in rounded)
        if often != plain:
            refused.append(verified(often, here)[0] is not None)
    assert changes == {0, 1} and len(refused) > 50 and sum(refused) > 0.95 * len(refused)


def test_what_is_given_after_a_step_follows_from_it_also_where_the_user_goes_on_otherwise() -> None:
    """One step makes another change: the user is let down and says so, and what it says is verified as said to that."""
    random, users, found = Random(8), ScriptedSimulator("vanilla"), 0
    for mark in range(1, 51):
        persona, read = random.choice(list(PEOPLE.values())), by_hand(random)
        read[SAID[0]] = heard({SERVES[persona.hidden_need]: mark / 50, "acknowledge": 1.0})
        here = Together(Elsewhere(by_hand=read), users, 40)
        plain = held(here.appraiser, users, persona)
        once = held(Elsewhere({0: moved(read[SAID[0]], SERVES[persona.hidden_need], -0.02)}, read), users, persona)
        if len(plain.turns) > 1 and [turn.user for turn in plain.turns] != [turn.user for turn in once.turns]:
            found += 1
            difference, rounded = verified(once, here)
            assert difference is None and max(one.change for one in rounded) == 1
            assert first_difference(once, PEOPLE, lambda tag, is_appraiser, here=here: here) is not None, "exact where nobody asks for more"
    assert found


def test_a_reply_that_was_heard_otherwise_is_heard_so_by_its_own_appraisal_too() -> None:
    """The second appraisal alone follows from a step in the first reply, which the first appraisal shows was not taken."""
    persona = next(persona for persona in PEOPLE.values() if SERVES[persona.hidden_need] == "absolve")
    doubted = {"picks_up": 0.0, "specific": 0.2}
    read = {SAID[0]: heard({"absolve": 0.4}, 1.0, doubted), SAID[1]: heard({"absolve": 0.9}, 1.0, doubted, 1)}
    plain = Hearing(listener_of(About(persona)), DIFFICULTIES["challenging"], cast(Reader, ByHand(read)))  # believes half of a step
    other = replace(plain, otherwise={0: moved(read[SAID[0]], "absolve", 0.02)})
    said = [Exchange("My boat sank.", SAID[0]), Exchange("It was old.", SAID[1])]
    here, there = ([now(one.appraise(said[:replies], 40)) for replies in (1, 2)] for one in (plain, other))
    assert here[0] != there[0] and here[1] != there[1]

    def taken(*recorded: Appraisal) -> bool:
        beside = Rounded(plain, recorded, [])
        return [now(beside.appraise(said[:replies], 40)) for replies in (1, 2)] == list(recorded)

    assert taken(*here) and taken(*there) and not taken(here[0], there[1])


@pytest.mark.parametrize(("recorded", "derived"), [(0.14, 0.16), (0.16, 0.14)])
def test_a_sign_that_just_gets_its_words_or_loses_them_is_rounding(recorded: float, derived: float) -> None:
    def hearing(probability: float) -> Hearing:
        signs = dict.fromkeys(SIGNS_HEARD, 0.0) | {"points_to_help": probability}
        spans = {name: SAID[0] for name, one in signs.items() if one >= CARRIED}
        read = {SAID[0]: replace(heard({}), signs=signs, spans=spans)}
        return Hearing(Listener(HiddenNeed.DEEP_EMPATHY), DIFFICULTIES["vanilla"], cast(Reader, ByHand(read)), PersonaKind.DANGER)

    said, rounded = [Exchange("I cannot go on.", SAID[0])], list[Rounding]()
    there = now(hearing(recorded).appraise(said, 40))
    (found,) = (one for one in there.evidence if one.what == "points_to_help")
    assert found.span == (SAID[0] if recorded > 0.15 else "")
    assert now(Rounded(hearing(derived), [there], rounded).appraise(said, 40)) == there and len(rounded) == 1


@pytest.mark.parametrize(("recorded", "is_taken"), [(0.02, True), (0.04, False)])
def test_a_step_in_whether_a_reply_breaks_off_is_rounding_and_two_are_not(recorded: float, is_taken: bool) -> None:
    unmarked = "You stayed with it and"

    def hearing(ends: float) -> Hearing:
        read = {unmarked: heard({"acknowledge": 1.0}, ends=ends)}
        return Hearing(Listener(HiddenNeed.DEEP_EMPATHY), DIFFICULTIES["vanilla"], cast(Reader, ByHand(read)))

    said, rounded = [Exchange("My boat sank.", unmarked)], list[Rounding]()
    there = now(hearing(recorded).appraise(said, 40))
    taken = now(Rounded(hearing(0.0), [there], rounded).appraise(said, 40))
    assert (taken == there) is is_taken and [one.points for one in rounded] == ([pytest.approx(1.6)] if is_taken else [])


def test_of_a_reply_that_says_nothing_new_no_other_appraisal_is_taken() -> None:
    again = "You stayed with it until the end."
    hearing = Hearing(
        Listener(HiddenNeed.DEEP_EMPATHY), DIFFICULTIES["vanilla"], cast(Reader, ByHand({again: heard({"acknowledge": 1.0})}))
    )
    said = [Exchange("My boat sank.", again), Exchange("It was old.", again)]
    recorded = [now(hearing.appraise(said[:replies], 40)) for replies in (1, 2)]
    empty = Evidence(step="target", what="empty_talk", points=-5)
    forged = appraisal(None, [*recorded[1].evidence, empty])
    for second, taken in ((recorded[1], recorded[1]), (forged, recorded[1])):
        beside = Rounded(hearing, [recorded[0], second], [])
        assert [now(beside.appraise(said[:replies], 40)) for replies in (1, 2)] == [recorded[0], taken]


# With the real reader.

SPEAKER = TalkingSpeakers("vanilla")
PERSONA = next(persona for persona in PEOPLE.values() if SERVES[persona.hidden_need] == "absolve")


@cache
def real() -> tuple[Together, Dialogue, Heard]:
    """The user, a dialogue with it, and how it hears the second reply."""
    here = Together(HeardAppraiser("vanilla"), SPEAKER, 40)
    dialogue = held(here.appraiser, SPEAKER, PERSONA)
    hearing = HeardAppraiser("vanilla").appraiser(About(PERSONA))
    return here, dialogue, hearing.hear(exchanges_of(dialogue.turns), 1)


def elsewhere(by: float) -> Dialogue:
    """The same on a machine that hears the absolving act of the second reply less surely."""
    here, _, second = real()
    dialogue = held(Elsewhere({1: moved(second, "absolve", by)}), SPEAKER, PERSONA)
    return dialogue.model_copy(update={"simulator": here.tag})


def edited(
    dialogue: Dialogue, turn: int, evidence: Sequence[Evidence] | None = None, change: int = 0, reply: str | None = None
) -> Dialogue:
    """With this forged, and every emotion such that it adds up."""
    turns, emotion = list[Any](), dialogue.emotion_start
    for number, one in enumerate(dialogue.turns):
        appraisal, said = one.appraisal, one.assistant
        assert appraisal is not None
        if number == turn:
            appraisal = appraisal.model_copy(
                update={"change": appraisal.change + change, "evidence": tuple(evidence or appraisal.evidence)}
            )
            said = reply or said
        emotion = apply_change(emotion, appraisal.change)
        turns.append(one.model_copy(update={"appraisal": appraisal, "emotion": emotion, "assistant": said}))
    return dialogue.model_copy(update={"turns": tuple(turns), "emotion_final": emotion})


@pytest.mark.long
@NEEDS_READER
def test_a_heard_dialogue_verifies_exactly_and_a_step_away_with_the_difference_named(
    tmp_path: Path, repository_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, dialogue, _ = real()
    assert len(dialogue.turns) == TURNS and verified(dialogue, here) == (None, [])
    personas, file = tmp_path / "personas.jsonl", tmp_path / "heard.jsonl"
    write_jsonl(personas, [PERSONA.model_dump(mode="json")])
    params = tmp_path / "params.yaml"
    params.write_text(
        re.sub(r"(?m)^  max_turns: \d+", f"  max_turns: {TURNS}", (repository_root / "params.yaml").read_text("utf-8")), "utf-8"
    )
    said = {}
    for by in (0.0, -0.02):
        write_jsonl(file, [elsewhere(by).model_dump(mode="json")])
        assert main(["verify", str(file), "--personas", str(personas), "--params", str(params)]) == 0
        said[by] = capsys.readouterr().out
    assert said[0.0].endswith("every emotion follows from its replies\n")
    assert re.search(
        r"; 1 dialogues only within rounding \(1 appraisals, by at most 0\.02 in a probability, 0\.\d\d points, [01] of the change;",
        said[-0.02],
    )


@NEEDS_READER
def test_of_a_heard_dialogue_anything_more_is_refused() -> None:
    here, dialogue, _ = real()
    first, second = (turn.appraisal for turn in dialogue.turns[:2])
    assert first is not None and second is not None
    surest = max(second.evidence, key=lambda one: one.probability or 0)
    number, lower = second.evidence.index(surest), round((surest.probability or 0) - 0.02, 2)
    alone = [*second.evidence[:number], surest.model_copy(update={"probability": lower}), *second.evidence[number + 1 :]]
    forged = {
        "a probability by .1 and what follows": elsewhere(-0.1),
        "a probability without what follows": edited(dialogue, 1, alone),
        "a change": edited(dialogue, 1, change=1),
        "a reply": edited(dialogue, 1, reply="You should have known better than that."),
        "a reason": edited(dialogue, 0, [*first.evidence, Evidence(step="effect", what="long", points=-1)]),
    }
    emotions = [turn.model_copy(update={"emotion": (turn.emotion or 0) + 1}) for turn in dialogue.turns]
    forged["an emotion"] = dialogue.model_copy(update={"turns": tuple(emotions)})
    for what, one in forged.items():
        difference, rounded = verified(one, here)
        assert difference is not None and not rounded, what
