"""The LLM user. One object appraises and speaks for one user in one dialogue; all it awaits is the answers of the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, Exchange, SimulatedUser, Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag, Turn
from rlver.components.endpoint.chat import ChatEndpoint, ChatRequest
from rlver.components.users.llm.answers import SpeechAnswer, read_appraisal, read_combined, read_opening, read_speech
from rlver.components.users.llm.kind import LLMUserSection
from rlver.components.users.llm.prompts import DIFFICULTIES, LANGUAGES, VERSION, digest
from rlver.components.users.llm.questions import LLMQuestions, Openings, ask

CODE_VERSION = "llm-4"  # raise it whenever the same answers could make another dialogue

A = TypeVar("A")


@dataclass(frozen=True)
class LLMSimulator:
    """Users played by the models of `parameters`. `emotion_start` is that of the dialogue's rules: the first appraisal begins there."""

    endpoint: ChatEndpoint
    difficulty: str
    parameters: LLMUserSection
    emotion_start: int
    _openings: Openings = field(default_factory=Openings, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def tag(self) -> SimulatorTag:
        halves = {"appraiser": self.parameters.appraiser.model, "speaker": self.parameters.speaker.model}
        if self.parameters.combined:
            halves = {"combined": halves["appraiser"]}
        models = " ".join(
            f"{half}={model}" for half, model in halves.items() if model is not None
        )  # one that is not asked may have no name
        return SimulatorTag(kind="llm", difficulty=self.difficulty, version=f"{CODE_VERSION} prompts={VERSION}-{digest()} {models}")

    def half(self) -> LLMSimulator:
        """The same models, asked apart: one call for both is for a user who is both."""
        return replace(self, parameters=self.parameters.model_copy(update={"combined": False}))

    def session(self, persona: Persona, seed: int) -> SimulatedUser:
        """Raises ValueError for a persona in a language that has no prompts."""
        one = self.speaker(persona, seed)
        return SimulatedUser(one, one, self.emotion_start)

    def speaker(self, persona: Persona, seed: int) -> LLMUser:
        """The models as one persona; raises as `session`."""
        if persona.language not in LANGUAGES:
            raise ValueError(f"persona {persona.persona_id}: language must be one of {', '.join(LANGUAGES)}, got {persona.language!r}")
        return LLMUser(self.endpoint, LLMQuestions(persona, self.difficulty, self.parameters), seed, self._openings, self.emotion_start)


@dataclass(frozen=True)
class LLMAppraiser:
    """The appraising model of an LLM user, whose endpoint is open and who speaks through another (see LLMSimulator.half)."""

    user: LLMSimulator

    @property
    def name(self) -> str:
        return f"llm:{self.user.parameters.appraiser.model}"

    @property
    def tag(self) -> SimulatorTag:
        return self.user.tag

    def appraiser(self, about: About, seed: int) -> LLMUser:
        """Raises ValueError without a persona, which the questions are about."""
        if about.persona is None:
            raise ValueError("a model appraises as a persona; give one")
        return self.user.speaker(about.persona, seed)

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return None


@dataclass
class LLMUser:
    """Appraiser and speaker of one user in one dialogue: with one call for both, an appraisal brings the next message along."""

    endpoint: ChatEndpoint
    questions: LLMQuestions
    seed: int
    openings: Openings
    emotion_start: int
    _message: str = ""
    _exchanges: list[Exchange] = field(default_factory=list)
    _felt: Appraisal | None = None
    _prepared: SpeechAnswer | None = None  # came with the last appraisal, when one call gives both

    async def open(self) -> Utterance:
        """The persona's fixed first line; where it has none, a message asked for once per persona. Raises SimulatorUnavailable."""
        persona = self.questions.persona
        self._message = persona.first_line or await self.openings.of(persona.persona_id, self._ask_opening)
        return Utterance(self._message, cue=None)

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        """See Appraiser. Raises SimulatorUnavailable; BudgetExceeded passes through, here and in `speak`."""
        asked, turn = self.questions, len(exchanges)
        if asked.parameters.combined:
            both = await self._ask(turn, "appraisal and message", asked.combined(emotion, exchanges, self.seed), read_combined)
            self._prepared = both.speech
            return Appraisal(**both.appraisal.model_dump())
        answer = await self._ask(turn, "the appraisal", asked.appraisal(emotion, exchanges, self.seed), read_appraisal)
        return Appraisal(**answer.model_dump())

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        self._exchanges.append(Exchange(self._message, reply))
        self._felt = appraisal

    async def speak(self, emotion: int) -> Utterance:
        speech, self._prepared = self._prepared or await self._ask_speech(emotion), None
        self._message = speech.message.strip()
        return Utterance(self._message, cue=None, wants_to_end=speech.wants_to_end)

    async def _ask_opening(self) -> str:
        speech = await self._ask(0, "the opening", self.questions.opening(self.emotion_start), read_opening)
        return speech.message.strip()

    async def _ask_speech(self, emotion: int) -> SpeechAnswer:
        if self._felt is None:
            raise RuntimeError("speak comes after appraise")
        request = self.questions.speech(emotion, self._exchanges, self._felt, self.seed)
        return await self._ask(len(self._exchanges), "the message", request, read_speech)

    async def _ask(self, turn: int, what: str, request: ChatRequest, read: Callable[[str, Persona], A]) -> A:
        questions = self.questions
        return await ask(
            self.endpoint,
            request,
            lambda text: read(text, questions.persona),
            questions.repair,
            questions.parameters.max_repairs,
            f"turn {turn}: {what}",
        )
