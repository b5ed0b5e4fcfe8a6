"""A chat endpoint in memory that answers as scripted, and the answers it gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlver.components.endpoint.chat import ChatAnswer, ChatRequest
from rlver.components.users.llm.kind import LLMUserSection, ModelSection

APPRAISER = ModelSection(model="appraiser-1", temperature=0.5, top_p=1.0, max_tokens=900)
SPEAKER = ModelSection(model="speaker-1", temperature=0.9, top_p=0.95, max_tokens=700)
TWO_CALLS = LLMUserSection(appraiser=APPRAISER, speaker=SPEAKER, combined=False, max_repairs=2, max_quoted_characters=2000)
ONE_CALL = LLMUserSection(appraiser=APPRAISER, speaker=APPRAISER, combined=True, max_repairs=2, max_quoted_characters=2000)

_PROSE = {
    "en": {"text": "They asked how my week was", "message": "ugh, same as ever. The kettle broke too"},
    "zh": {"text": "对方问我这周过得怎么样", "message": "唉，还不是老样子，水壶也坏了"},
}


def appraisal(language: str = "en", **changes: Any) -> dict[str, Any]:
    text = _PROSE[language]["text"]
    return {"content": text, "target": text, "activity": text, "feeling": text, "change": 4} | changes


def speech(language: str = "en", **changes: Any) -> dict[str, Any]:
    prose = _PROSE[language]
    return {"thinking": prose["text"], "draft": prose["text"], "message": prose["message"], "wants_to_end": False} | changes


def step_of(request: ChatRequest) -> str:
    """appraise, speak or combined, by the schema that is asked for."""
    assert request.schema is not None
    return {"AppraisalAnswer": "appraise", "SpeechAnswer": "speak", "CombinedAnswer": "combined"}[request.schema["title"]]


def language_of(request: ChatRequest) -> str:
    return "zh" if "当事人" in request.messages[0].content else "en"


def usual(request: ChatRequest, change: int = 4, **said: Any) -> str:
    """What an able model answers."""
    language = language_of(request)
    felt, spoken = appraisal(language, change=change), speech(language, **said)
    return json.dumps({"appraise": felt, "speak": spoken, "combined": {"appraisal": felt, "speech": spoken}}[step_of(request)])


@dataclass
class ScriptedEndpoint:
    """`answer` gives the text of each answer, or the exception to raise. Yields, so that dialogues interleave."""

    answer: Callable[[ChatRequest], str | Exception] = usual
    finish_reason: str = "stop"
    requests: list[ChatRequest] = field(default_factory=list)

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return ChatAnswer(answer, None, self.finish_reason, tokens_in=100, tokens_out=10, seconds=0.1, cached=False)

    @property
    def steps(self) -> list[str]:
        return [step_of(request) for request in self.requests]
