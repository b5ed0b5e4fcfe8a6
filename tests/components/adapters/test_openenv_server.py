"""The OpenEnv server as their own client sees it: a real process, a real web socket. Needs the package openenv."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: it has an environment of its own (docs/adapters.md)")

import uvicorn
import websockets
from openenv.core.generic_client import GenericEnvClient
from served_users import CREATE, SERVE, SESSIONS, free_port, posted, served

from rlver.components.adapters import lent, openenv
from rlver.components.domain.persona import Persona
from rlver.components.rollout.episode import Job, Rollout
from rlver.components.settings.settings import load_settings
from rlver.components.users.together import user_of
from rlver.tasks.commands.env import people

REPLIES = ("That sounds heavy. What hurts most about it?", "You tried so hard, and nobody noticed.", "Just calm down.", "I am here.")


@pytest.fixture(scope="module")
def url(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(repository_root, tmp_path_factory.mktemp("served"), *SERVE) as address:
        yield address


@pytest.fixture(scope="module")
def final_url(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(repository_root, tmp_path_factory.mktemp("final"), *SERVE, "--reward", "final", "--thinking") as address:
        yield address


@pytest.fixture(scope="module")
def personas(repository_root: Path) -> list[Persona]:
    return people(None, load_settings(repository_root / "params.yaml"))


Held = tuple[list[lent.Turned], Rollout]


def own(
    root: Path, persona: Persona, seed: int, replies: Sequence[str] = REPLIES, thinking: bool = False, difficulty: str | None = None
) -> Held:
    """The same dialogue without a server."""
    settings = load_settings(root / "params.yaml")

    async def talk() -> list[lent.Turned]:
        dialogue = lent.LentDialogue(Job("own", persona, seed), user_of(settings.simulator, difficulty), settings.simulator.rules, thinking)
        turned = [await dialogue.open()]
        while turned[-1].ended is None:
            turned.append(await dialogue.say(replies[(len(turned) - 1) % len(replies)]))
        return turned

    turned = asyncio.run(talk())
    assert turned[-1].ended is not None
    return turned, turned[-1].ended


async def over_the_wire(url: str, persona: Persona, seed: int, replies: Sequence[str] = REPLIES, **asked: str) -> list[Any]:
    async with GenericEnvClient(base_url=url) as client:
        seen = [await client.reset(seed=seed, persona_id=persona.persona_id, **asked)]
        while not seen[-1].done:
            seen.append(await client.step({"message": replies[(len(seen) - 1) % len(replies)]}))
        state = await client.state()
        assert state["done"] and state["persona_id"] == persona.persona_id and state["step_count"] == len(seen) - 1
    return seen


def words(seen: Sequence[Any]) -> list[str]:
    return [one.observation["user"] for one in seen]


def test_their_client_hears_our_user_to_the_byte(url: str, personas: list[Persona], repository_root: Path) -> None:
    for number, persona in enumerate(personas[:4]):
        turned, rollout = own(repository_root, persona, number)
        seen = asyncio.run(over_the_wire(url, persona, number))
        assert words(seen) == [one.words for one in turned]
        assert [one.observation["metadata"]["emotion"] for one in seen] == [one.emotion for one in turned]
        assert [one.reward for one in seen] == [None, *(one.change / 100 for one in turned[1:])]
        assert seen[-1].observation["metadata"]["hidden_need"] == rollout.dialogue.hidden_need
        assert all(set(one.observation["metadata"]) == {"emotion", "change", "turn"} for one in seen[:-1]), "reasons may name the need"
        reasons = [one.appraisal.model_dump(mode="json") if one.appraisal else None for one in rollout.dialogue.turns]
        assert seen[-1].observation["metadata"]["appraisals"] == reasons
        before = json.dumps([one.observation for one in seen[:-1]])
        assert str(persona.hidden_need) not in before and persona.need_text not in before


def test_the_reward_may_come_all_at_the_end(final_url: str, personas: list[Persona], repository_root: Path) -> None:
    with_thought = [f"<think>What do they need?</think>{reply}" for reply in REPLIES]
    turned, rollout = own(repository_root, personas[0], 5, with_thought, thinking=True)
    seen = asyncio.run(over_the_wire(final_url, personas[0], 5, with_thought))
    assert words(seen) == [one.words for one in turned] == [one.words for one in own(repository_root, personas[0], 5)[0]], (
        "no thought is heard"
    )
    assert rollout.dialogue.emotion_final, "the sum of no change would be 0 as well"
    assert [one.reward for one in seen] == [None, *[0.0] * (len(seen) - 2), rollout.dialogue.emotion_final / 100]
    assert seen[-1].observation["metadata"]["well_formed"] is True


def test_a_dialogue_without_the_thoughts_that_are_asked_for_is_worth_nothing(final_url: str, personas: list[Persona]) -> None:
    seen = asyncio.run(over_the_wire(final_url, personas[0], 5))
    assert seen[-1].observation["metadata"]["emotion"] > 0 and seen[-1].observation["metadata"]["well_formed"] is False
    assert seen[-1].reward == 0.0


def test_a_reset_chooses_the_difficulty(url: str, personas: list[Persona], repository_root: Path) -> None:
    held = {name: own(repository_root, personas[1], 3, difficulty=name)[0] for name in ("vanilla", "challenging")}
    heard = {name: words(asyncio.run(over_the_wire(url, personas[1], 3, difficulty=name))) for name in held}
    assert heard == {name: [one.words for one in turned] for name, turned in held.items()}
    assert heard["vanilla"] != heard["challenging"]

    async def unknown() -> None:
        async with GenericEnvClient(base_url=url) as client:
            await client.reset(seed=1)
            with pytest.raises(RuntimeError, match="impossible"):
                await client.reset(seed=2, difficulty="impossible")
            assert not (await client.step({"message": "I am here."})).done, "the dialogue before goes on"

    asyncio.run(unknown())


def test_uvicorn_serves_the_application_of_a_project(tmp_path: Path, personas: list[Persona], repository_root: Path) -> None:
    command = ("uvicorn", "--factory", "rlver.tasks.commands.env:app", "--port", "PORT", "--log-level", "warning")
    with served(repository_root, tmp_path, *command) as address:
        assert words(asyncio.run(over_the_wire(address, personas[2], 4))) == [one.words for one in own(repository_root, personas[2], 4)[0]]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(f"{address}/health", headers={"Origin": "http://evil.example"}))


def test_sessions_at_once_do_not_mix(url: str, personas: list[Persona]) -> None:
    async def all_at_once() -> list[list[Any]]:
        return await asyncio.gather(*(over_the_wire(url, personas[number], number) for number in range(SESSIONS - 1)))

    together = asyncio.run(all_at_once())
    for number, seen in enumerate(together):
        alone = asyncio.run(over_the_wire(url, personas[number], number))
        assert words(seen) == words(alone)


def test_clients_that_vanish_free_their_sessions(url: str) -> None:
    async def talk() -> None:
        for _ in range(3):
            gone = [await websockets.connect(url.replace("http", "ws") + "/ws") for _ in range(SESSIONS)]
            for one in gone:
                await one.send(json.dumps({"type": "reset", "data": {}}))
                assert json.loads(await one.recv())["type"] == "observation"
            for one in gone:
                one.transport.abort()
            await asyncio.sleep(0.5)

    asyncio.run(talk())


def test_a_session_that_is_left_is_freed(repository_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params.yaml").write_text((repository_root / "params.yaml").read_text())
    monkeypatch.setattr(openenv, "IDLE_S", 0.1)  # they look every five seconds
    settings = load_settings(tmp_path / "params.yaml")
    offered = openenv.Offered(
        {one.persona_id: one for one in people(None, settings)}, lambda _: user_of(settings.simulator), settings.simulator.rules, count(7)
    )
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(openenv.server(offered, 1, web=False), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.05)
    address = f"http://127.0.0.1:{port}"
    assert "result" in posted(address, "/mcp", CREATE)[1]
    assert "capacity" in posted(address, "/mcp", CREATE)[1]["error"]["message"]
    end = time.monotonic() + 20
    while posted(address, "/mcp", CREATE)[1].get("error"):
        assert time.monotonic() < end
        time.sleep(0.5)
    server.should_exit = True
    thread.join(20)


def test_their_validation_passes(url: str) -> None:
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(url)
    assert report["passed"], report["summary"]


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_another_host_or_page_is_not_answered(url: str, headers: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/health", headers=headers))


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
def test_a_page_of_another_site_opens_no_web_socket(url: str, path: str) -> None:
    async def opened(origin: str) -> None:
        async with websockets.connect(url.replace("http", "ws") + path, origin=websockets.Origin(origin)):
            pass

    asyncio.run(opened(url))
    with pytest.raises(websockets.InvalidStatus, match="403"):
        asyncio.run(opened("http://evil.example"))


def test_resets_that_name_no_seed_meet_one_user_after_another(url: str) -> None:
    async def met() -> list[int]:
        seeds = []
        for _ in range(2):
            async with GenericEnvClient(base_url=url) as client:
                for _ in range(2):
                    await client.reset()
                    seeds.append((await client.state())["seed"])
        return seeds

    seeds = asyncio.run(met())
    assert seeds == list(range(seeds[0], seeds[0] + 4))
