"""Metrics and logs that a report reads, as a cache or a colleague may hand them over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzz, times
from mutation import as_json, as_lines, mutants
from report_run import load
from valid_documents import TRANSCRIPTS

from rlver.components.domain.files import write_json, write_jsonl
from rlver.components.report.material import Material
from rlver.components.report.page import all_tables, write_report
from rlver.components.report.panels.panel import ReportRun, Sources
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.portrait import portrait
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.components.training.curves import CurveFile
from rlver.tasks.stages.report import panels_of_studies
from rlver.tasks.studies.audit.checks import read_log
from rlver.tasks.studies.robustness import panel as other_users
from rlver.tasks.tracking import results

TASK = {"metric": "acc", "higher_is_better": True, "value": 0.5, "ci95": [0.0, 1.0], "n": 2, "margin": 0.05,
        "items": [{"doc": "0", "prompt": "a", "score": 1.0}, {"doc": "1", "prompt": "b", "score": 0.0}]}  # fmt: skip
GENERAL = {"tasks": {"rlver_tiny_choice": TASK}, "smoke_test": False, "settings_digest": "77aa01c2d3e4"}
_UNSHIFTED = {"about": "as they are", "dialogues": 8, "emotion_ci95": [18.0, 32.0], "emotion_mean": 25.0, "paired_to_unshifted": None,
              "shift": "unshifted", "unscorable": 0}  # fmt: skip
_CHANGE = {"ci95": [-14.0, -6.0], "difference": -10.0, "p_holm": 0.01, "detectable": 5.0}
ROBUSTNESS: dict[str, Any] = {
    "difficulty": "vanilla",
    "personas": 8,
    "policies": [
        {
            "policy": "trained",
            "shifts": [_UNSHIFTED, {**_UNSHIFTED, "shift": "typos-2", "paired_to_unshifted": _CHANGE}],
            "not_measured": {"terse-1": "too many failed"},
        }
    ],
    "second_opinions": [],
}
CURVE = [{"step": step, "emotion_mean": 30.0 + step, "reply_tokens": 9.5, "entropy": 2.0, "kl": None} for step in range(1, 8)]
RUN = ReportRun(7, 0.02, None)


def a_run(root: Path) -> dict[str, Any]:
    """A base and a trained policy with all that a report reads; the metrics of the trained one."""
    base, trained = root / "transcripts" / "base.jsonl", root / "transcripts" / "trained.jsonl"
    write_jsonl(base, TRANSCRIPTS[0])
    write_jsonl(trained, TRANSCRIPTS[0])
    dialogues = load_transcripts(base)
    metrics: dict[str, Any] = {}
    for file, before in ((base, None), (trained, dialogues)):
        metrics = {
            **sentient_metrics(dialogues, before, Sampling(100, 7), settings_digest="3f9c"),
            "portrait": portrait(dialogues, Sampling(100, 7)),
        }
        write_json(root / "metrics" / file.stem / "sentient.json", metrics)
        write_json(root / "metrics" / file.stem / "general.json", GENERAL)
    return json.loads(json.dumps(metrics))


@times
def test_scores(times: int, tmp_path: Path) -> None:
    metrics = a_run(tmp_path)

    def read(content: bytes) -> None:
        (tmp_path / "metrics" / "trained" / "sentient.json").write_bytes(content)
        (results.table(tmp_path) or "").encode()
        all_tables(load(tmp_path), RUN, panels_of_studies())

    fuzz(mutants([metrics], as_json), read, times, "metrics")


@times
def test_benchmarks(times: int, tmp_path: Path) -> None:
    a_run(tmp_path)

    def read(content: bytes) -> None:
        (tmp_path / "metrics" / "trained" / "general.json").write_bytes(content)
        all_tables(load(tmp_path), RUN, panels_of_studies())

    fuzz(mutants([GENERAL], as_json), read, times, "metrics")


def with_robustness(material: Material, path: Path) -> Material:
    settings = load_settings(Path(__file__).parents[2] / "params.yaml")
    return other_users.gather(material, Sources(settings, (), files={"robustness": path}))


@pytest.mark.long
@times
def test_robustness(times: int, tmp_path: Path) -> None:
    a_run(tmp_path)
    material = load(tmp_path)
    path = tmp_path / "robustness.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        all_tables(with_robustness(material, path), RUN, panels_of_studies())

    fuzz(mutants([ROBUSTNESS], as_json), read, times, "robustness")


@pytest.mark.slow
def test_whole_reports(tmp_path: Path) -> None:
    """With pages and figures, which take a second whatever the input: 300 inputs."""
    metrics = a_run(tmp_path)
    log = tmp_path / "logs" / "trained" / "train.csv"
    log.parent.mkdir(parents=True)
    robustness = tmp_path / "robustness.json"
    rows = "\n".join(f"{row['step']},{row['emotion_mean']},0.1" for row in CURVE)
    outside = {file for file in tmp_path.rglob("*") if "reports" not in file.parts}

    def read(content: bytes) -> None:
        files = (tmp_path / "metrics" / "trained" / "sentient.json", log, robustness)
        for file, part in zip(files, (*content.split(b"@@"), b"", b""), strict=False):
            file.write_bytes(part)
        write_report(with_robustness(load(tmp_path), robustness), RUN, tmp_path / "reports", panels_of_studies())

    curve = f"step,emotion_mean,entropy\n{rows}\n".encode()

    def written(parts: list[Any]) -> bytes:
        return b"@@".join((as_json(parts[:1]).strip(b"[]"), curve, as_json(parts[1:]).strip(b"[]")))

    fuzz(mutants([[metrics, ROBUSTNESS]], written), read, 300, most_cpu_s=10)
    assert {file for file in tmp_path.rglob("*") if "reports" not in file.parts} == {*outside, log, robustness}


@pytest.mark.long
def test_a_policys_name_in_what_robustness_found_is_no_path(tmp_path: Path) -> None:
    a_run(tmp_path)
    path = tmp_path / "robustness.json"
    write_json(path, {**ROBUSTNESS, "policies": [{**ROBUSTNESS["policies"][0], "policy": "/../../../escaped"}]})
    write_report(with_robustness(load(tmp_path), path), RUN, tmp_path / "out" / "reports", panels_of_studies())
    assert [file.name for file in (tmp_path / "out" / "reports" / "tables").glob("*escaped*")] == ["robustness--..-..-..-escaped.csv"]
    assert not list(tmp_path.glob("*escaped*"))


@times
def test_training_logs(times: int, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_log(path)
        CurveFile(tmp_path / "train").keep_until(4)

    fuzz(mutants([CURVE], as_lines), read, times, path.name)
