"""The report of the paper run, whole and from what is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from paper_run import SKILLS, run_of, write_paper_run
from report_run import edit_json

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.report.panels.panel import ReportRun
from rlver.components.report.tables import NUMBER, PERCENT, Cell, Table
from rlver.tasks.studies.paper.contrasts import Finding, FindingOutcome, FindingRow, findings
from rlver.tasks.studies.paper.material import PaperRun, load_paper_run, read_failures
from rlver.tasks.studies.paper.page import write_paper_report
from rlver.tasks.studies.paper.tables import missing, policy_table, seed_table

RUN = ReportRun(seed=7, margin=0.05, model=None)
SAMPLES = 200


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    root = tmp_path_factory.mktemp("paper")
    write_paper_run(root)
    return root


@pytest.fixture
def own(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "paper")


def load(root: Path, failures: dict[str, str] | None = None, names: tuple[str, ...] = tuple(SKILLS)) -> PaperRun:
    return load_paper_run([run_of(name, root) for name in names], root / "transcripts", root / "metrics", failures or {})


def row(found: list[Finding], claim: str, case: str, user: str) -> FindingRow:
    (one,) = (row for finding in found if finding.claim == claim for row in finding.rows if (row.case, row.user) == (case, user))
    return one


def test_a_rise_has_half_the_margin_of_a_level(finished: Path):
    rows = {(one.measure.split()[-1], row.difference.margin) for one in findings(load(finished)) for row in one.rows if row.difference}
    assert {margin for last, margin in rows if last == "before"} == {2.5} and {margin for last, margin in rows if last != "before"} == {5.0}


def cells(table: Table) -> dict[str, dict[str, Cell]]:
    """By the name of the row and the key of the column."""
    return {str(row[0].value): {column.key: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows}


def test_a_whole_run_has_a_row_for_every_policy_and_user(finished: Path):
    paper = load(finished)
    assert not paper.incomplete
    assert list(cells(policy_table(paper, "challenging"))) == list(SKILLS)
    vanilla = cells(policy_table(paper, "vanilla"))
    first = vanilla["ppo-think-s7"]
    metrics = json.loads((finished / "metrics" / "ppo-think-s7" / "vanilla.json").read_text())
    assert (first["emotion_mean"].value, first["difference"].value) == (metrics["emotion_mean"], metrics["paired_to_base"]["difference"])
    assert first["step_seconds"].value == 4.1 and vanilla["base-think"]["step_seconds"].value is None, "the base is not trained"


def test_seeds_are_summed_up_by_mean_and_range(finished: Path):
    paper = load(finished)
    table = seed_table(paper, SAMPLES, 7)
    assert [row[1].value for row in table.rows] == ["vanilla"] * 2 + ["challenging"] * 2, "two kinds with two users"
    _, user, seeds, middle, spread, *_ = next(row for row in table.rows if row[0].value == "PPO, think, vanilla users")
    policies = cells(policy_table(paper, "vanilla"))
    values = [policies[name]["emotion_mean"].value for name in ("ppo-think-s7", "ppo-think-s8")]
    assert (user.value, seeds.value) == ("vanilla", "7, 8")
    assert [column.form for column in table.columns[4:]] == [NUMBER, PERCENT, PERCENT, PERCENT], "the last is a share, too"
    assert spread == Cell(pytest.approx(sum(values) / 2), (min(values), max(values)))
    assert middle.ends is not None and 0 < middle.ends[0] < middle.value < middle.ends[1] < 100


def test_findings_are_computed_from_the_policies_of_a_kind(finished: Path):
    """Skills .75, .7 and .4 for thinking (two seeds) and direct PPO: the difference of the means; on one seed nothing is decided."""
    paper = load(finished)
    found = findings(paper)
    means = {name: row["emotion_mean"].value for name, row in cells(policy_table(paper, "challenging")).items()}
    thinking = row(found, "Thinking beats direct replies", "PPO", "challenging")
    both = (means["ppo-think-s7"] + means["ppo-think-s8"]) / 2
    assert thinking.estimate is not None and thinking.estimate.value == pytest.approx(both - means["ppo-direct-s7"])
    assert thinking.outcome == FindingOutcome.UNKNOWN and thinking.seeds == (7, 8)
    ends = row(found, "PPO ends above GRPO when thinking", "PPO, GRPO", "vanilla")
    assert ends.seeds == (7, 8) and ends.estimate is not None and ends.estimate.ci95.high < 200, "two seeds of both have an interval"
    absent = row(found, "A curriculum of users beats the vanilla user alone", "PPO, think", "vanilla")
    assert absent.outcome == FindingOutcome.NOT_MEASURED and absent.missing == ("PPO, think, curriculum users",)


@pytest.mark.long
def test_the_page_is_one_file_and_the_markdown_has_the_same_numbers(finished: Path, tmp_path: Path):
    write_paper_report(load(finished), RUN, SAMPLES, tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "results.md").read_text()
    assert "<svg" in page and not [link for link in ("http://", "https://", "src=") if link in page.replace("http://www.w3.org", "")]
    middle = seed_table(load(finished), SAMPLES, 7).lines()[0][3]
    for expected in (
        f"{middle.text} ({middle.small})",
        "Interquartile mean",
        "ppo-direct-challenging-s7",
        "one seed on a side, no interval",
        "79.2",
        "62.1",
        "66.4",
        "another scale",
        "Chit-Chat",
    ):
        assert expected in page and expected in text, expected
    again = tmp_path / "again"
    write_paper_report(load(finished), RUN, SAMPLES, again)
    assert (again / "index.html").read_bytes() == (tmp_path / "index.html").read_bytes()


def test_a_policy_that_diverged_is_named_with_its_reason_and_the_others_are_reported(own: Path, tmp_path: Path):
    """Its training logs are gone, as DVC leaves it; old transcripts beside it do not count."""
    shutil.rmtree(own / "logs" / "ppo-direct-s7")
    edit = {"paper/dvc.yaml:train@ppo-direct-s7": "paper/dvc.yaml:train@ppo-direct-s7: step 12: the entropy fell to 0.0100 nats a token"}
    (own / "logs" / "failures.json").write_text(json.dumps(edit))
    paper = load(own, read_failures(own / "logs" / "failures.json"))
    (diverged,) = paper.incomplete
    assert diverged.problem == "train failed: step 12: the entropy fell to 0.0100 nats a token"
    found = findings(paper)
    lost = row(found, "Thinking beats direct replies", "PPO", "vanilla")
    assert lost.outcome == FindingOutcome.NOT_MEASURED and lost.missing == ("ppo-direct-s7",)
    assert row(found, "Thinking beats direct replies", "GRPO", "vanilla").estimate is not None
    write_paper_report(paper, RUN, SAMPLES, tmp_path / "out")
    for name in ("index.html", "results.md"):
        assert "ppo-direct-s7: train failed: step 12: the entropy fell" in (tmp_path / "out" / name).read_text()


def test_a_policy_of_the_root_pipeline_is_named_with_its_reason(own: Path):
    """It is trained there under the name of its variant."""
    shutil.rmtree(own / "logs" / "ppo-think-s7")
    paper = load(own, {"train@ppo-think-s7": "step 3: loss is nan", "train@ppo-think": "of another"})
    assert [policy.problem for policy in paper.incomplete] == ["train failed: step 3: loss is nan"]
    assert [policy.problem for policy in load(own, {"base": "out of memory"}).incomplete] == ["base failed: out of memory"]


def test_a_policy_without_a_benchmark_is_named(own: Path):
    (own / "metrics" / "ppo-think-s7" / "general.json").unlink()
    assert [policy.problem for policy in load(own).incomplete] == ["no benchmark"]


def test_a_policy_with_one_user_only_counts_with_that_one(own: Path):
    (own / "metrics" / "ppo-think-s7" / "challenging.json").unlink()
    paper = load(own)
    assert [policy.problem for policy in paper.incomplete] == ["no scored dialogues with the challenging user"]
    assert "ppo-think-s7" in cells(policy_table(paper, "vanilla"))
    assert "ppo-think-s7" not in cells(policy_table(paper, "challenging"))


@pytest.mark.long
@pytest.mark.parametrize("stage", ["converse@ppo-think-s7", "score@ppo-think-s7", "converse@base-think"])
def test_dialogues_that_a_failed_stage_left_unscored_are_absent_and_the_others_are_reported(own: Path, tmp_path: Path, stage: str):
    """Trained anew, one of the two users was talked with, and the score is that of the policy before."""
    path = own / "transcripts" / "ppo-think-s7" / "vanilla.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(BadFile, match="run score again"):
        load(own, {"paper/dvc.yaml:converse@ppo-think-s8": "of another policy", "paper/dvc.yaml:benchmark@ppo-think-s7": "of no dialogue"})
    paper = load(own, {f"paper/dvc.yaml:{stage}": "too many failures"})
    (named,) = [policy for policy in paper.incomplete if policy.run.name == "ppo-think-s7"]
    why = "" if stage.endswith("base-think") else f"; {stage.partition('@')[0]} failed: too many failures"
    assert named.problem == f"no scored dialogues with the vanilla user{why}" and list(named.tested) == ["challenging"]
    write_paper_report(paper, RUN, SAMPLES, tmp_path / "out")
    assert f"ppo-think-s7: {named.problem}" in (tmp_path / "out" / "results.md").read_text()


def test_a_benchmark_that_failed_is_named_though_all_dialogues_are_there(own: Path):
    (own / "metrics" / "ppo-think-s7" / "general.json").unlink()
    paper = load(own, {"paper/dvc.yaml:benchmark@ppo-think-s7": "out of memory"})
    assert missing(paper) == ["ppo-think-s7: benchmark failed: out of memory"]
    assert "ppo-think-s7" in cells(policy_table(paper, "vanilla"))


def test_nothing_but_the_bases_is_still_a_page(own: Path, tmp_path: Path):
    for folder in ("logs", "transcripts", "metrics"):
        for path in (own / folder).iterdir():
            if not path.name.startswith("base"):
                shutil.rmtree(path)
    paper = load(own)
    assert len(paper.incomplete) == len(SKILLS) - 2 and {policy.problem for policy in paper.incomplete} == {"not trained yet"}
    write_paper_report(paper, RUN, SAMPLES, tmp_path / "out")
    assert "not measured" in (tmp_path / "out" / "results.md").read_text()


def test_policies_that_met_different_versions_of_a_user_are_not_compared(own: Path):
    path = own / "transcripts" / "ppo-think-s7" / "challenging.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_jsonl(path, [{**row, "simulator": row["simulator"] | {"version": "older"}} for row in rows])
    with pytest.raises(BadFile, match=r"policies met different challenging users \(.*ppo-think-s7 scripted older.*\).*run converse again"):
        load(own)


def test_metrics_of_other_dialogues_or_another_user_are_refused(own: Path):
    edit_json(own / "metrics" / "ppo-think-s7" / "vanilla.json", emotion_mean=1.0)
    with pytest.raises(BadFile, match="run score again"):
        load(own)
    for kind, suffix in (("metrics", "json"), ("transcripts", "jsonl")):
        shutil.copy(own / kind / "ppo-think-s7" / f"challenging.{suffix}", own / kind / "ppo-think-s7" / f"vanilla.{suffix}")
    with pytest.raises(BadFile, match="with the challenging user; run converse again"):
        load(own)
