"""General capability through the lm-eval harness.

Our tasks are a task folder of the harness (`harness/`), which plain `lm_eval` reads too; its index of 14,000 tasks is read only when one
of its own is named. Sentences and choices are scored as plain text; every task in which the model writes is asked through the chat
template, with a system message, and its thoughts are cut off before scoring. All of that is the same for base and tuned, and the hash of
the whole request is stored with each item so that a comparison can insist on it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lm_eval
from lm_eval.api.metrics import mean
from lm_eval.api.model import TemplateLM
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager

from rlver.components.ability.backends import BenchmarkError, Served, check_backend, load_backend
from rlver.components.ability.records import HARNESS_BOOTSTRAP, Finished, estimate, every_metric, write_layout
from rlver.components.ability.tasks import FOLDER, OURS, is_ours, lacking, runs_code
from rlver.components.domain.files import BadFile
from rlver.components.scoring import intervals, statistics

MOST_NEW_TOKENS = 2048  # of a written answer, thoughts included; never more than half of the model's context
SYSTEM_MESSAGE = "You are a helpful assistant."  # some templates insert one of their own when none is given
_FEWSHOT_SEED = 1234
_PRIMARY = {"gsm8k": ("exact_match", "flexible-extract"), "ifeval": ("prompt_level_strict_acc", "none")}
_WRITTEN_CHOICES = ("options", "choices")  # of a document whose answer is written: one of these is right
_REFUSED = {
    "hendrycks_math500": "it cannot read \\boxed{}; use rlver_math500",
    "minerva_math500": "its parser does not install beside dvc; use rlver_math500",
    "humaneval": "it runs code that the model wrote with no bounds; use rlver_humaneval",
    "mbpp": "it runs code that the model wrote with no bounds; use rlver_mbpp",
}


class Item(NamedTuple):
    """One scored item: the document's hash, the hash of everything the model was given, the score, and what it shares with others:
    the relation of its fact, or nothing, and then it is a cluster of its own."""

    doc: str
    prompt: str
    score: float
    cluster: str


def run_tasks(
    model: str,
    tasks: Sequence[str],
    limit: int | None,
    batch_size: int,
    margin: float,
    seed: int,
    run_model_code: bool = False,
    backend: str = "hf",
    served: Served | None = None,
    layout: Path | None = None,
) -> dict[str, Any]:
    """Score the local model folder `model` on each task; the value of a task is the mean over its items.

    `limit` keeps the first items of each (sub)task: a smoke test, marked as one. Code the model wrote runs only with `run_model_code`.
    `backend`: hf, vllm or local-completions, which asks `served`. `layout`: a folder for lm-eval's own files, replaced as a whole.
    Raises BenchmarkError for a missing model, an unknown or refused task, data that cannot be had, items that are not unique or scores
    that are not numbers; EndpointError for a server that cannot be asked.
    """
    if not (Path(model) / "config.json").is_file():
        raise BenchmarkError(f"{model}: no model there (config.json is missing); name the folder of a whole model")
    for name in tasks:
        _refuse_unusable(name, run_model_code)
    check_backend(backend, served)
    loaded = _load_tasks(tasks)
    for name, one in loaded.items():
        _refuse_unbounded_code(name, one["tasks"])
    metrics = {name: _primary(name, loaded[name]["tasks"]) for name in tasks}
    language_model = load_backend(backend, model, batch_size, served, seed)
    finished = {name: _run_task(language_model, loaded[name], limit, run_model_code) for name in tasks}
    results = {
        "tasks": {name: _measured(name, metrics[name], one, margin, seed) for name, one in finished.items()},
        "smoke_test": limit is not None,
        "harness": f"lm_eval {lm_eval.__version__}",
        "backend": backend,
    }
    if layout is not None:
        write_layout(layout, list(finished.values()), backend, model, limit, batch_size)
    return results


def _load_tasks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the harness' loader gives for each name: ours from their folder, with their source as metadata."""
    foreign = TaskManager(include_defaults=True) if any(not is_ours(name) for name in names) else None
    loaded = {}
    for name in names:
        task, _, source = name.partition(":")
        try:
            if foreign is not None and not is_ours(name):
                loaded[name] = foreign.load([name])
            else:
                metadata = {"source": source} if source else None
                loaded[name] = TaskManager(include_path=str(FOLDER), include_defaults=False, metadata=metadata).load([task])
        except BadFile:
            raise
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
            reason = " ".join(str(error).split())[:300]
            raise BenchmarkError(
                f"task {name} could not be loaded ({reason}); tasks of the harness need the network or a filled cache"
            ) from error
        for one in loaded[name]["tasks"].values():
            if one.get_config("num_fewshot") is None:
                one.set_config(key="num_fewshot", value=0)
            one.set_fewshot_seed(seed=_FEWSHOT_SEED)
    return loaded


def _run_task(language_model: TemplateLM, loaded: dict[str, Any], limit: int | None, run_model_code: bool) -> Finished:
    tasks = loaded["tasks"]
    writes = any(task.OUTPUT_TYPE == "generate_until" for task in tasks.values())
    if writes:
        _bound_answers(tasks.values(), language_model.max_length)
    as_chat = writes and language_model.tokenizer.chat_template is not None
    results = evaluate(
        lm=language_model,
        task_dict=loaded,
        limit=limit,
        bootstrap_iters=HARNESS_BOOTSTRAP,
        log_samples=True,
        apply_chat_template=as_chat,
        fewshot_as_multiturn=as_chat,
        system_instruction=SYSTEM_MESSAGE if as_chat else None,
        confirm_run_unsafe_code=run_model_code,
    )
    template = language_model.tokenizer.chat_template if as_chat else None
    return Finished(results, tasks, SYSTEM_MESSAGE if as_chat else None, template)


def _primary(name: str, tasks: Mapping[str, Any]) -> tuple[str, str | None]:
    """(metric, filter or None for the first) that decides: the first that is a mean over items in every subtask, so that items can be paired."""
    first = next(iter(tasks.values()))
    means = [metric for metric in first.higher_is_better() if all(one.aggregation().get(metric) is mean for one in tasks.values())]
    if name not in _PRIMARY and not means:
        others = ", ".join(first.higher_is_better())
        within = "" if len(tasks) == 1 else f" in all of its {len(tasks)} tasks"
        raise BenchmarkError(f"task {name}: {others} is no mean over items{within}, so base and tuned cannot be paired; take another task")
    return _PRIMARY.get(name) or (means[0], None)


def _measured(name: str, primary: tuple[str, str | None], finished: Finished, margin: float, seed: int) -> dict[str, Any]:
    results, (metric, chosen_filter) = finished.results, primary
    first = next(iter(finished.tasks))
    items = [item for subtask in sorted(results["samples"]) for item in _items(subtask, results["samples"][subtask], metric, chosen_filter)]
    return _summary(name, metric, items, bool(results["higher_is_better"][first][metric]), margin, seed) | {
        "chance": _chance(finished.tasks, results["samples"]),
        "version": str(results["versions"].get(first)),
        "as_chat": finished.chat_template is not None,
        "metrics": every_metric(finished, _cluster, seed),
    }


def _cluster(subtask: str, sample: Mapping[str, Any]) -> str:
    """The relation of the sample's fact, or the document itself."""
    return str(sample.get("doc", {}).get("relation", _short_hash([subtask, sample["doc_hash"]])))


def _chance(loaded: Mapping[str, Any], samples: Mapping[str, list[dict[str, Any]]]) -> float | None:
    """The share that guessing gets right: one in so many choices, of written answers none. None where that is not known: of a likelihood, of choices
    that are scored in the task's own way or of which several are right, and of choices that are written."""
    for name, task in loaded.items():
        is_choice = task.OUTPUT_TYPE == "multiple_choice"
        if task.OUTPUT_TYPE == "loglikelihood_rolling" or (
            is_choice and (task.config.process_results or getattr(task, "multiple_target", 0))
        ):
            return None
        if not is_choice and any(
            isinstance(sample.get("doc", {}).get(key), (list, dict)) for sample in samples[name] for key in _WRITTEN_CHOICES
        ):
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
        item = Item(document, _short_hash(sample["arguments"]), round(float(sample[metric]), 6), _cluster(subtask, sample))
        if not math.isfinite(item.score):
            raise BenchmarkError(f"task {subtask}: the score of document {sample['doc_id']} is {item.score}; is the model broken?")
        if items.setdefault(document, item) != item:
            raise BenchmarkError(f"task {subtask}: document {sample['doc_id']} occurs twice with different requests or scores")
    return list(items.values())


def _summary(name: str, metric: str, items: list[Item], higher_is_better: bool, margin: float, seed: int) -> dict[str, Any]:
    scores = statistics.by_cluster((item.cluster, item.score) for item in items)
    if len(scores) < 2:  # of one cluster nothing is known beyond its items
        scores = {item.doc: [item.score] for item in items}
    estimated = estimate(scores, seed)
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


def _refuse_unbounded_code(name: str, tasks: Mapping[str, Any]) -> None:
    """Ours run such code shut in; the harness' own run it as it is, and those of cruxeval do not even say so."""
    if not is_ours(name) and (name.startswith("cruxeval") or any(getattr(task, "UNSAFE_CODE", False) for task in tasks.values())):
        raise BenchmarkError(
            f"task {name} is not offered: it runs code that the model wrote with no bounds; ours are rlver_humaneval, rlver_mbpp"
        )


def _refuse_unusable(name: str, run_model_code: bool) -> None:
    if runs_code(name) and not run_model_code:
        raise BenchmarkError(
            f"task {name} runs code that the model wrote: set benchmark.run_model_code: true if this machine may "
            "(docs/evaluation.md says how far it is shut in)"
        )
    if name in _REFUSED:
        raise BenchmarkError(f"task {name} is not offered: {_REFUSED[name]}")
    if name.startswith("rlver_") and not is_ours(name):
        raise BenchmarkError(f"unknown task {name}; ours are {', '.join(sorted(OURS))}")
    if missing := lacking(name):
        raise BenchmarkError(missing)
