"""The page over HTTP, and policies that say what they are told to say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.testclient import TestClient

from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import Said as Spoken
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.page import Page, page_guard
from rlver.tasks.studies.blind.talking import Talking, TalkSpeaker

HOST = "http://127.0.0.1:7500"
FIRST, SECOND = "1" * 32, "2" * 32


@dataclass
class ScriptedPolicy:
    """Says what it was told; an exception in its script is raised."""

    name: str
    script: list[str | Exception]
    heard: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    closed: int = 0
    wait_s: float = 0.0

    def start(self) -> None: ...

    async def close(self) -> None: ...

    def session(self, dialogue_id: str, seed: int, language: str) -> ScriptedSession:
        self.languages.append(language)
        return ScriptedSession(self)

    async def reply(self, user: str) -> Reply:
        self.heard.append(user)
        await asyncio.sleep(self.wait_s)
        said = self.script[(len(self.heard) - 1) % len(self.script)]
        if isinstance(said, Exception):
            raise said
        return Reply(Spoken("secret-thought", said, True), False, None, None)


@dataclass
class ScriptedSession:
    policy: ScriptedPolicy
    tokens = Tokens()

    async def reply(self, user: str) -> Reply:
        return await self.policy.reply(user)

    def close(self) -> None:
        self.policy.closed += 1


def client(page: Page, host: str = "127.0.0.1", key: str | None = None) -> TestClient:
    return TestClient(page_guard(page.app(), hosts_of(host, 7500), key), base_url=HOST, raise_server_exceptions=False)  # type: ignore[arg-type]


def answer(place: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "rater": "Ann", "place": place, "answer_id": FIRST, "choice": "left", "confidence": 2, "reason": "", "seconds": 3.0, **changes
    }  # fmt: skip


def talking(file: AnswerFile, a: ScriptedPolicy, b: ScriptedPolicy, most_open: int = 4) -> Talking:
    speakers: dict[Any, TalkSpeaker] = {"a": TalkSpeaker("secret-policy-a", a), "b": TalkSpeaker("secret-policy-b", b)}
    return Talking(speakers, file, lambda: "now", 7, most_open, lambda line: None)


def message(text: str = "I am sad.", **changes: Any) -> dict[str, Any]:
    return {"rater": "Ann", "talk": None, "message_id": FIRST, "text": text, **changes}


def give(page: httpx.Client, place: int) -> httpx.Response:
    return page.post("/api/answer", json=answer(place, answer_id=f"{place:032x}"))
