"""What the harness found, kept twice: every metric of a task in our metrics file, and lm-eval's own files for its own tools.

lm-eval's writer logs a failed write and goes on; here the files are counted afterwards.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics as python_statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lm_eval.api.metrics import mean
from lm_eval.loggers import EvaluationTracker

from rlver.components.scoring import intervals, statistics

BOOTSTRAP_SAMPLES = 10_000
HARNESS_BOOTSTRAP = 1000  # draws of lm-eval for the standard error of a metric that is no mean
Sample = Mapping[str, Any]


@dataclass(frozen=True)
class Finished:
    """One task as the harness left it: `results` is the dictionary of its `evaluate`, `tasks` the (sub)tasks behind it."""

    results: dict[str, Any]
    tasks: Mapping[str, Any]
    system_message: str | None
    chat_template: str | None


def every_metric(finished: Finished, cluster: Callable[[str, Sample], str], seed: int) -> dict[str, Any]:
    """`value`, `stderr`, `clustered_ci95`, `n` by metric and filter; null where there is none.

    Means are taken over the items of all subtasks, and their interval resamples whole clusters. A metric that is no mean of its items
    (a perplexity, a correlation) has the harness' value and error, and of a group stands for each subtask by itself.
    """
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    pooled: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    better: dict[str, bool | None] = {}
    for name in sorted(finished.tasks):
        kinds = finished.tasks[name].aggregation()
        for key, value in finished.results["results"][name].items():
            metric, comma, chosen = key.partition(",")
            if not comma or metric.endswith("_stderr"):
                continue
            better[metric] = finished.results["higher_is_better"][name].get(metric)
            scored = [one for one in finished.results["samples"][name] if one["filter"] == chosen and metric in one]
            if kinds.get(metric) is mean and all(isinstance(one[metric], bool | int | float) for one in scored):
                pooled[metric, chosen] += [(cluster(name, one), float(one[metric])) for one in scored]
            else:
                place = chosen if len(finished.tasks) == 1 else f"{chosen}/{name}"
                error = finished.results["results"][name].get(f"{metric}_stderr,{chosen}")
                found[metric][place] = _entry(_number(value), _number(error), None, len(scored), better[metric])
    for (metric, chosen), scores in pooled.items():
        found[metric][chosen] = _of_mean(scores, better[metric], seed)
    return {metric: dict(sorted(of_filter.items())) for metric, of_filter in sorted(found.items())}


def write_layout(folder: Path, finished: Sequence[Finished], backend: str, model: str, limit: int | None, batch_size: int) -> None:
    """lm-eval's `<model>/results_<time>.json` and `<model>/samples_<task>_<time>.jsonl`, a pair for each task, in place of what was there.

    Raises OSError when a file is missing or cut off.
    """
    if folder.exists():
        shutil.rmtree(folder)
    for one in finished:
        tracker = EvaluationTracker(output_path=str(folder))
        tracker.general_config_tracker.log_experiment_args(
            model_source=backend,
            model_args={"pretrained": model},
            system_instruction=one.system_message,
            chat_template=one.chat_template,
            fewshot_as_multiturn=one.chat_template is not None,
        )
        results = {name: value for name, value in one.results.items() if name != "samples"}
        results["config"] = {
            "model": backend,
            "model_args": {"pretrained": model},
            "batch_size": batch_size,
            "limit": limit,
            "bootstrap_iters": HARNESS_BOOTSTRAP,
        }
        results["date"] = datetime.now(UTC).timestamp()
        tracker.save_results_aggregated(results=results, samples=one.results["samples"])
        for name, samples in one.results["samples"].items():
            tracker.save_results_samples(task_name=name, samples=samples)
    _make_sure(folder, finished)


def _make_sure(folder: Path, finished: Sequence[Finished]) -> None:
    wanted = sorted(len(samples) for one in finished for samples in one.results["samples"].values())
    written = sorted(path.read_bytes().count(b"\n") for path in folder.glob("*/samples_*.jsonl"))
    results = list(folder.glob("*/results_*.json"))
    if written != wanted or len(results) != len(finished):
        raise OSError(f"{folder}: lm-eval could not write its results; is the disk full? make room, then run the same command again")
    for path in results:
        json.loads(path.read_text("utf-8"))


def _of_mean(scores: Sequence[tuple[str, float]], higher_is_better: bool | None, seed: int) -> dict[str, Any]:
    values = [score for _, score in scores]
    if not values or not all(math.isfinite(value) for value in values):
        return _entry(None, None, None, len(values), higher_is_better)
    estimated = estimate(statistics.by_cluster(scores), seed)
    error = python_statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    known = all(math.isfinite(end) for end in estimated.ci95)
    return _entry(estimated.value, error, intervals.to_json(estimated.ci95) if known else None, len(values), higher_is_better)


def estimate(clusters: Mapping[str, Sequence[float]], seed: int) -> statistics.Estimated:
    """The mean of scores that may be right or wrong, or any number; of a single cluster the interval has no ends."""
    if all(value in (0.0, 1.0) for values in clusters.values() for value in values):
        return statistics.proportion(clusters)
    return statistics.cluster_bootstrap(clusters, BOOTSTRAP_SAMPLES, seed, statistics.Interval(-math.inf, math.inf))


def _entry(value: float | None, error: float | None, interval: dict[str, float] | None, n: int, better: bool | None) -> dict[str, Any]:
    rounded = [None if number is None else round(number, 6) for number in (value, error)]
    return {"value": rounded[0], "stderr": rounded[1], "clustered_ci95": interval, "n": n, "higher_is_better": better}


def _number(value: Any) -> float | None:
    """A finite number; None for the harness' "N/A" and for what is none."""
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None
