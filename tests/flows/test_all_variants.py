"""`--variants all`: both pipelines in one flow, past what fails, and again until everything is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_runs import ran, run

from rlver.flows.cli import main
from rlver.tasks.graph import dvc

pytestmark = pytest.mark.usefixtures("prefect_server")

PAPER = """
vars:
  - runs: {x-s7: {}, y-s7: {}}
stages:
  train:
    foreach: ${runs}
    do:
      wdir: ..
      cmd: sh stage.sh train-${key} paper/models/${key}
      deps: [models/a]
      params: [train]
      outs:
        - paper/models/${key}
  converse:
    foreach: ${runs}
    do:
      wdir: ..
      cmd: sh stage.sh converse-${key} paper/transcripts/${key}.txt
      deps:
        - paper/models/${key}
      outs:
        - paper/transcripts/${key}.txt
  paper_report:
    wdir: ..
    cmd: sh stage.sh paper_report paper/report/index.html
    deps: [paper/transcripts]
    outs:
      - paper/report/index.html
"""


@pytest.fixture
def project(toy: Path) -> Path:
    (toy / "paper").mkdir()
    (toy / "paper" / "dvc.yaml").write_text(PAPER)
    return toy


@pytest.mark.long
def test_a_failure_ends_only_what_needs_it_and_the_next_run_takes_up_the_rest(project: Path, tracking_uri: str, said: list[str]) -> None:
    """DVC takes the outputs of a stage away before it runs, not after it failed; what could not run has outputs of an earlier run."""
    from mlflow import MlflowClient

    stage = (project / "stage.sh").read_text()
    (project / "stage.sh").write_text('if [ -e "fail-$1" ]; then mkdir -p "$(dirname "$2")"; echo half > "$2"; fi\n' + stage)
    with (project / "paper" / "dvc.yaml").open("a") as file:
        file.write("  score:\n    wdir: ..\n    cmd: sh stage.sh score paper/score.txt\n    outs: [paper/score.txt]\n")
        file.write("    deps: [paper/transcripts/x-s7.txt]\n")
        file.write(
            "  all:\n    wdir: ..\n    cmd: sh stage.sh all paper/all.txt\n    outs: [paper/all.txt]\n    deps: [paper/transcripts]\n"
        )
    (project / "fail-train-x-s7").write_text("1")
    (project / "paper" / "transcripts").mkdir()
    (project / "paper" / "transcripts" / "x-s7.txt").write_text("of an earlier run")
    state = run(variants=["all"])
    assert state.is_failed() and state.message == (
        "1 of 11 stages failed: paper/dvc.yaml:train@x-s7: bad luck; 3 could not run without what they make; 7 of 11 stages ran"
    )
    assert ran(project) == ["personas", "train-a", "train-x-s7", "train-y-s7", "converse-y-s7", "paper_report", "train-b", "report"]
    assert (project / "paper" / "models" / "x-s7").read_text() == "half\n"
    assert "flow: paper/dvc.yaml:converse@x-s7: not run, because there is no finished paper/models/x-s7" in said
    assert "flow: paper/dvc.yaml:score: not run, because there is no finished paper/transcripts/x-s7.txt" in said
    assert "flow: paper/dvc.yaml:all: not run, because there is no finished paper/transcripts" in said, "a part of it is of an earlier run"
    failures = project / "paper" / "logs" / "failures.json"
    assert json.loads(failures.read_text()) == {"paper/dvc.yaml:train@x-s7": "paper/dvc.yaml:train@x-s7: bad luck"}
    statuses = {one.info.run_name.partition(" ")[0]: one.info.status for one in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])}
    assert statuses["pipeline"] == "FAILED" and statuses["paper/dvc.yaml:converse@y-s7"] == "FINISHED" and len(statuses) == 9
    assert statuses["paper/dvc.yaml:train@x-s7"] == "FAILED"

    (project / "fail-train-x-s7").unlink()
    assert run(variants=["all"]).message.startswith("5 of 11 stages ran")
    names = ran(project)
    assert names[:2] == ["train-x-s7", "converse-x-s7"] and {*names[2:]} == {"paper_report", "score", "all"}, (
        "nothing finished is run again"
    )
    assert json.loads(failures.read_text()) == {}
    assert dvc.changed(project, ()) == {}, "everything is there"


@pytest.mark.long
def test_a_change_is_seen_also_when_another_stage_is_not_offered_any_more(toy: Path, tracking_uri: str) -> None:
    from rlver.tasks.graph.dry_run import look_ahead

    offered = toy / "paper" / "pipeline.yaml"
    offered.parent.mkdir()
    offered.write_text(PAPER)
    two = ["x-s7", "y-s7"]
    assert run(variants=two).is_completed() and {"train-x-s7", "train-y-s7"} <= set(ran(toy))
    offered.write_text(PAPER.replace(", y-s7: {}", "").replace("deps: [models/a]", "deps: [models/a, stage.sh]"))
    assert look_ahead(toy, None, ["x-s7"]).lines[0] == "2 of 4 stages would run"
    assert run(variants=["x-s7"]).message.startswith("1 of ")
    assert ran(toy) == ["train-x-s7"]


def test_a_plain_run_knows_nothing_of_the_second_pipeline(project: Path, tracking_uri: str) -> None:
    assert [step.name for step in dvc.plan(project)] == ["personas", "train@a", "train@b", "report"]
    assert run(only=["paper_report"]).message.startswith("unknown stage paper_report; dvc.yaml has personas")


@pytest.mark.long
def test_the_report_of_the_paper_run_is_made_of_what_is_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--paper"]) == 1
    assert "nothing of the paper run is there yet: run `rlver run --variants all`" in capsys.readouterr().err
    (project / "paper" / "transcripts").mkdir()
    (project / "paper" / "transcripts" / "y-s7.txt").write_text("a dialogue")
    assert main(["report", "--paper"]) == 0
    out = capsys.readouterr().out
    assert "not run yet or out of date (8): " in out and out.endswith(f"report: {project / 'paper' / 'report' / 'index.html'}\n")
