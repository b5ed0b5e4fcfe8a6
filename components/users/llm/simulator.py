"""The LLM user behind the common protocol. One session is one user in one dialogue; all it awaits is the answers of the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag
from rlver.components.endpoint.chat import ChatEndpoint, ChatRequest
from rlver.components.users.llm.answers import AppraisalAnswer, SpeechAnswer, read_appraisal, read_combined, read_opening, read_speech
from rlver.components.users.llm.parameters import LLMUserParameters
from rlver.components.users.llm.prompts import DIFFICULTIES, LANGUAGES, VERSION, digest
from rlver.components.users.llm.questions import LLMExchange, LLMQuestions, Openings, ask

CODE_VERSION = "llm-1"  # raise it whenever the same answers could make another dialogue

A = TypeVar("A")


@dataclass(frozen=True)
class LLMSimulator:
    """Users played by the models of `parameters`. `emotion_start` is that of the dialogue's rules: the first appraisal begins there."""

    endpoint: ChatEndpoint
    difficulty: str
    parameters: LLMUserParameters
    emotion_start: int
    _openings: Openings = field(default_factory=Openings, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def tag(self) -> SimulatorTag:
        appraiser, speaker = self.parameters.appraiser.model, self.parameters.speaker.model
        models = f"combined={appraiser}" if self.parameters.combined else f"appraiser={appraiser} speaker={speaker}"
        return SimulatorTag(kind="llm", difficulty=self.difficulty, version=f"{CODE_VERSION} prompts={VERSION}-{digest()} {models}")

    def session(self, persona: Persona, seed: int) -> LLMSession:
        """Raises ValueError for a persona in a language that has no prompts."""
        if persona.language not in LANGUAGES:
            raise ValueError(f"persona {persona.persona_id}: language must be one of {', '.join(LANGUAGES)}, got {persona.language!r}")
        return LLMSession(self.endpoint, LLMQuestions(persona, self.difficulty, self.parameters), seed, self._openings, self.emotion_start)

    async def appraise_after(self, persona: Persona, exchanges: Sequence[LLMExchange], emotion: int, seed: int) -> Appraisal:
        """What the last reply of a dialogue that another user had does to this one. `emotion` is the one before it.

        Raises SimulatorUnavailable."""
        session = self.session(persona, seed)
        session.emotion = emotion
        *earlier, last = exchanges
        session._exchanges, session._message = list(earlier), last.message
        return await session.appraise(last.reply)


@dataclass
class LLMSession:
    """One user in one dialogue, for life. `emotion` is the present one: that of the rules, then what `speak` was told last."""

    endpoint: ChatEndpoint
    questions: LLMQuestions
    seed: int
    openings: Openings
    emotion: int
    _message: str = ""
    _exchanges: list[LLMExchange] = field(default_factory=list)
    _felt: Appraisal | None = None
    _prepared: SpeechAnswer | None = None  # came with the last appraisal, when one call gives both

    async def open(self) -> Utterance:
        """The persona's fixed first line; where it has none, a message asked for once per persona. Raises SimulatorUnavailable."""
        persona = self.questions.persona
        self._message = persona.first_line or await self.openings.of(persona.persona_id, self._ask_opening)
        return Utterance(self._message, cue=None)

    async def appraise(self, reply: str) -> Appraisal:
        """See UserSession. Raises SimulatorUnavailable; BudgetExceeded passes through, here and in `speak`."""
        self._exchanges.append(LLMExchange(self._message, reply))
        answer = await (self._ask_both() if self.questions.parameters.combined else self._ask_appraisal())
        self._felt = Appraisal(**answer.model_dump())
        return self._felt

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        """Take `reply` and what another appraiser made of it; no model is asked."""
        self._exchanges.append(LLMExchange(self._message, reply))
        self._felt, self._prepared = appraisal, None

    async def speak(self, emotion: int) -> Utterance:
        """See UserSession. Raises SimulatorUnavailable."""
        self.emotion = emotion
        speech = self._prepared or await self._ask_speech()
        self._message = speech.message.strip()
        return Utterance(self._message, cue=None, wants_to_end=speech.wants_to_end)

    async def _ask_opening(self) -> str:
        speech = await self._ask("the opening", self.questions.opening(self.emotion), read_opening)
        return speech.message.strip()

    async def _ask_appraisal(self) -> AppraisalAnswer:
        request = self.questions.appraisal(self.emotion, self._exchanges, self.seed)
        return await self._ask("the appraisal", request, read_appraisal)

    async def _ask_both(self) -> AppraisalAnswer:
        request = self.questions.combined(self.emotion, self._exchanges, self.seed)
        both = await self._ask("appraisal and message", request, read_combined)
        self._prepared = both.speech
        return both.appraisal

    async def _ask_speech(self) -> SpeechAnswer:
        if self._felt is None:
            raise RuntimeError("speak comes after appraise")
        request = self.questions.speech(self.emotion, self._exchanges, self._felt, self.seed)
        return await self._ask("the message", request, read_speech)

    async def _ask(self, what: str, request: ChatRequest, read: Callable[[str, Persona], A]) -> A:
        questions = self.questions
        return await ask(
            self.endpoint,
            request,
            lambda text: read(text, questions.persona),
            questions.repair,
            questions.parameters.max_repairs,
            f"turn {len(self._exchanges)}: {what}",
        )
