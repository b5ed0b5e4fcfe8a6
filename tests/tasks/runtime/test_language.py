"""The language of a policy's users decides its system message."""

from __future__ import annotations

from pathlib import Path

import pytest
from micro import micro_model, micro_tokenizer

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.load import save_policy
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.chat_server.running import reply_queue
from rlver.tasks.runtime.language import language_of, language_of_personas


@pytest.fixture
def settings(repository_root: Path) -> Settings:
    return load_settings(repository_root / "params.yaml")


def importing(settings: Settings, **named: str) -> Settings:
    return settings.model_copy(update={"personas": settings.personas.model_copy(update=named)})


def test_it_is_that_of_the_imported_personas(settings: Settings, tmp_path: Path) -> None:
    for name, row in {"zh": {"language": "zh"}, "old": {"persona_id": "p"}}.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [row])
    (tmp_path / "empty.jsonl").touch()
    assert language_of(settings, tmp_path) == "en"
    assert language_of(importing(settings, imported_train="zh.jsonl"), tmp_path) == "zh"
    assert language_of(importing(settings, imported_train="gone.jsonl", imported_test="zh.jsonl"), tmp_path) == "zh"
    assert [language_of_personas(tmp_path / name) for name in ("old.jsonl", "empty.jsonl")] == ["en", "en"]
    with pytest.raises(BadFile, match=r"^gone.jsonl: no such file; .*`rlver personas import` makes it$"):
        language_of(importing(settings, imported_test="gone.jsonl"), tmp_path)


@pytest.mark.parametrize(("named", "language"), [({}, "en"), ({"imported_test": "zh.jsonl"}, "zh")])
def test_a_served_policy_is_spoken_to_in_it(
    named: dict[str, str], language: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "zh.jsonl", [{"language": "zh"}])
    save_policy(micro_model(), micro_tokenizer(), tmp_path / "models" / "v")
    monkeypatch.setattr(environment, "project_root", lambda: tmp_path)
    replies = reply_queue(str(tmp_path / "models" / "v"), importing(settings, **named), None, True, print)
    assert replies._chat.system == system_prompt(settings.policy.thinking, language)


def test_without_a_system_message_of_ours_no_personas_are_needed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_policy(micro_model(), micro_tokenizer(), tmp_path / "models" / "v")
    monkeypatch.setattr(environment, "project_root", lambda: tmp_path)
    gone = importing(settings, imported_test="gone.jsonl")
    reply_queue(str(tmp_path / "models" / "v"), gone, None, False, print)
    with pytest.raises(BadFile, match=r"gone.jsonl: no such file"):
        reply_queue(str(tmp_path / "models" / "v"), gone, None, True, print)
