"""A trained policy as two folders that others can use as they are, and can be sent to the Hugging Face hub: `rlver publish`.

<out>/model: the weights as they were scored, the sampling they were scored with (generation_config.json), a chat template that brings the
system prompt of the training where a conversation has none, and a model card. <out>/dialogues: the benchmark dialogues and the personas,
with a dataset card. models/<variant> itself stays as it is: DVC would miss a changed file, and lm-eval reads its template.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import read_jsonl
from rlver.components.domain.transcript import SimulatorTag
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.runtime.conversing import as_evaluated
from rlver.tasks.tracking import records
from rlver.tasks.tracking.cards import LOCAL_BASE, Facts, card
from rlver.tasks.tracking.registry import NotReady, facts_of

SCORE = "sentient.json"
MODEL, DIALOGUES = "model", "dialogues"


@dataclass(frozen=True)
class Publication:
    """What there is of a variant: paths are from the project's root, `personas` by split."""

    variant: str
    facts: Facts
    settings: Settings
    model: Path
    transcripts: Path
    personas: Mapping[str, Path]

    @property
    def users(self) -> str:
        """Whom it talked with, by the first dialogue; scores of mixed users are refused where they are made."""
        tag = SimulatorTag.model_validate(next(read_jsonl(self.transcripts))[1]["simulator"])
        return f"simulated users, {tag.kind} {tag.version}, {tag.difficulty}"

    @property
    def language(self) -> str:
        return str(next(read_jsonl(self.personas["test"]))[1]["language"])


def publication(root: Path, variant: str) -> Publication:
    """What was trained and scored under this name, in any pipeline. Raises NotReady."""
    lock = dvc.locked(root)
    trained = dvc.trained(lock)
    named = [name for name, what in trained.items() if what == variant]
    if len(named) != 1:
        there = ", ".join(sorted(trained.values())) or "none; `rlver run` trains one"
        raise NotReady(f"{variant} was not trained here{' under one name' if named else ''}; there is {there}")
    prefix = named[0][: named[0].rfind(":") + 1]
    stages = [*named, *(f"{prefix}{stage}@{variant}" for stage in ("converse", "score"))]
    if missing := [name for name in stages if name not in lock]:
        raise NotReady(f"not run yet: {', '.join(missing)}; run `rlver run --variants {variant}` first")
    if stale := sorted(set(dvc.changed(root, stages)) & set(stages)):
        raise NotReady(
            f"out of date: {', '.join(stale)}; run `rlver run --variants {variant}` first, so that what is published was measured"
        )
    train, converse, score = (lock[name] for name in stages)
    settings = load_settings(root / "params.yaml", variant)
    return Publication(
        variant=variant,
        facts=facts_of(root, variant, train, root / _only(score.outputs, SCORE), settings),
        settings=as_evaluated(settings),
        model=root / _of_kind(train, "models"),
        transcripts=root / _of_kind(converse, "transcripts"),
        personas={"train": root / _only(train.dependencies, "train.jsonl"), "test": root / _only(converse.dependencies, "test.jsonl")},
    )


def write(found: Publication, out: Path, name: str) -> list[Path]:
    """Fill `out`, which must not be there yet; nothing is left when that fails. `name`: OWNER/NAME on the hub. Returns the files."""
    if out.exists():
        raise ValueError(f"{out} is there already; remove it or name another folder with -o")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        _write_model(found, part / MODEL, name)
        _write_dialogues(found, part / DIALOGUES, name)
        part.replace(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return sorted(path for path in out.rglob("*") if path.is_file())


def push(out: Path, name: str, public: bool) -> list[str]:
    """Send both folders to the hub as OWNER/NAME and the dataset OWNER/NAME-dialogues; returns their addresses.

    The hub's own key is used (`hf auth login`, or HF_TOKEN). Raises what huggingface_hub raises.
    """
    from huggingface_hub import HfApi

    hub, addresses = HfApi(), []
    for folder, kind, repository in ((MODEL, "model", name), (DIALOGUES, "dataset", f"{name}-dialogues")):
        addresses.append(str(hub.create_repo(repository, repo_type=kind, private=not public, exist_ok=True)))
        hub.upload_folder(folder_path=out / folder, repo_id=repository, repo_type=kind, commit_message="Published by rlver")
    return addresses


def with_system(template: str, system: str, takes_system: bool) -> str:
    """A chat template that puts `system` before a conversation that has no system message, as training did.

    A template that knows no system role gets it in front of the first message.
    """
    said = json.dumps(system)
    if takes_system:
        put = f"{{% if messages[0]['role'] != 'system' %}}{{% set messages = [{{'role': 'system', 'content': {said}}}] + messages %}}{{% endif %}}"
    else:
        first = f"{{'role': 'user', 'content': {said} + '\\n\\n' + messages[0]['content']}}"
        again = f"messages[0]['content'].startswith({said})"  # this project puts it there itself
        put = f"{{% if messages[0]['role'] == 'user' and not {again} %}}{{% set messages = [{first}] + messages[1:] %}}{{% endif %}}"
    return put + template


def _write_model(found: Publication, folder: Path, name: str) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    from rlver.components.domain.thinking import system_prompt
    from rlver.components.policy.chat import ChatFormat

    shutil.copytree(found.model, folder, copy_function=shutil.copyfile)  # without the modes: files of DVC's cache cannot be written
    policy = found.settings.policy
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    chat = ChatFormat(tokenizer, system_prompt(policy.thinking, found.language))
    tokenizer.chat_template = with_system(tokenizer.chat_template, chat.system, chat.takes_system)
    tokenizer.save_pretrained(folder)
    greedy = policy.temperature == 0
    GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=not greedy,
        **({} if greedy else {"temperature": policy.temperature, "top_p": policy.top_p, "top_k": 0}),
        max_new_tokens=policy.max_reply_tokens,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
    ).save_pretrained(folder)
    (folder / "README.md").write_text(_model_card(found, name), encoding="utf-8")


def _write_dialogues(found: Publication, folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    shutil.copy(found.transcripts, folder / "dialogues.jsonl")
    for split, path in found.personas.items():
        shutil.copy(path, folder / f"personas_{split}.jsonl")
    (folder / "README.md").write_text(_dataset_card(found, name), encoding="utf-8")


def _model_card(found: Publication, name: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    facts = found.facts
    is_of_hub = not facts.own_base and found.settings.base.kind == "model" and ":" not in facts.base and facts.base != LOCAL_BASE
    about = ModelCardData(
        model_name=name,
        language=found.language,
        license="apache-2.0" if facts.own_base else "other",
        license_name=None if facts.own_base else "as-the-base-model",
        base_model=facts.base.partition("@")[0] if is_of_hub else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        datasets=[f"{name}-dialogues"],
        tags=["rlver", "reinforcement-learning", found.settings.train.algorithm],
        eval_results=[
            EvalResult(
                task_type="text-generation", task_name="emotional support", dataset_type=f"{name}-dialogues", metric_type="final-emotion",
                dataset_name=found.users, metric_name="mean final emotion, 0 to 100",
                metric_value=round(facts.sentient["emotion_mean"], 1),
            )
        ],
    )  # fmt: skip
    return card("model", about=about.to_yaml(), facts=facts, name=name, policy=found.settings.policy, users=found.users)


def _dataset_card(found: Publication, name: str) -> str:
    from huggingface_hub import DatasetCardData

    configs = [
        {"config_name": "dialogues", "default": True, "data_files": [{"split": "test", "path": "dialogues.jsonl"}]},
        {"config_name": "personas", "data_files": [{"split": split, "path": f"personas_{split}.jsonl"} for split in found.personas]},
    ]
    about = DatasetCardData(
        language=found.language, task_categories=["text-generation"], pretty_name=f"{name}: dialogues and personas", configs=configs
    )
    return card("dataset", about=about.to_yaml(), name=name)


def _of_kind(stage: LockedStage, kind: str) -> str:
    return next(path for path in stage.outputs if records.kind(path) == kind)


def _only(paths: Mapping[str, Any], name: str) -> str:
    found = [path for path in paths if Path(path).name == name]
    if len(found) != 1:
        raise NotReady(f"expected one {name} among {', '.join(sorted(paths))}")
    return found[0]
