"""The OpenEnv server as their own client sees it: a real process, a real web socket. Needs the package openenv."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: it has an environment of its own (docs/adapters.md)")

import websockets
from openenv.core.generic_client import GenericEnvClient

from rlver.components.adapters import lent
from rlver.components.domain.persona import Persona
from rlver.components.rollout.episode import Job, Rollout
from rlver.components.settings.settings import load_settings
from rlver.tasks.commands.env import people, user

REPLIES = ("That sounds heavy. What hurts most about it?", "You tried so hard, and nobody noticed.", "Just calm down.", "I am here.")
SESSIONS = 8


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def url(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    where, port = tmp_path_factory.mktemp("served"), free_port()
    for name in ("params.yaml", "dvc.yaml"):
        (where / name).write_text((repository_root / name).read_text())
    command = (sys.executable, "-m", "rlver.flows.cli", "env", "serve", "--port", str(port), "--sessions", str(SESSIONS))
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, process.stdout and process.stdout.read()
                time.sleep(0.2)
        yield address
        process.terminate()


@pytest.fixture(scope="module")
def personas(repository_root: Path) -> list[Persona]:
    return people(None, load_settings(repository_root / "params.yaml"))


def own(repository_root: Path, persona: Persona, seed: int) -> tuple[list[lent.Turned], Rollout]:
    settings = load_settings(repository_root / "params.yaml")

    async def talk() -> list[lent.Turned]:
        job = Job("own", persona, seed)
        dialogue = lent.LentDialogue(job, user(settings), settings.simulator.rules, thinking=False)
        turned = [await dialogue.open()]
        while turned[-1].ended is None:
            turned.append(await dialogue.say(REPLIES[(len(turned) - 1) % len(REPLIES)]))
        return turned

    turned = asyncio.run(talk())
    assert turned[-1].ended is not None
    return turned, turned[-1].ended


async def over_the_wire(url: str, persona: Persona, seed: int) -> list[Any]:
    async with GenericEnvClient(base_url=url) as client:
        seen = [await client.reset(seed=seed, persona_id=persona.persona_id)]
        while not seen[-1].done:
            seen.append(await client.step({"message": REPLIES[(len(seen) - 1) % len(REPLIES)]}))
        state = await client.state()
        assert state["done"] and state["persona_id"] == persona.persona_id and state["step_count"] == len(seen) - 1
    return seen


def test_their_client_hears_our_user_to_the_byte(url: str, personas: list[Persona], repository_root: Path) -> None:
    for number, persona in enumerate(personas[:4]):
        turned, rollout = own(repository_root, persona, number)
        seen = asyncio.run(over_the_wire(url, persona, number))
        assert [one.observation["user"] for one in seen] == [one.words for one in turned]
        assert [one.observation["metadata"]["emotion"] for one in seen] == [one.emotion for one in turned]
        assert [one.reward for one in seen] == [None, *(one.change / 100 for one in turned[1:])]
        assert seen[-1].observation["metadata"]["hidden_need"] == rollout.dialogue.hidden_need
        before = json.dumps([one.observation for one in seen[:-1]])
        assert str(persona.hidden_need) not in before and persona.need_text not in before


def test_sessions_at_once_do_not_mix(url: str, personas: list[Persona]) -> None:
    async def all_at_once() -> list[list[Any]]:
        return await asyncio.gather(*(over_the_wire(url, personas[number], number) for number in range(SESSIONS - 1)))

    together = asyncio.run(all_at_once())
    for number, seen in enumerate(together):
        alone = asyncio.run(over_the_wire(url, personas[number], number))
        assert [one.observation["user"] for one in seen] == [one.observation["user"] for one in alone]


def test_bad_input_is_an_error_and_the_session_goes_on(url: str, personas: list[Persona]) -> None:
    async def talk() -> None:
        async with GenericEnvClient(base_url=url) as client:
            with pytest.raises(RuntimeError, match="reset before the first step"):
                await client.step({"message": "too early"})
            with pytest.raises(RuntimeError, match="no persona 'nobody'"):
                await client.reset(persona_id="nobody")
            await client.reset(seed=1)
            with pytest.raises(RuntimeError, match="at most 65,536"):
                await client.step({"message": "x" * 10_000_000})
            with pytest.raises(RuntimeError):
                await client.step({"wrong": "field"})
            result = await client.step({"message": "I am here."})
            while not result.done:
                result = await client.step({"message": "I am here."})
            with pytest.raises(RuntimeError, match="over"):
                await client.step({"message": "too late"})
            assert not (await client.reset(seed=2)).done

    asyncio.run(talk())


def test_bytes_that_are_no_text_close_one_session_alone(url: str) -> None:
    async def talk() -> None:
        async with GenericEnvClient(base_url=url) as other:
            await other.reset(seed=1)
            async with websockets.connect(url.replace("http", "ws") + "/ws") as raw:
                await raw.send(b"\xff\xfe{", text=True)
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await raw.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1007
            assert not (await other.step({"message": "I am here."})).done

    asyncio.run(talk())


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


def test_their_validation_passes(url: str) -> None:
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(url)
    assert report["passed"], report["summary"]


def test_another_host_is_not_answered(url: str) -> None:
    asked = urllib.request.Request(f"{url}/health", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(asked)
