"""A project with short parameters and a policy without training; the same where a language model is the user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import people
from llm_project import KEY, make_llm_project
from micro import micro_model, micro_tokenizer
from ruamel.yaml import YAML

from benchmarks.llm_server import running
from rlver.components.domain.files import write_jsonl
from rlver.components.policy.load import save_policy

SMALL = {
    "simulator": {"max_turns": 3},
    "policy": {"thinking": False, "max_reply_tokens": 6, "max_context_tokens": 900},
    "evaluation": {"concurrency": 3},
}


@pytest.fixture(scope="session")
def micro_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "micro"
    save_policy(micro_model(scale=2.0), micro_tokenizer(), folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with short parameters and eight test personas; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in SMALL.items():
        values[section] |= changes
    values["evaluation"]["repeats"] = 1
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def user_server() -> Iterator[str]:
    with running("--key", KEY) as url:
        yield url


@pytest.fixture
def llm_user_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_server: str) -> Path:
    """An untrained policy, eight test personas, the address and the key; the current directory."""
    make_llm_project(tmp_path)
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path / "models" / "base")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    for name, value in (("RLVER_USER_URL", user_server), ("RLVER_USER_KEY", KEY), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
        monkeypatch.setenv(name, value)
    return tmp_path
