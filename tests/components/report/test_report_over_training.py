"""What a report shows of the dialogues that a training kept: acts, what follows them, habits, and two appraisers, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_run import make_dialogues, write_held_out, write_run, write_transcripts

from rlver.components.domain.files import BadFile
from rlver.components.report import page as figures
from rlver.components.report.material import Material, load_checkpoints, load_material
from rlver.components.report.page import page
from rlver.components.report.panels import over_training
from rlver.components.report.panels.panel import ReportRun, Sources
from rlver.components.report.portraits import with_portraits
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.tasks.stages import report as stage
from rlver.tasks.studies.audit.audit import with_audits

RUN = ReportRun(seed=7, margin=0.05, model=None)
DRAWN = ("acts-over-training", "changes-over-training", "habits-over-training", "appraisers-over-training")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    root = write_run(tmp_path_factory.mktemp("run"), personas=6)
    write_held_out(root, "grpo-think", (-1.0, 0.5, 0.9), personas=8)  # at first it is never deeply empathic
    read = load_material(root / "transcripts", root / "metrics", root / "logs")
    return with_portraits(with_audits(read, Sources(load_settings(Path("params.yaml")), (), root / "logs")), Sampling(200, 7))


def test_steps_are_numbers_and_rise(tmp_path: Path):
    write_held_out(tmp_path, "a", [0.5] * 7, personas=2)
    folder = tmp_path / "logs" / "a" / "held_out"
    assert list(load_checkpoints(folder)) == [0, 20, 40, 60, 80, 100, 120]  # by name 100 would come before 20
    assert load_checkpoints(tmp_path / "nothing") == {}
    (folder / "last.jsonl").write_text("{}\n")
    with pytest.raises(BadFile, match=r"last\.jsonl: held-out dialogues are kept in <step>.jsonl"):
        load_checkpoints(folder)


def test_shares_and_changes_are_those_of_the_replies_of_that_step(material: Material):
    shares, changes, _ = over_training.tables(material, RUN)
    column = [one.key for one in shares.columns].index("deep_empathy")
    for line, (step, held_out) in enumerate(material.variants[1].checkpoints.items()):
        replies = [turn.appraisal for dialogue in held_out for turn in dialogue.turns if turn.appraisal]
        after = [reply.change for reply in replies if any(one.what == "deep_empathy" for one in reply.evidence)]
        assert [cell.value for cell in shares.rows[line][:2]] == ["grpo-think", step]
        # a persona counts once: shares of personas are averaged, so they differ from the share of replies by length of dialogue only
        assert shares.rows[line][column].value == pytest.approx(len(after) / len(replies), abs=0.05)
        low, high = shares.rows[line][column].ends
        assert low <= len(after) / len(replies) <= high
        assert changes.rows[line][column].value == (pytest.approx(sum(after) / len(after)) if after else None)
    assert (shares.rows[0][column].value, changes.rows[0][column].value) == (0.0, None), "never used: a share of zero, and nothing after it"


def test_both_appraisers_are_in_the_audit_and_drawn(material: Material):
    base, trained = material.variants
    assert base.metrics["audit"]["reward_overoptimization"] == []
    for one, held_out in zip(trained.metrics["audit"]["reward_overoptimization"], trained.checkpoints.values(), strict=True):
        finals = [dialogue.emotion_final for dialogue in held_out if dialogue.emotion_final is not None]
        assert one["own"]["value"] == pytest.approx(sum(finals) / len(finals), abs=1e-6)
        assert one["second"]["value"] != one["own"]["value"]
    assert [drawn.name for name in DRAWN if (drawn := figures.FIGURES[name](material))] == list(DRAWN)


def test_the_panel_is_on_the_page_and_without_kept_dialogues_it_is_not(material: Material, tmp_path: Path):
    assert 'id="over_training"' in page(material, RUN, {})
    write_transcripts(tmp_path, "base", make_dialogues("base", 4, 0.5, 1), None)
    bare = with_portraits(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), Sampling(200, 7))
    assert over_training.tables(bare, RUN) == [] and over_training.values(bare, RUN) is None
    assert not any(figures.FIGURES[name](bare) for name in DRAWN)


def test_acts_nobody_named_leave_their_figures_out_and_keep_the_habits(tmp_path: Path):
    root = write_run(tmp_path, personas=4)
    for path in (root / "transcripts").glob("*.jsonl"):  # an appraiser without evidence
        path.write_text(path.read_text().replace('"step": "content"', '"step": "effect"').replace('"step":"content"', '"step":"effect"'))
    write_held_out(root, "grpo-think", (0.2, 0.6), personas=4)
    read = with_portraits(load_material(root / "transcripts", root / "metrics", root / "logs"), Sampling(200, 7))
    assert [table.name for table in over_training.tables(read, RUN)] == ["habits-over-training"]
    assert figures.FIGURES["acts-over-training"](read) is None and figures.FIGURES["habits-over-training"](read) is not None


@pytest.mark.long
def test_the_stage_draws_and_writes_what_training_kept(tmp_path: Path):
    root = write_run(tmp_path / "run", personas=4)
    write_held_out(root, "grpo-think", (0.2, 0.5, 0.8), personas=4)
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", str(root / name))]
    assert stage.main([*folders, "--out", str(tmp_path / "reports")]) == 0
    drawn, written = ({path.stem for path in (tmp_path / "reports" / name).iterdir()} for name in ("plots", "tables"))
    assert set(DRAWN) <= drawn and set(DRAWN) <= written
    text = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert 'id="over_training"' in text and all(f'<svg id="{name}"' in text for name in DRAWN)
