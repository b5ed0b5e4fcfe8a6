"""Our benchmark tasks, described in the harness' own terms but without it: rows in memory and a task configuration.

`rlver_tiny_likelihood` and `rlver_tiny_choice` read the shipped small-world items. `rlver_math500` reads MATH500 from the hub,
`rlver_math500:sample` the shipped sample and `rlver_math500:<file>.jsonl` a local file with the fields problem and answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import load_dataset

from components.evaluation.packs import math_answers, small_world
from components.files import BadFile, read_jsonl


@dataclass(frozen=True)
class Pack:
    """The documents of a task and how the harness asks and scores them. One metric each; its mean is the task's value."""

    rows: list[dict[str, Any]]
    config: dict[str, Any]


def is_pack(name: str) -> bool:
    """Whether `name` is one of ours; only rlver_math500 takes a source after a colon."""
    return name in PACKS or name.startswith("rlver_math500:")


def load_pack(name: str) -> Pack:
    """Read the task's documents. Raises BadFile, in one line, where they cannot be had."""
    pack, _, source = name.partition(":")
    return PACKS[pack](source)


def _likelihood(_: str) -> Pack:
    """Bits per byte of each held-out sentence."""
    return Pack(
        [row for _, row in read_jsonl(small_world.LIKELIHOOD_ITEMS)],
        {
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "{{text}}",
            "process_results": lambda row, results: {"bits_per_byte": -results[0] / (math.log(2) * len(row["text"].encode()))},
            "metric_list": [{"metric": "bits_per_byte", "aggregation": "mean", "higher_is_better": False}],
            "metadata": {"version": 1.0},
        },
    )


def _choice(_: str) -> Pack:
    """Whether the true sentence is likelier than its three false neighbours, each scored as a text of its own."""
    return Pack(
        [row for _, row in read_jsonl(small_world.CHOICE_ITEMS)],
        {
            "output_type": "multiple_choice",
            "doc_to_text": "",
            "doc_to_choice": lambda row: [f"{row['stem']} {option}" for option in row["options"]],
            "doc_to_target": lambda row: row["answer"],
            "target_delimiter": "",
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": 1.0},
        },
    )


def _math(source: str) -> Pack:
    """Whether the last box of the reply holds the answer. No stop text: the default one would cut replies at the first blank line."""
    return Pack(
        [*_problems(source)],
        {
            "output_type": "generate_until",
            "doc_to_text": lambda row: math_answers.PROMPT.format(problem=row["problem"]),
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": [], "do_sample": False},
            "process_results": lambda row, results: {"exact_match": float(math_answers.is_right(results[0], row["answer"]))},
            "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": 1.0},
        },
    )


def _problems(source: str) -> list[dict[str, str]]:
    if source == "sample":
        return math_answers.load_problems(math_answers.SAMPLE)
    if source.endswith(".jsonl"):
        return math_answers.load_problems(Path(source))
    try:
        rows = load_dataset(source or math_answers.HUB_DATASET, split="test")
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadFile(f"MATH500 needs the network or a local file (task rlver_math500:<file>.jsonl): {reason}") from error
    return [{"problem": row["problem"], "answer": row["answer"]} for row in rows]


PACKS: dict[str, Callable[[str], Pack]] = {
    "rlver_tiny_likelihood": _likelihood,
    "rlver_tiny_choice": _choice,
    "rlver_math500": _math,
}
