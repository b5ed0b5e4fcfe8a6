"""Our benchmark tasks, described in the harness' own terms but without it: rows in memory and a task configuration.

`rlver_tiny_likelihood` and `rlver_tiny_choice` read the shipped small-world items. `rlver_math500`, `rlver_humaneval` and `rlver_mbpp` read
their sets from the hub, or from a local file in the hub's format with a colon and its name: `rlver_math500:<file>.jsonl`.
`rlver_math500:sample` is a shipped sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import load_dataset

from rlver.components.ability import answers, sandbox
from rlver.components.domain.files import BadFile, read_jsonl
from rlver.components.policy.tiny import small_world


@dataclass(frozen=True)
class Pack:
    """The documents of a task and how the harness asks and scores them. One metric each; its mean is the task's value."""

    rows: list[dict[str, Any]]
    config: dict[str, Any]


def is_pack(name: str) -> bool:
    """Whether `name` is one of ours; those with a set on the hub take another source after a colon."""
    pack, colon, _ = name.partition(":")
    return pack in PACKS and (not colon or pack in _WITH_SOURCE)


def runs_code(name: str) -> bool:
    """Whether scoring the task runs what the model wrote."""
    return name.partition(":")[0] in _RUN_CODE


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
    """Whether the last box of the reply holds the answer."""
    if source == "sample":
        rows = answers.load_problems(answers.SAMPLE)
    elif source.endswith(".jsonl"):
        rows = answers.load_problems(Path(source))
    else:
        rows = [{"problem": row["problem"], "answer": row["answer"]} for row in _hub("rlver_math500", source or answers.HUB_DATASET)]
    return _written(
        rows,
        lambda row: answers.PROMPT.format(problem=row["problem"]),
        lambda row, reply: answers.is_right(reply, row["answer"]),
        metric="exact_match",
        version=2.0,  # 1.0 compared spellings
    )


def _humaneval(source: str) -> Pack:
    """Whether the function passes the tests of the set."""
    rows = _coding_rows("rlver_humaneval", source, answers.HUMANEVAL_HUB, None, answers.HUMANEVAL_FIELDS)
    return _written(
        rows,
        answers.humaneval_question,
        lambda row, reply: sandbox.ends_well(answers.humaneval_program(row, reply)),
        metric="pass@1",
    )


def _mbpp(source: str) -> Pack:
    """Whether the code passes the tests of the set."""
    rows = _coding_rows("rlver_mbpp", source, answers.MBPP_HUB, "full", answers.MBPP_FIELDS)
    return _written(
        rows,
        answers.mbpp_question,
        lambda row, reply: sandbox.ends_well(answers.mbpp_program(row, reply)),
        metric="pass@1",
    )


def _written(
    rows: list[dict[str, Any]],
    question: Callable[[dict[str, Any]], str],
    is_right: Callable[[dict[str, Any], str], bool],
    metric: str,
    version: float = 1.0,
) -> Pack:
    """A task of one greedy written answer. No stop text: the default one would cut replies at the first blank line."""
    return Pack(
        rows,
        {
            "output_type": "generate_until",
            "doc_to_text": question,
            "doc_to_target": "",
            "generation_kwargs": {"until": [], "do_sample": False},
            "process_results": lambda row, results: {metric: float(is_right(row, results[0]))},
            "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": version},
        },
    )


def _coding_rows(task: str, source: str, hub: str, subset: str | None, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    sandbox.make_sure()
    if not source.endswith(".jsonl"):
        return [dict(row) for row in _hub(task, source or hub, subset)]
    rows = []
    for line, row in read_jsonl(Path(source)):
        if missing := [field for field in fields if not row.get(field)]:
            raise BadFile(f"{source}:{line}: {task} needs the field {missing[0]}")
        rows.append(row)
    return rows


def _hub(task: str, name: str, subset: str | None = None) -> Any:
    try:
        return load_dataset(name, subset, split="test")
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadFile(f"{task} needs the network or a local file (task {task}:<file>.jsonl): {reason}") from error


PACKS: dict[str, Callable[[str], Pack]] = {
    "rlver_tiny_likelihood": _likelihood,
    "rlver_tiny_choice": _choice,
    "rlver_math500": _math,
    "rlver_humaneval": _humaneval,
    "rlver_mbpp": _mbpp,
}
_RUN_CODE = {"rlver_humaneval", "rlver_mbpp"}
_WITH_SOURCE = {"rlver_math500", *_RUN_CODE}
