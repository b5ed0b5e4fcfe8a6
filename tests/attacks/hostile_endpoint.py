"""A project, and a server behind its chat endpoint that answers as it is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import people
from ruamel.yaml import YAML
from scripted_server import Asked, Reply, ask, good, key, parameters, serving

from rlver.components.domain.files import write_jsonl
from rlver.components.endpoint.chat import ChatAnswer
from rlver.components.endpoint.opening import open_endpoint

MODEL = "model-a"
QUICK = {"attempts": 2, "answer_timeout_s": 20.0, "backoff_first_s": 0.01, "backoff_most_s": 0.02}


def chat_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with two turns a dialogue and eight test personas, and nothing set; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["simulator"]["max_turns"] = 2
    values["policy"] |= {"thinking": False, "max_reply_tokens": 200, "max_context_tokens": 4000}
    values["endpoint"] |= QUICK
    values["evaluation"] |= {"bootstrap_samples": 200, "repeats": 1}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RLVER_")]:
        monkeypatch.delenv(name)
    return tmp_path


def only_model(number: int, asked: Asked, text: str = "I hear you.") -> Reply:
    return Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode()) if not asked.body else good(asked, text=text)


def first(*bodies: bytes) -> Callable[[int, Asked], Reply]:
    """These bodies, then good answers."""
    return lambda number, asked: Reply(body=bodies[number]) if number < len(bodies) else good(asked)


def asked_once(path: Path, script: Callable[[int, Asked], Reply], **changes: Any) -> tuple[ChatAnswer, dict[str, float]]:
    """One question, its answer and what the ledger says of the calls."""

    async def run() -> tuple[ChatAnswer, dict[str, float]]:
        async with serving(script) as server, open_endpoint(parameters(server.url, **changes), key, path / "a.db", False) as endpoint:
            answer = await endpoint.chat(ask("a"))
            return answer, endpoint.ledger.summary()

    return asyncio.run(run())


def chat_process(url: str | None, given: bytes, encoding: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": encoding}
    if url:
        surroundings["RLVER_POLICY_URL"] = url
    command = [sys.executable, "-m", "rlver.flows.cli", "chat", *arguments]
    return subprocess.run(command, input=given, env=surroundings, capture_output=True, timeout=120, check=False)
