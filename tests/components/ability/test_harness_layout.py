"""Our tasks as a task folder of lm-eval, and its own files beside ours."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM

from rlver.components.ability import records
from rlver.components.ability.general import run_tasks
from rlver.components.ability.tasks import FOLDER, OURS
from rlver.components.domain.files import write_jsonl

LIMIT = 12
TASKS = ["rlver_tiny_likelihood", "rlver_tiny_choice"]


@pytest.fixture(scope="module")
def measured(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    layout = tmp_path_factory.mktemp("layout") / "general.lm_eval"
    return run_tasks(str(tiny_model), [*TASKS, "rlver_math500:sample"], LIMIT, 4, 0.05, 7, layout=layout), layout


def plain(model: Path, out: Path, *more: str) -> dict[str, Any]:
    """What the `lm_eval` command itself writes, in another folder and without a network."""
    command = [str(Path(sys.executable).parent / "lm_eval"), "--model", "hf", "--model_args", f"pretrained={model},dtype=float32"]
    command += ["--device", "cpu", "--include_path", str(FOLDER), "--output_path", str(out), "--limit", str(LIMIT), *more]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = out.glob("*/results_*.json")
    return dict(json.loads(results.read_text())["results"])


@pytest.mark.slow
def test_the_plain_command_reads_our_folder_and_finds_the_same(
    measured: tuple[dict[str, Any], Path], tiny_model: Path, tmp_path: Path
) -> None:
    found = plain(tiny_model, tmp_path, "--tasks", ",".join(TASKS))
    for task, metric in zip(TASKS, ("bits_per_byte", "acc"), strict=True):
        ours = measured[0]["tasks"][task]["metrics"][metric]["none"]
        assert found[task][f"{metric},none"] == pytest.approx(ours["value"], abs=1e-4)
        assert found[task][f"{metric}_stderr,none"] == pytest.approx(ours["stderr"], abs=1e-4)


SUM = {"text": "Write a function to add two numbers.", "test_list": ["assert add(1, 2) == 3"]}
TWICE = {"prompt": 'def twice(x):\n    "Twice x."\n', "entry_point": "twice", "test": "def check(twice):\n    assert twice(2) == 4\n"}
WRITTEN: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "rlver_math500": ("exact_match", [{"problem": "What is 1/2 as a decimal?", "answer": "0.5"}] * 2, "1/2 as a decimal"),
    "rlver_humaneval": ("pass@1", [TWICE] * 2, "def twice"),
    "rlver_mbpp": ("pass@1", [SUM] * 2, "add two numbers"),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", WRITTEN)
def test_the_plain_command_asks_and_scores_our_written_tasks_from_a_file(task: str, tiny_model: Path, tmp_path: Path) -> None:
    """Offline, with problems of a file in place of the hub's; what the tiny model writes is worth nothing."""
    metric, rows, asked = WRITTEN[task]
    source = tmp_path / "problems.jsonl"
    write_jsonl(source, rows)
    more = ("--tasks", task, "--metadata", json.dumps({"source": str(source)}), "--apply_chat_template", "--log_samples")
    found = plain(tiny_model, tmp_path, *more, "--gen_kwargs", "max_gen_toks=24", "--confirm_run_unsafe_code")
    assert found[task][f"{metric},none"] == 0
    (samples,) = tmp_path.glob(f"*/samples_{task}_*.jsonl")
    told = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(told) == len(rows)
    assert all(asked in json.dumps(one["arguments"]) for one in told), told[0]["arguments"]
    assert all(len(one["resps"]) == 1 and isinstance(one["resps"][0][0], str) and one[metric] == 0 for one in told), told[0]


def test_every_task_of_ours_is_in_the_folder() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == OURS


@pytest.mark.long
def test_lm_evals_own_files_hold_what_ours_do(measured: tuple[dict[str, Any], Path]) -> None:
    ours, layout = measured
    results = [json.loads(path.read_text()) for path in layout.glob("*/results_*.json")]
    assert sorted(name for one in results for name in one["results"]) == ["rlver_math500", *sorted(TASKS)]
    assert {one["model_source"] for one in results} == {"hf"}
    (choice,) = [one["results"]["rlver_tiny_choice"] for one in results if "rlver_tiny_choice" in one["results"]]
    assert choice["acc,none"] == pytest.approx(ours["tasks"]["rlver_tiny_choice"]["value"], abs=1e-6)
    (samples,) = layout.glob("*/samples_rlver_tiny_choice_*.jsonl")
    assert len(samples.read_text().splitlines()) == LIMIT
    (chat,) = [one for one in results if "rlver_math500" in one["results"]]
    assert chat["system_instruction"] and chat["chat_template"]


def test_a_metric_has_its_error_and_an_interval_over_whole_clusters(measured: tuple[dict[str, Any], Path]) -> None:
    task = measured[0]["tasks"]["rlver_tiny_likelihood"]
    found = task["metrics"]["bits_per_byte"]["none"]
    scores = [item["score"] for item in task["items"]]
    assert found["value"] == task["value"] and found["n"] == LIMIT and found["higher_is_better"] is False
    assert found["stderr"] == pytest.approx(statistics.stdev(scores) / LIMIT**0.5, abs=1e-5)
    assert len({item["cluster"] for item in task["items"]}) == 1 or found["clustered_ci95"] == task["ci95"]


def finished(aggregation: Any, scores: dict[str, list[tuple[str, Any]]], metric: str = "acc") -> records.Finished:
    """Subtasks with one metric; each score with its cluster."""

    class Task:
        def aggregation(self) -> dict[str, Any]:
            return {metric: aggregation}

    samples = {
        name: [{"filter": "none", metric: score, "doc": {"relation": cluster}} for cluster, score in rows] for name, rows in scores.items()
    }
    results = {name: {f"{metric},none": 0.5, f"{metric}_stderr,none": "N/A", "alias": name} for name in scores}
    better = {name: {metric: True} for name in scores}
    return records.Finished({"results": results, "samples": samples, "higher_is_better": better}, dict.fromkeys(scores, Task()), None, None)


def cluster(_: str, sample: Any) -> str:
    return str(sample["doc"]["relation"])


def test_items_of_a_cluster_count_together_and_subtasks_are_pooled() -> None:
    alike = {"one": [("a", 1.0)] * 10 + [("b", 0.0)] * 10, "two": [("c", 1.0)] * 10 + [("d", 0.0)] * 10}
    apart = {name: [(f"{name}{n}", score) for n, (_, score) in enumerate(rows)] for name, rows in alike.items()}
    wide, narrow = (records.every_metric(finished(records.mean, rows), cluster, 7)["acc"]["none"] for rows in (alike, apart))
    assert wide["value"] == narrow["value"] == 0.5 and wide["n"] == narrow["n"] == 40
    width = [one["clustered_ci95"]["hi"] - one["clustered_ci95"]["lo"] for one in (wide, narrow)]
    assert width[0] > 1.5 * width[1]


def test_what_is_no_mean_has_the_harness_value_for_each_subtask() -> None:
    rows = {"one": [("a", (1, 2))], "two": [("b", (2, 2))]}
    found = records.every_metric(finished(max, rows, "f1"), cluster, 7)["f1"]
    assert set(found) == {"none/one", "none/two"}
    assert found["none/one"] == {"value": 0.5, "stderr": None, "clustered_ci95": None, "n": 1, "higher_is_better": True}


def test_a_file_that_lm_eval_could_not_write_is_an_error(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lm_eval.loggers.evaluation_tracker.sanitize_list", lambda _: 1 / 0)
    with pytest.raises(OSError, match="could not write its results"):
        run_tasks(str(tiny_model), ["rlver_tiny_choice"], 3, 4, 0.05, 7, layout=tmp_path / "x")


def test_a_reply_with_unicodes_own_ends_of_lines_is_one_line_of_its_file(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U+2028, U+2029 and U+0085 stand in JSON as they are, and Python's splitlines cuts at each."""

    def write(self: Any, context: Any, max_length: int, **_: Any) -> Any:
        ids = self.tokenizer("one\u2028two\u2029three\u0085four<|im_end|>", add_special_tokens=False, return_tensors="pt").input_ids
        return torch.cat([context, ids.repeat(len(context), 1)], dim=1)

    monkeypatch.setattr(HFLM, "_model_generate", write)
    run_tasks(str(tiny_model), ["rlver_math500:sample"], 3, 4, 0.05, 7, layout=tmp_path / "x")
    (samples,) = (tmp_path / "x").glob("*/samples_*.jsonl")
    content = samples.read_bytes()
    assert "one\u2028two".encode() in content and content.count(b"\n") == 3


def test_what_was_there_before_is_replaced(tiny_model: Path, tmp_path: Path) -> None:
    for _ in range(2):
        run_tasks(str(tiny_model), ["rlver_tiny_choice"], 3, 4, 0.05, 7, layout=tmp_path / "x")
    assert len(list((tmp_path / "x").glob("*/*"))) == 2
