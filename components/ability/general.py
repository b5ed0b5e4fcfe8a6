"""General capability through the lm-eval harness; the only file that touches it.

Our packs are given to the harness as task objects, so no path, no data-set cache and no network is involved, and the harness' index of
14,000 tasks is read only when a task of its own is named. Sentences and choices are scored as plain text; every task in which the model
writes is asked through the chat template, with a system message, and its thoughts are cut off before scoring. All of that is the same
for base and tuned, and the hash of the whole request is stored with each item so that a comparison can insist on it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lm_eval
import nltk
import torch
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import LogitsProcessorList

from rlver.components.ability.tasks import PACKS, Pack, is_pack, load_pack, runs_code
from rlver.components.policy.load import load_model
from rlver.components.scoring import intervals, statistics

BOOTSTRAP_SAMPLES = 10_000
MOST_NEW_TOKENS = 2048  # of a written answer, thoughts included; never more than half of the model's context
SYSTEM_MESSAGE = "You are a helpful assistant."  # some templates insert one of their own when none is given
THINK_END = "</think>"
_FEWSHOT_SEED = 1234
_PRIMARY = {"gsm8k": ("exact_match", "flexible-extract"), "ifeval": ("prompt_level_strict_acc", "none")}
_REFUSED = {
    "hendrycks_math500": "it cannot read \\boxed{}; use rlver_math500",
    "minerva_math500": "its parser does not install beside dvc; use rlver_math500",
    "humaneval": "it runs code that the model wrote with no bounds; use rlver_humaneval",
    "mbpp": "it runs code that the model wrote with no bounds; use rlver_mbpp",
}


class BenchmarkError(ValueError):
    """A benchmark that cannot be run as asked; one readable line."""


class Item(NamedTuple):
    """One scored item: the document's hash, the hash of everything the model was given, the score, and what it shares with others:
    the relation of its fact, or nothing, and then it is a cluster of its own."""

    doc: str
    prompt: str
    score: float
    cluster: str


class _PackTask(ConfigurableTask):  # type: ignore[misc]
    """A harness task whose documents are in memory."""

    def __init__(self, name: str, pack: Pack) -> None:
        self._rows = pack.rows
        super().__init__(config={"task": name, "test_split": "test", "num_fewshot": 0, **pack.config})

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        self.dataset = {"test": Dataset.from_list(self._rows)}


def run_tasks(
    model: str, tasks: Sequence[str], limit: int | None, batch_size: int, margin: float, seed: int, run_model_code: bool = False
) -> dict[str, Any]:
    """Score the local model folder `model` on each task; the value of a task is the mean over its items.

    `limit` keeps the first items of each (sub)task: a smoke test, marked as one. Code the model wrote runs only with `run_model_code`. Raises BenchmarkError for a missing model, an unknown
    or refused task, data that cannot be had, items that are not unique or scores that are not numbers.
    """
    if not (Path(model) / "config.json").is_file():
        raise BenchmarkError(f"{model}: no model there (config.json is missing)")
    for name in tasks:
        _refuse_unusable(name, run_model_code)
    language_model = _load_model(model, batch_size)
    own = {name: _PackTask(name, load_pack(name)) for name in tasks if is_pack(name)}
    manager = TaskManager(include_defaults=any(name not in own for name in tasks))
    return {
        "tasks": {name: _run_task(language_model, manager, name, own.get(name), limit, margin, seed) for name in tasks},
        "smoke_test": limit is not None,
        "harness": f"lm_eval {lm_eval.__version__}",
    }


class _FiniteLM(HFLM):  # type: ignore[misc]
    """The harness' model, which never lets logits that are no numbers become a choice or an answer."""

    def _model_call(self, *inputs: Any, **options: Any) -> torch.Tensor:
        return _finite(super()._model_call(*inputs, **options))

    def _model_generate(self, *inputs: Any, **options: Any) -> torch.Tensor:
        checked = LogitsProcessorList([lambda _, logits_BV: _finite(logits_BV)])
        answer: torch.Tensor = super()._model_generate(*inputs, logits_processor=checked, **options)
        return answer


def _finite(logits: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(logits.amax(dim=-1)).all():  # a NaN is the greatest; a single -inf only rules a token out
        raise BenchmarkError("the model's logits are not finite; its weights are broken, or its training diverged: take another copy")
    return logits


def _load_model(model: str, batch_size: int) -> HFLM:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded, tokenizer = load_model(model, "auto" if torch.cuda.is_available() else torch.float32)  # the harness itself would unpickle
    language_model = _FiniteLM(pretrained=loaded, tokenizer=tokenizer, batch_size=batch_size)
    # A special token vanishes when the reply is decoded, so it must be cut off by its id; ordinary text must be cut off as text.
    is_special = THINK_END in tokenizer.all_special_tokens
    language_model.think_end_token = tokenizer.convert_tokens_to_ids(THINK_END) if is_special else THINK_END
    return language_model


def _run_task(
    language_model: HFLM, manager: TaskManager, name: str, own: _PackTask | None, limit: int | None, margin: float, seed: int
) -> dict[str, Any]:
    try:
        loaded = manager.load([own if own is not None else name])
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BenchmarkError(
            f"task {name} could not be loaded ({reason}); tasks of the harness need the network or a filled cache"
        ) from error
    writes = [task.OUTPUT_TYPE == "generate_until" for task in loaded["tasks"].values()]
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=_FEWSHOT_SEED)
    if any(writes):
        _bound_answers(loaded["tasks"].values(), language_model.max_length)
    as_chat = any(writes) and language_model.tokenizer.chat_template is not None
    results = evaluate(
        lm=language_model,
        task_dict=loaded,
        limit=limit,
        bootstrap_iters=0,
        log_samples=True,
        apply_chat_template=as_chat,
        fewshot_as_multiturn=as_chat,
        system_instruction=SYSTEM_MESSAGE if as_chat else None,
    )
    first = next(iter(loaded["tasks"]))
    metric, chosen_filter = _PRIMARY.get(name, (next(iter(results["higher_is_better"][first])), None))
    items = [item for subtask in sorted(results["samples"]) for item in _items(subtask, results["samples"][subtask], metric, chosen_filter)]
    return _summary(name, metric, items, bool(results["higher_is_better"][first][metric]), margin, seed) | {
        "chance": _chance(loaded["tasks"], results["samples"]),
        "version": str(results["versions"].get(first)),
        "as_chat": as_chat,
    }


def _chance(loaded: Mapping[str, Any], samples: Mapping[str, list[dict[str, Any]]]) -> float | None:
    """The share that guessing gets right: one in so many choices, of written answers none; a likelihood has no such level."""
    if any(task.OUTPUT_TYPE == "loglikelihood_rolling" for task in loaded.values()):
        return None
    guessed = [
        1 / len(sample["arguments"]) if task.OUTPUT_TYPE == "multiple_choice" else 0.0
        for name, task in loaded.items()
        for sample in samples[name]
    ]
    return round(math.fsum(guessed) / len(guessed), 6)


def _items(subtask: str, samples: list[dict[str, Any]], metric: str, chosen_filter: str | None) -> list[Item]:
    """The subtask's items by document; exact repeats collapse, contradicting ones are an error."""
    wanted = chosen_filter or samples[0]["filter"]
    items: dict[str, Item] = {}
    for sample in samples:
        if sample["filter"] != wanted:
            continue
        document = _short_hash([subtask, sample["doc_hash"]])
        cluster = str(sample.get("doc", {}).get("relation", document))
        item = Item(document, _short_hash(sample["arguments"]), round(float(sample[metric]), 6), cluster)
        if not math.isfinite(item.score):
            raise BenchmarkError(f"task {subtask}: the score of document {sample['doc_id']} is {item.score}; is the model broken?")
        if items.setdefault(document, item) != item:
            raise BenchmarkError(f"task {subtask}: document {sample['doc_id']} occurs twice with different requests or scores")
    return list(items.values())


def _summary(name: str, metric: str, items: list[Item], higher_is_better: bool, margin: float, seed: int) -> dict[str, Any]:
    scores = {item.doc: [item.score] for item in items}
    if all(score in (0.0, 1.0) for (score,) in scores.values()):
        estimated = statistics.proportion(scores)
    else:
        estimated = statistics.cluster_bootstrap(scores, BOOTSTRAP_SAMPLES, seed, statistics.Interval(-math.inf, math.inf))
    if not all(math.isfinite(end) for end in estimated.ci95):
        raise BenchmarkError(f"task {name}: one item has no interval; raise benchmark.limit")
    return {
        "metric": metric,
        "higher_is_better": higher_is_better,
        "value": round(estimated.value, 6),
        "ci95": intervals.to_json(estimated.ci95),
        "n": len(items),
        "margin": margin,
        "items": [item._asdict() for item in sorted(items)],
    }


def _bound_answers(tasks: Any, max_length: int) -> None:
    """Give thoughts room: the harness' default of 256 new tokens cuts them off, and a cut-off thought is scored as a wrong answer."""
    for task in tasks:
        kwargs = dict(task.config.generation_kwargs or {})
        task.set_config(key="generation_kwargs", value={**kwargs, "max_gen_toks": min(MOST_NEW_TOKENS, max_length // 2)})


def _short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _refuse_unusable(name: str, run_model_code: bool) -> None:
    if runs_code(name) and not run_model_code:
        raise BenchmarkError(
            f"task {name} runs code that the model wrote: set benchmark.run_model_code: true if this machine may "
            "(docs/evaluation.md says how far it is shut in)"
        )
    if name in _REFUSED:
        raise BenchmarkError(f"task {name} is not offered: {_REFUSED[name]}")
    if name.startswith("rlver_") and not is_pack(name):
        raise BenchmarkError(f"unknown task {name}; ours are {', '.join(sorted(PACKS))}")
    if name == "ifeval":
        try:
            nltk.data.find("tokenizers/punkt_tab")
        except LookupError as error:  # the task says "Downloaded" even when the download failed
            raise BenchmarkError("task ifeval needs nltk's punkt_tab data; download it and set NLTK_DATA") from error
