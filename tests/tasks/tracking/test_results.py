"""The results on disk as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlver.components.domain.files import BadFile
from rlver.tasks.commands import workspace
from rlver.tasks.graph import selection
from rlver.tasks.runtime import verification
from rlver.tasks.tracking import results


def scored(root: Path, variant: str, **values: Any) -> None:
    path = root / "metrics" / variant / "sentient.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(values))


def test_what_failed_among_other_stages_stays_known(tmp_path: Path) -> None:
    file = tmp_path / results.FAILURES
    results.write_failures(tmp_path, {}, ["a"])
    assert not file.exists()
    results.write_failures(tmp_path, {"a": "bad luck", "b": "worse"}, ["a", "b"])
    results.write_failures(tmp_path, {}, ["b", "c"])
    assert json.loads(file.read_text()) == {"a": "bad luck"}
    results.forget_failure(tmp_path, "a")
    assert json.loads(file.read_text()) == {}


def test_damaged_reasons_of_failures_are_told(tmp_path: Path) -> None:
    file = tmp_path / results.FAILURES
    file.parent.mkdir(parents=True)
    file.write_text('{"a": "bad')
    with pytest.raises(BadFile, match=r"failures\.json.*delete it"):
        results.known_failures(tmp_path)


def test_the_base_comes_first_and_differences_have_signs(tmp_path: Path) -> None:
    assert results.table(tmp_path) is None
    pair = {"difference": 65.9, "ci95": [60.0, 71.25]}
    scored(
        tmp_path,
        "a",
        n=100,
        emotion_mean=79.2,
        emotion_ci95=[75, 83],
        success_rate=0.4,
        failure_rate=0.04,
        paired_to_base=pair,
        persona_splits={"train": 32, "test": 100},
    )
    scored(tmp_path, "base", n=100, emotion_mean=13.3, emotion_ci95=[11, 15.6], success_rate=0.02, failure_rate=0.76, paired_to_base=None)
    assert (results.table(tmp_path) or "").splitlines() == [
        "| variant | final emotion (95% CI) | to base (95% CI) | success | failure | dialogues | personas |",
        "|---|---|---|---|---|---|---|",
        "| base | 13.3 [11.0, 15.6] |  | 2% | 76% | 100 | – |",
        "| a | 79.2 [75.0, 83.0] | +65.9 [+60.0, +71.2] | 40% | 4% | 100 | 32 train, 100 test |",
    ]


def test_what_was_not_measured_is_a_dash_and_a_report_that_was_not_made_is_left_out(tmp_path: Path) -> None:
    scored(tmp_path, "base", n=1)
    assert "| base | – |  | – | – | 1 | – |" in (results.table(tmp_path) or "")
    assert results.reports(tmp_path) == {}


def test_damaged_metrics_are_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / "v" / "sentient.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(BadFile, match=r"sentient.json: not valid JSON .* column 2\)"):
        results.table(tmp_path)


def test_every_pipeline_is_in_all_the_lists_that_stand_by_hand(repository_root: Path) -> None:
    folders = {path.parent.name for path in repository_root.glob("*/pipeline.yaml")}
    assert {"paper", "bigger"} < folders
    assert {Path(place).parent.name for place in results.SCORED} == {"", *folders} - {"paper"}, "the paper has tables of its own"
    assert {Path(place).parent.name for place in verification.PLACES} == {"", *folders}
    assert {Path(place).parent.name for place in selection.BY_NAME} == folders - {"paper"}
    assert {f"{folder}/pipeline.yaml" for folder in folders} < set(workspace.FILES.values())
