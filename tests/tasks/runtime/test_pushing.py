"""How a training's weights get to its server: `rollout.push`, and what the server is asked to make room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rlver.components.settings.settings import Settings, read_settings
from rlver.tasks.runtime import assembly
from rlver.tasks.runtime.serving.server import Serving


def settings_with(root: Path, push: str, rank: int, sampler: str = "vllm") -> Settings:
    values = YAML(typ="safe").load((root / "params.yaml").read_text(encoding="utf-8"))
    values["rollout"] |= {"sampler": sampler, "push": push}
    values["train"]["lora_rank"] = rank
    return read_settings(values)


@pytest.mark.parametrize(
    ("push", "rank", "sampler", "alone"),
    [("adapters", 32, "vllm", 32), ("adapters", 0, "vllm", 0), ("merged", 32, "vllm", 0), ("adapters", 32, "transformers", 0)],
)
def test_adapters_go_alone_where_there_are_some_a_server_and_the_wish(
    push: str, rank: int, sampler: str, alone: int, repository_root: Path
) -> None:
    assert settings_with(repository_root, push, rank, sampler).pushed_rank == alone


def test_only_the_server_that_is_to_get_adapters_makes_room_for_them(repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    @contextmanager
    def available(root: Path, what: Serving) -> Iterator[str]:
        asked.append(what.adapter_rank)
        yield "http://127.0.0.1:7999"

    monkeypatch.chdir(repository_root)
    monkeypatch.setattr(assembly, "available", available)
    settings = settings_with(repository_root, "adapters", 32)
    with assembly.policy_server(settings, "m", 4, True, settings.pushed_rank), assembly.policy_server(settings, "m", 4):
        assert asked == [32, 0], "converse reads whole models"


def test_how_weights_are_sent_is_no_part_of_a_run_where_it_is_as_it_always_was(repository_root: Path) -> None:
    rollout = read_settings(YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))).rollout
    assert rollout.push == "merged" and "push" not in rollout.model_dump()
    assert rollout.model_copy(update={"push": "adapters"}).model_dump()["push"] == "adapters"
