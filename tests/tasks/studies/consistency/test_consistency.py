"""Appraising again: the scripted appraiser is exact under every probe, a model says how far it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from fakes import people, scripted_dialogues
from scripted_endpoint import TWO_CALLS, ScriptedEndpoint, usual

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Exchange, SimulatorUnavailable
from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, Turn
from rlver.components.endpoint.chat import ChatRequest
from rlver.components.scoring.units import Sampling
from rlver.components.users.llm.prompts import persona_text
from rlver.components.users.llm.simulator import LLMAppraiser, LLMSimulator
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.tasks.studies.consistency.consistency import (
    AGAIN,
    PARAPHRASED,
    REORDERED,
    Asking,
    Consistency,
    ask_again,
    consistency_of,
    paraphrased,
)

PERSONAS = {persona.persona_id: persona for persona in people()[1]}
HOW = Sampling(300, 1)


def asked(appraiser: AppraiserKind, dialogues: Sequence[Dialogue], times: int) -> list[Asking]:
    return [one for dialogue in dialogues for one in asyncio.run(ask_again(appraiser, dialogue, PERSONAS[dialogue.persona_id], times))]


def measured(appraiser: AppraiserKind, dialogues: Sequence[Dialogue], times: int) -> dict[str, Consistency]:
    return {row.probe: row for row in consistency_of(asked(appraiser, dialogues, times), HOW)}


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
def test_the_scripted_appraiser_has_no_variance_at_all(difficulty: str) -> None:
    dialogues = scripted_dialogues(difficulty=difficulty)
    rows = measured(ScriptedAppraiser(difficulty), dialogues, 5)
    replies = sum(len(dialogue.turns) for dialogue in dialogues)
    assert set(rows) == {AGAIN, REORDERED, PARAPHRASED}
    assert (rows[AGAIN].replies, rows[AGAIN].answers) == (replies, 4 * replies)
    assert rows[REORDERED].replies == sum(max(0, len(dialogue.turns) - 2) for dialogue in dialogues)
    for row in rows.values():
        assert row.is_exact and row.variance.value == 0 and row.mean_difference.value == 0 and row.unanswered == 0
        assert row.same_direction.value == 1
    for dialogue in dialogues:
        again = [one.changes[0] for one in asked(ScriptedAppraiser(difficulty), [dialogue], 2) if one.probe == AGAIN]
        assert again == [turn.appraisal.change for turn in dialogue.turns if turn.appraisal], "the first answer is the recorded one"


@dataclass
class Moody:
    """Answers what it is told to, question by question; None is no answer."""

    answers: Sequence[int | None]
    asked: list[tuple[Persona, tuple[Exchange, ...], int, int]] = field(default_factory=list)
    name: str = "moody"
    tag: SimulatorTag = field(default_factory=lambda: SimulatorTag(kind="moody", difficulty="any", version="1"))

    def appraiser(self, about: About, seed: int) -> MoodyAppraiser:
        assert about.persona is not None
        return MoodyAppraiser(self, about.persona, seed)

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return None


@dataclass
class MoodyAppraiser:
    kind: Moody
    persona: Persona
    seed: int

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        asked, answers = self.kind.asked, self.kind.answers
        asked.append((self.persona, tuple(exchanges), emotion, self.seed))
        answer = answers[(len(asked) - 1) % len(answers)]
        if answer is None:
            raise SimulatorUnavailable("no usable answer")
        return Appraisal(content="", target="", activity="", feeling="", change=answer)


def test_variance_direction_and_sameness_are_counted_by_hand() -> None:
    """Answers 4, 2, -3 to one reply: variance 13, differences 2 and 7, one of two in the same direction, none identical."""
    row = consistency_of([Asking("p", AGAIN, (4, 2, -3), 0)], HOW)[0]
    assert row.variance.value == pytest.approx(13) and row.mean_difference.value == 4.5
    assert (row.same_direction.value, row.identical.value, row.answers) == (0.5, 0, 2) and not row.is_exact
    both = consistency_of([Asking("p", AGAIN, (4, 2, -3), 0), Asking("q", AGAIN, (0, 0, 0), 1)], HOW)[0]
    assert both.variance.value == pytest.approx(6.5) and both.identical.value == 0.5 and both.unanswered == 1


def test_a_probe_changes_one_thing_and_every_question_starts_at_the_recorded_emotion() -> None:
    dialogue = next(one for one in scripted_dialogues() if len(one.turns) >= 4)
    moody = Moody([1])
    asked(moody, [dialogue], 3)
    persona, other_words = PERSONAS[dialogue.persona_id], paraphrased(PERSONAS[dialogue.persona_id])
    whole = [Exchange(turn.user, turn.assistant) for turn in dialogue.turns]
    fourth = [one for one in moody.asked if one[1][-1] == whole[3]]
    assert len(fourth) == 3 + 1 + 1 and {one[2] for one in fourth} == {dialogue.turns[2].emotion}
    assert [one[0] for one in fourth] == [persona] * 3 + [other_words] + [persona]
    assert [list(one[1]) for one in fourth] == [whole[:4]] * 4 + [[*reversed(whole[:3]), whole[3]]]
    seeds = [one[3] for one in fourth]
    assert seeds[0] == dialogue.seed and len(set(seeds[:3])) == 3 and seeds[3] == seeds[4] == seeds[0]


def test_what_was_not_answered_is_counted_and_enters_no_figure() -> None:
    dialogue = scripted_dialogues(count=1)[0]
    one_turn = dialogue.model_copy(update={"turns": dialogue.turns[:1]})
    again, other_words = asked(Moody([4, None, 4, 2]), [one_turn], 3)
    assert (again.changes, again.unanswered, other_words.changes) == ((4, 4), 1, (4, 2))
    lost, _ = asked(Moody([None, 4, 4, 2]), [one_turn], 3)
    assert (lost.changes, lost.unanswered) == ((), 2)
    with pytest.raises(ValueError, match="no reply was appraised twice; 3 questions were left unanswered"):
        consistency_of(asked(Moody([None, 4, 4, 2]), [one_turn], 3), HOW)


def test_once_is_no_repeat() -> None:
    with pytest.raises(ValueError, match="ask at least 2 times, got 1"):
        asked(Moody([1]), scripted_dialogues(count=1), 1)


def a_model_in_moods(request: ChatRequest) -> str:
    """Another answer to another seed, and a milder one about somebody in other words."""
    assert request.seed is not None
    mild = "would like" in request.messages[0].content
    return usual(request, change=request.seed % 5 + 1 - (4 if mild else 0))


def test_every_repeat_to_a_model_is_a_question_of_its_own_and_its_variance_is_reported() -> None:
    dialogues = [one.model_copy(update={"turns": one.turns[:3]}) for one in scripted_dialogues(count=3)]
    endpoint = ScriptedEndpoint(a_model_in_moods)
    rows = measured(LLMAppraiser(LLMSimulator(endpoint, "vanilla", TWO_CALLS, 40)), dialogues, 4)
    replies = sum(len(dialogue.turns) for dialogue in dialogues)
    keys = {request.canonical_json() for request in endpoint.requests}
    assert len(keys) == len(endpoint.requests) == replies * (4 + 1) + 3, "and one reordered context in each dialogue of three turns"
    assert rows[AGAIN].variance.value > 0 and rows[AGAIN].same_direction.value == 1 and rows[AGAIN].identical.value < 1
    assert rows[REORDERED].is_exact, "this model goes by seed and persona alone"
    assert rows[PARAPHRASED].mean_difference.value == 4 and rows[PARAPHRASED].same_direction.value < 1


def test_a_paraphrase_keeps_the_facts_and_what_the_rules_go_by() -> None:
    for persona in people()[1]:
        other = paraphrased(persona)
        assert other == paraphrased(persona) and persona_text(other) != persona_text(persona)
        assert other.need_text != persona.need_text and other.portrait != persona.portrait
        assert (other.hidden_need, other.persona_class, other.story, set(other.traits)) == (
            persona.hidden_need, persona.persona_class, persona.story, set(persona.traits),
        )  # fmt: skip
        assert set(other.reactions) == set(persona.reactions)
        assert len(other.portrait.split(". ")) == len(persona.portrait.split(". "))
        assert persona.name and other.portrait.startswith(f"{persona.name} is")
        numbers = [sorted(word for word in text.split() if word.isdigit()) for text in (other.background, persona.background)]
        assert numbers[0] == numbers[1]


def test_a_chinese_persona_is_told_in_another_order() -> None:
    persona = people()[1][0].model_copy(update={"language": "zh", "portrait": "* 姓名：李明\n* 年龄：20\n* 说话简短。爱下棋。"})
    assert paraphrased(persona).portrait == "* 姓名：李明\n爱下棋。\n* 说话简短。\n* 年龄：20"
