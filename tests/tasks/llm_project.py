"""A small project whose users are played by the models of a local server, and what it leaves on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scripted_server import Script, Server, serving
from small_project import make_project

KEY = "sk-secret-0123456789abcdef"
MODEL = {"model": "user-model"}
LLM = {"kind": "llm", "llm": {"appraiser": MODEL, "speaker": MODEL}}
QUICK = {"attempts": 3, "answer_timeout_s": 5.0, "backoff_first_s": 0.01, "backoff_most_s": 0.05, "breaker_failures": 100}
PRICES = {"user-model": {"million_in": 1.0, "million_out": 2.0}}


def make_llm_project(root: Path, **endpoint: Any) -> None:
    """Variants `base` and `v` of the small project, with an LLM user; `scripted` has the scripted one."""
    make_project(root)
    change(root / "params.yaml", endpoint=QUICK | endpoint)
    for name in ("base", "v"):
        change(root / "params" / f"{name}.yaml", simulator=LLM)
    (root / "params" / "scripted.yaml").write_text("policy: {thinking: false}\n")


def change(path: Path, **sections: dict[str, Any]) -> None:
    """Lay values over those of a parameter file."""
    values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    for section, changes in sections.items():
        values[section] = values.get(section, {}) | changes
    YAML(typ="safe").dump(values, path)


def files_with(root: Path, text: str) -> list[str]:
    """The files below `root` that hold `text`, in whatever format they are."""
    found = [path for path in sorted(root.rglob("*")) if path.is_file()]
    assert found
    return [path.relative_to(root).as_posix() for path in found if text.encode() in path.read_bytes()]


def served(script: Script, body: Callable[[str], None]) -> Server:
    """Run `body` in a thread beside a server; what happens there has event loops of its own."""

    async def run() -> Server:
        async with serving(script) as server:
            await asyncio.to_thread(body, server.url)
            return server

    return asyncio.run(run())


def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:9/v1")


def variant_of_another_model(root: Path) -> str:
    """The name of a variant whose user is played by a model that the server does not have."""
    (root / "params" / "other.yaml").write_text((root / "params" / "v.yaml").read_text().replace("user-model", "another"))
    return "other"
