"""A policy as folders for others: they load with plain transformers and datasets, and say what training said."""

from __future__ import annotations

import copy
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import load_dataset
from evidence import dialogues
from fakes import people
from huggingface_hub import DatasetCard, HfApi, ModelCard
from micro import micro_model, micro_tokenizer
from profiles import profile, write_profiles
from tracked_project import LOCK
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.thinking import system_prompt
from rlver.components.personas.profiles import import_profiles
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy, save_policy
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.runtime.conversing import as_evaluated
from rlver.tasks.tracking import publishing
from rlver.tasks.tracking.cards import Facts
from rlver.tasks.tracking.publishing import Publication, publication, push, write
from rlver.tasks.tracking.registry import NotReady, facts_of

CI = {"lo": 40.0, "hi": 61.0}
SCORES = {
    "emotion_mean": 50.5, "emotion_ci95": CI, "n": 40, "failed_dialogues": 0,
    "success_rate": 0.2, "success_ci95": {"lo": 0.1, "hi": 0.3}, "failure_rate": 0.1, "failure_ci95": {"lo": 0.0, "hi": 0.2},
}  # fmt: skip


@pytest.fixture
def found(tmp_path: Path, repository_root: Path) -> Publication:
    """A micro model in bfloat16, its dialogues and everybody's personas."""
    save_policy(micro_model().to(torch.bfloat16), micro_tokenizer(), tmp_path / "models" / "v")
    write_jsonl(tmp_path / "v.jsonl", [one.model_dump(mode="json") for one in dialogues("v", [1, 2, 3] * 3)])
    for split, personas in zip(("train", "test"), people(), strict=True):
        write_jsonl(tmp_path / f"{split}.jsonl", [one.model_dump(mode="json") for one in personas])
    facts = Facts("v", "Qwen/Qwen2.5-0.5B-Instruct@main", False, {"seed": "7"}, {"data/train.jsonl": "a" * 32}, SCORES, "b" * 32, "c" * 12)
    settings = as_evaluated(load_settings(repository_root / "params.yaml", "grpo-direct"))
    base = settings.base.model_copy(update={"kind": "model"})
    return Publication(
        "v", facts, settings.model_copy(update={"base": base}), tmp_path / "models" / "v", tmp_path / "v.jsonl",
        {split: tmp_path / f"{split}.jsonl" for split in ("train", "test")},
    )  # fmt: skip


def test_the_model_speaks_with_plain_transformers_as_it_did_in_training(found: Publication, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in found.model.iterdir()}
    write(found, tmp_path / "out", "me/v")
    folder = tmp_path / "out" / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    chat = ChatFormat(load_policy(found.model)[1], system_prompt(thinking=False))
    talk = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False) == chat.start("hi")
    talk = [{"role": "system", "content": "Be brief."}, *talk]
    assert tokenizer.apply_chat_template(talk, return_dict=False) == chat.of_messages(talk, generation_prompt=False)
    assert model.dtype == torch.bfloat16
    said = GenerationConfig.from_pretrained(folder)
    policy = found.settings.policy
    assert (said.do_sample, said.temperature, said.top_p, said.max_new_tokens) == (True, 0.8, policy.top_p, policy.max_reply_tokens)
    assert said.eos_token_id == tokenizer.eos_token_id
    assert {path.name: path.read_bytes() for path in found.model.iterdir()} == before, "what DVC made stays as it is"


def test_a_policy_of_chinese_users_brings_the_chinese_prompt(found: Publication, tmp_path: Path) -> None:
    chinese = import_profiles(write_profiles(tmp_path / "profiles.jsonl", profile()), "test")
    write_jsonl(found.personas["test"], [one.model_dump(mode="json") for one in chinese])
    write(found, tmp_path / "out", "me/v")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "model")
    trained = ChatFormat(load_policy(found.model)[1], system_prompt(False), {"zh": system_prompt(False, "zh")})
    talk = [{"role": "user", "content": "你好"}]
    assert tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False) == trained.start("你好", "zh")


def test_files_of_dvcs_cache_that_nobody_may_write_are_copied_as_files_that_one_may(found: Publication, tmp_path: Path) -> None:
    """As DVC leaves them with `cache.type hardlink`."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for path in found.model.iterdir():
        path.chmod(0o444)
        os.link(path, cache / path.name)
    before = {path.name: path.read_bytes() for path in cache.iterdir()}
    write(found, tmp_path / "out", "me/v")
    assert all(path.stat().st_mode & stat.S_IWUSR for path in (tmp_path / "out" / "model").iterdir())
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == before, "not written through the links"


@pytest.mark.parametrize("named", ["{root}/alices/qwen", "alices/qwen", "../elsewhere/qwen", "gguf:{root}/alices/qwen"])
def test_the_cards_do_not_tell_where_a_base_lies_here(found: Publication, tmp_path: Path, named: str) -> None:
    (tmp_path / "alices" / "qwen").mkdir(parents=True)
    (tmp_path / "sentient.json").write_text(json.dumps(SCORES))
    base = found.settings.base.model_copy(update={"model": named.format(root=tmp_path)})
    settings = found.settings.model_copy(update={"base": base})
    facts = facts_of(tmp_path, "v", LOCK["train@v"], tmp_path / "sentient.json", settings)
    write(replace(found, facts=facts, settings=settings), tmp_path / "out", "me/v")
    card = ModelCard.load(tmp_path / "out" / "model" / "README.md")
    assert card.data.base_model is None and "- base: a local model\n" in card.text
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"alices" in path.read_bytes()] == []
    assert facts_of(tmp_path, "v", LOCK["train@v"], tmp_path / "sentient.json", found.settings).base == str(found.settings.base.model)


WITHOUT_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
)


@pytest.mark.parametrize("system", ["Be kind.", 'He said "no" and {{ left }}.\nThen \\ 你好 {% raw %}'])
def test_a_template_without_a_system_role_gets_it_in_front_of_the_first_message(system: str) -> None:
    tokenizer = copy.deepcopy(micro_tokenizer())
    tokenizer.chat_template = publishing.with_system(WITHOUT_SYSTEM, system, takes_system=False)
    talk = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))]
    shown = tokenizer.apply_chat_template(talk, tokenize=False)
    assert shown == f"<|user|>{system}\n\na<|end|><|assistant|>b<|end|><|user|>c<|end|>"
    asked = [{"role": "system", "content": system}, *talk]
    read_back = tokenizer.decode(ChatFormat(tokenizer, system).of_messages(asked, generation_prompt=False))
    assert read_back == shown, "once, also where this project puts it there itself"


def test_the_cards_say_where_it_comes_from_and_how_it_was_measured(found: Publication, tmp_path: Path) -> None:
    write(found, tmp_path / "out", "me/v")
    card = ModelCard.load(tmp_path / "out" / "model" / "README.md")
    assert (card.data.base_model, card.data.license, card.data.datasets) == ("Qwen/Qwen2.5-0.5B-Instruct", "other", ["me/v-dialogues"])
    (result,) = card.data.eval_results
    assert (result.metric_value, result.dataset_name) == (50.5, found.users) and "vanilla" in found.users
    for words in (
        "final emotion 50.5 [40.0, 61.0]",
        "success 20% [10%, 30%]",
        "MD5 " + "b" * 32,
        "temperature 0.8",
        "is no help in a crisis",
    ):
        assert words in card.text
    assert DatasetCard.load(tmp_path / "out" / "dialogues" / "README.md").data.task_categories == ["text-generation"]


def test_the_dialogues_load_as_a_dataset(found: Publication, tmp_path: Path) -> None:
    write(found, tmp_path / "out", "me/v")
    folder, cache = str(tmp_path / "out" / "dialogues"), str(tmp_path / "cache")
    rows = load_dataset(folder, cache_dir=cache)["test"]
    assert [row["emotion_final"] for row in rows] == [json.loads(line)["emotion_final"] for line in found.transcripts.open()]
    assert [len(row["turns"]) for row in rows] == [len(json.loads(line)["turns"]) for line in found.transcripts.open()]
    personas = load_dataset(folder, "personas", cache_dir=cache)
    assert {split: len(rows) for split, rows in personas.items()} == {
        split: len(path.open().readlines()) for split, path in found.personas.items()
    }


def test_nothing_is_overwritten_and_nothing_half_written(found: Publication, tmp_path: Path) -> None:
    files = write(found, tmp_path / "out", "me/v")
    assert {path.relative_to(tmp_path / "out").parts[0] for path in files} == {"model", "dialogues"}
    with pytest.raises(ValueError, match="out is there already"):
        write(found, tmp_path / "out", "me/v")
    found.transcripts.unlink()
    with pytest.raises(BadFile, match=r"v\.jsonl: no such file"):
        write(found, tmp_path / "other", "me/v")
    assert not [path for path in tmp_path.iterdir() if "other" in path.name]


@pytest.mark.parametrize("public", [False, True])
def test_both_folders_go_to_the_hub_private_unless_asked(
    found: Publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, public: bool
) -> None:
    made, sent = [], {}
    monkeypatch.setattr(HfApi, "create_repo", lambda _, name, **more: made.append((name, more)) or f"hub/{name}")
    monkeypatch.setattr(
        HfApi, "upload_folder", lambda _, **more: sent.__setitem__(more["repo_id"], (more["repo_type"], more["folder_path"]))
    )
    write(found, tmp_path / "out", "me/v")
    assert push(tmp_path / "out", "me/v", public) == ["hub/me/v", "hub/me/v-dialogues"]
    assert [more["private"] for _, more in made] == [not public] * 2
    assert sent == {"me/v": ("model", tmp_path / "out" / "model"), "me/v-dialogues": ("dataset", tmp_path / "out" / "dialogues")}


def test_only_what_was_trained_scored_and_is_up_to_date_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = {name: stage for name, stage in LOCK.items() if name != "score@v"}
    monkeypatch.setattr(dvc, "locked", lambda _: lock)
    with pytest.raises(NotReady, match="w was not trained here; there is v"):
        publication(tmp_path, "w")
    with pytest.raises(NotReady, match="not run yet: score@v"):
        publication(tmp_path, "v")
    lock = dict(LOCK)
    monkeypatch.setattr(dvc, "changed", lambda root, stages: {stages[1]: ["code"]})
    with pytest.raises(NotReady, match="out of date: converse@v"):
        publication(tmp_path, "v")


@pytest.mark.parametrize(
    ("named", "kept"), [("bfloat16", torch.bfloat16), ("float16", torch.float16), ("float32", torch.float32), (None, torch.float32)]
)
def test_a_policy_is_saved_in_the_format_that_its_base_came_in(named: str | None, kept: torch.dtype, tmp_path: Path) -> None:
    save_policy(micro_model(), micro_tokenizer(), tmp_path / "base")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    config.pop("dtype", None)
    (tmp_path / "base" / "config.json").write_text(json.dumps(config | ({"torch_dtype": named} if named else {})))
    model, tokenizer = load_policy(tmp_path / "base")
    assert model.dtype == torch.float32
    save_policy(model, tokenizer, tmp_path / "trained", like=tmp_path / "base")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "trained").dtype == kept
