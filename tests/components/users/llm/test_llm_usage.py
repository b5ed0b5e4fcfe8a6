"""What an LLM user is said to take, against the prompts that are really sent."""

from __future__ import annotations

import pytest

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Exchange
from rlver.components.domain.transcript import Appraisal
from rlver.components.endpoint.chat import ChatRequest
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.users.llm.kind import APPRAISER, SIMULATOR, SPEAKER, LLMUserSection, ModelSection, Usage, dialogue_usage, tokens_in
from rlver.components.users.llm.questions import LLMQuestions

MODEL = ModelSection(model="m", temperature=0.5, top_p=1.0, max_tokens=4096)
PARAMETERS = LLMUserSection(appraiser=MODEL, speaker=MODEL, combined=False, max_repairs=2, max_quoted_characters=4000)
WORDS = {"en": ("word " * 25, "word " * 100, "word " * 60), "zh": ("我" * 50, "你" * 250, "想" * 95)}  # message, reply, one reason


def tokens(request: ChatRequest) -> float:
    """0.6 a Chinese character, 0.3 any other."""
    text = "".join(message.content for message in request.messages)
    chinese = sum("\u2e80" <= letter <= "\u9fff" or "\u3000" <= letter <= "\u303f" or "\uff00" <= letter <= "\uffef" for letter in text)
    return 0.6 * chinese + 0.3 * (len(text) - chinese)


def questions(persona: Persona, difficulty: str, exchanges: int) -> dict[str, ChatRequest]:
    message, reply, reason = WORDS[persona.language]
    said = [Exchange(message, reply)] * exchanges
    felt = Appraisal(content=reason, target=reason, activity=reason, feeling=reason, change=5)
    asked = LLMQuestions(persona, difficulty, PARAMETERS)
    return {"appraise": asked.appraisal(40, said, 1), "speak": asked.speech(40, said, felt, 1), "combined": asked.combined(40, said, 1)}


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
@pytest.mark.parametrize("exchanges", [1, 10])
def test_english_prompts_are_as_long_as_assumed(difficulty: str, exchanges: int) -> None:
    people = compose_personas(load_library(), 7, 16, 16)[0]
    for step in ("appraise", "speak", "combined"):
        mean = sum(tokens(questions(persona, difficulty, exchanges)[step]) for persona in people) / len(people)
        assert tokens_in(step, "en", exchanges) == pytest.approx(mean, rel=0.1), step


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
def test_chinese_prompts_are_as_long_as_assumed(difficulty: str, chinese: Persona) -> None:
    """A persona as long as RLVER's are on average: portrait 577 characters, story and reaction rules 1575."""
    missing = 577 + 1575 - len(chinese.portrait) - len(chinese.background) - sum(map(len, chinese.reactions.values()))
    persona = chinese.model_copy(update={"background": chinese.background + "事" * missing})
    for step in ("appraise", "speak", "combined"):
        assert tokens_in(step, "zh", 5) == pytest.approx(tokens(questions(persona, difficulty, 5)[step]), rel=0.12), step


def test_a_dialogue_of_three_turns_takes_three_appraisals_and_two_messages() -> None:
    used = dialogue_usage("zh", 3, combined=False)
    assert used["appraise"] == Usage(3, 3 * 1950 + 200 * (1 + 2 + 3), 3 * 230)
    assert used["speak"] == Usage(2, 2 * 2250 + 200 * (1 + 2), 2 * 260)
    assert dialogue_usage("zh", 3, combined=True) == {"combined": Usage(3, 3 * 2550 + 200 * 6, 3 * 490)}
    assert used["speak"].times(4) == Usage(8, 4 * used["speak"].tokens_in, 2080)


def test_only_the_halves_that_play_are_counted() -> None:
    section = PARAMETERS.model_copy(update={"speaker": MODEL.model_copy(update={"model": "talker"})})
    appraising, speaking = dialogue_usage("en", 10, combined=False).values()
    assert SPEAKER.usage(section, "en", 10) == {"talker": speaking}
    assert (
        APPRAISER.usage(section, "en", 10) == APPRAISER.usage(section.model_copy(update={"combined": True}), "en", 10) == {"m": appraising}
    )
    assert SIMULATOR.usage(section, "en", 10) == {"m": appraising, "talker": speaking}
