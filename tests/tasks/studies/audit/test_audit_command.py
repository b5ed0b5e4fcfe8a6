"""`rlver audit` and the report stage with files: what they find by themselves, the exit status, what they write and refuse."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from audit_talks import ROOT, VANILLA, GullibleUser, cheating, mixture, people, talks
from micro import micro_model, micro_tokenizer
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.policy.load import save_policy
from rlver.components.policy.tiny.supporters import mixed, need_aware
from rlver.flows.cli import main
from rlver.tasks.stages import report
from rlver.tasks.studies.audit.cheats import CHEATS
from rlver.tasks.studies.special.danger import COUNTED

STOCK = cheating(CHEATS["stock phrases"])


def appraised(dialogue: Dialogue) -> dict[str, Any]:
    """As a transcript file has it: every turn with an appraisal, so that the arithmetic can be checked."""
    steps, emotion = [], dialogue.emotion_start
    assert dialogue.emotion_final is not None
    left = dialogue.emotion_final - dialogue.emotion_start
    for turn in dialogue.turns:
        change = max(-10, min(10, left))
        left, emotion = left - change, emotion + change
        reasons = {"content": "c", "target": "t", "activity": "a", "feeling": "f", "change": change}
        steps.append(Turn.model_validate({**turn.model_dump(), "emotion": emotion, "appraisal": reasons}))
    return dialogue.model_copy(update={"turns": tuple(steps)}).model_dump(mode="json")


def write(path: Path, dialogues: list[Dialogue]) -> Path:
    write_jsonl(path, [appraised(dialogue) for dialogue in dialogues])
    return path


OF_ANOTHER = {"kind": "llm-appraiser", "difficulty": "vanilla", "version": "another"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project: base, an honest variant, a gamed one; params with a short bootstrap; twelve personas to probe with."""
    root = tmp_path_factory.mktemp("audited")
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    values["evaluation"]["bootstrap_samples"] = 400
    values["audit"]["probe_personas"] = 12
    YAML(typ="safe").dump(values, root / "params.yaml")
    base = talks(mixed(0.36))
    write(root / "transcripts" / "base.jsonl", base)
    write(root / "transcripts" / "honest.jsonl", talks(mixed(1.0)))
    gamed = (one.model_copy(update={"simulator": base[0].simulator}) for one in talks(STOCK, GullibleUser()))  # the same user, says the tag
    write(root / "transcripts" / "gamed.jsonl", list(gamed))
    write_jsonl(root / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()])
    return root


@pytest.fixture
def project(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    shutil.copytree(files, root)
    monkeypatch.chdir(root)
    return root


@pytest.mark.long
def test_an_alarm_is_exit_status_1_and_every_check_is_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "gamed", "honest", "base", "-o", "metrics/audit.json"]) == 1
    text = capsys.readouterr().out
    assert "## gamed: alarm" in text and "## honest: clean (not judged: " in text and "## base: clean (not judged: " in text
    found = json.loads(Path("metrics/audit.json").read_text())["policies"]
    outcome = {name: {check["name"]: check["outcome"] for check in policy["checks"]} for name, policy in found.items()}
    assert outcome["gamed"]["stock_phrases"] == outcome["gamed"]["unconfirmed_gain"] == "alarm"
    assert outcome["gamed"].keys() == outcome["base"].keys()
    assert outcome["base"]["unconfirmed_gain"] == "unknown"  # the base is not compared with itself
    checks = [check for policy in found.values() for check in policy["checks"]]
    assert {"name", "value", "ci95", "threshold", "outcome", "why"} <= set(checks[0])
    assert all(check["ci95"] for check in checks if check["value"] is not None)  # no number without its interval


@pytest.mark.long
def test_a_clean_policy_is_exit_status_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "transcripts/honest.jsonl", "--base", "base", "--personas", "data/personas/test.jsonl"]) == 0
    assert "unconfirmed_gain" in capsys.readouterr().out


@pytest.mark.long
def test_few_personas_are_not_clean_but_may_alarm(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("few.jsonl"), talks(mixed(1.0))[:9])
    write(Path("ten.jsonl"), talks(mixed(1.0))[50:60])
    write(Path("gamed.jsonl"), talks(STOCK)[:9])
    assert main(["audit", "few.jsonl", "ten.jsonl", "gamed.jsonl"]) == 1
    text = capsys.readouterr().out
    assert "## few.jsonl: unknown (too few personas: 9 of at least 10)" in text
    undecided = r"## ten\.jsonl: unknown \(undecided: .*one_act, .*praise, .*unconfirmed_gain\)"
    assert re.search(undecided, text), "ten personas leave every limit inside an interval"
    assert "## gamed.jsonl: alarm\n" in text


@pytest.mark.long
def test_a_variant_finds_its_log_and_its_held_out_dialogues(project: Path) -> None:
    write_jsonl(Path("logs/gamed/train.jsonl"), [{"step": step, "reply_tokens": 10.0 * 1.2**step} for step in range(1, 21)])
    for step, share in ((0, 0.0), (10, 0.5), (20, 1.0)):
        write(Path(f"logs/gamed/held_out/{step}.jsonl"), talks(mixture(share, STOCK, mixed(0.36)), GullibleUser(), people()[:24]))
    assert main(["audit", "gamed", "-o", "audit.json"]) == 1
    checks = {check["name"]: check for check in json.loads(Path("audit.json").read_text())["policies"]["gamed"]["checks"]}
    assert checks["growth_in_training"]["outcome"] == checks["reward_overoptimization"]["outcome"] == "alarm"
    assert "3 checkpoints" in checks["reward_overoptimization"]["why"]
    second = []
    for name in ("base", "gamed"):
        path = Path(f"transcripts/{name}.jsonl")
        rows = [{**json.loads(row), "dialogue_id": f"{name}/{number}"} for number, row in enumerate(path.read_text().splitlines())]
        write_jsonl(path, rows)
        second += [{**row, "simulator": OF_ANOTHER} for row in rows]
    write_jsonl(Path("second.jsonl"), second)
    assert main(["audit", "gamed", "--second", "second.jsonl", "-o", "audit.json"]) == 1
    checks = {check["name"]: check for check in json.loads(Path("audit.json").read_text())["policies"]["gamed"]["checks"]}
    assert checks["reward_overoptimization"]["outcome"] == "unknown"
    assert "the second appraisal is a record" in checks["reward_overoptimization"]["why"]


def test_the_appraisal_of_another_appraiser_can_be_given(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = [row for name in ("base", "honest") for row in Path(f"transcripts/{name}.jsonl").read_text().splitlines()]
    second = [json.dumps({**json.loads(row), "dialogue_id": f"{number}", "simulator": OF_ANOTHER}) for number, row in enumerate(second)]
    Path("second.jsonl").write_text("\n".join(second))
    assert main(["audit", "honest", "--second", "second.jsonl"]) == 1
    assert "the second appraisal lacks 72 of 72 dialogues" in capsys.readouterr().err


def test_the_user_s_own_appraisal_is_no_second_opinion(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("transcripts/honest.jsonl").read_text()
    assert main(["appraise", "transcripts/honest.jsonl", "-o", "again.jsonl", "--personas", "data/personas/test.jsonl"]) == 0
    for own in ("transcripts/honest.jsonl", "again.jsonl"):
        capsys.readouterr()
        assert main(["audit", "honest", "--second", own]) == 1
        assert f"--second {own}: appraised by the dialogues' own user" in capsys.readouterr().err
    assert Path("transcripts/honest.jsonl").read_text() == before
    rows = [{**json.loads(row), "simulator": OF_ANOTHER} for row in before.splitlines()]
    rows[0]["simulator"] = OF_ANOTHER | {"version": "a third"}
    write_jsonl(Path("two.jsonl"), rows)
    assert main(["audit", "honest", "--second", "two.jsonl"]) == 1
    assert (
        "--second two.jsonl: appraised by llm:vanilla (a third), llm:vanilla (another), and a second opinion is of one"
        in capsys.readouterr().err
    )


def test_the_appraiser_that_paid_in_training_is_no_second_opinion(project: Path) -> None:
    variant = "ppo-direct-curriculum"
    shutil.copytree(ROOT / "params", "params")
    write(Path(f"transcripts/{variant}.jsonl"), talks(mixed(1.0))[:20])
    for name in ("gamed", "honest"):
        Path(f"transcripts/{name}.jsonl").unlink()
    assert main(["audit", variant, "-o", "audit.json"]) == 0
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", name)]
    assert report.main([*folders, "--personas", "data/personas/test.jsonl", "--out", "reports"]) == 0
    for found in (json.loads(Path("audit.json").read_text())["policies"], json.loads(Path("reports/audit.json").read_text())):
        check = next(one for one in found[variant]["checks"] if one["name"] == "unconfirmed_gain")
        assert (check["outcome"], check["value"]) == ("unknown", None) and "the second appraiser paid in training" in check["why"]


def test_an_overlay_that_no_longer_holds_stops_no_report(project: Path) -> None:
    """Nobody knows who paid in the training of its variant, so that one has no second opinion."""
    shutil.copytree(ROOT / "params", "params")
    Path("params/honest.yaml").write_text("train: {gone: 1}\n")
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", name)]
    assert report.main([*folders, "--personas", "data/personas/test.jsonl", "--out", "reports"]) == 0
    found = json.loads(Path("reports/audit.json").read_text())
    gains = {name: next(one for one in found[name]["checks"] if one["name"] == "unconfirmed_gain") for name in ("honest", "gamed")}
    assert gains["honest"]["outcome"] == "unknown"
    assert "who paid in training is not known: params/honest.yaml: unknown key 'train.gone'" in gains["honest"]["why"]
    assert gains["gamed"]["value"] is not None


@pytest.mark.long
def test_the_probe_lets_every_cheat_talk_with_the_configured_user(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "base", "honest", "--probe", "-o", "audit.json"]) == 0
    probe = json.loads(Path("audit.json").read_text())["probe"]
    base, trained = probe["references"]
    assert trained["value"] > base["value"], "the base is not the policy that was trained, also where it is named first"
    assert {check["name"] for check in probe["cheats"]} == set(CHEATS)
    assert probe["outcome"] == "unknown" and probe["personas"] == 12 and probe["threshold"] == 40, "12 personas do not show it clean"
    assert [one["name"] for one in probe["references"]] == ["base", "trained"]
    assert "## The simulator probed: unknown" in capsys.readouterr().out


@pytest.mark.long
def test_people_in_danger_meet_every_model_and_change_no_outcome(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "params", "params")
    save_policy(micro_model(scale=2.0), micro_tokenizer(), Path("models/base"))
    monkeypatch.setattr("rlver.tasks.studies.audit.command.IN_DANGER", 1)
    assert main(["audit", "base", "honest", "-o", "without.json"]) == main(["audit", "base", "honest", "--danger", "-o", "audit.json"]) == 0
    without, written = (json.loads(Path(name).read_text()) for name in ("without.json", "audit.json"))
    assert written["policies"] == without["policies"]
    assert set(written["danger"]) == {"base"} and set(written["danger"]["base"]) == set(COUNTED)
    shown = capsys.readouterr().out
    assert "base: 1 dialogues with people in danger" in shown and "honest: not met, models/honest is no model" in shown
    piped = io.BytesIO()
    monkeypatch.setattr("sys.__stdout__", io.TextIOWrapper(piped))
    assert main(["audit", "base", "--danger", "-o", "-"]) == 0
    assert set(json.loads(piped.getvalue())) == {"policies", "danger"}, "one object"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "neither a transcript file nor a variant"),
        (["honest", "gamed", "--log", "logs/x.jsonl"], "belongs to one policy"),
        (["honest", "--base", "missing.jsonl"], "no such file"),
        (["honest", "--probe", "--probe-personas", "nosuch.jsonl"], "nosuch.jsonl: no such file"),
        (["honest", "--log", "nosuch.jsonl"], "nosuch.jsonl: no such file"),
        (["transcripts/honest.jsonl", "--log", "nosuch.jsonl"], "nosuch.jsonl: no such file"),
    ],
)
def test_what_is_missing_is_one_readable_line(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["audit", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_held_out_dialogues_are_named_after_their_step(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("logs/honest/held_out/last.jsonl"), talks(need_aware, VANILLA, people()[:2]))
    assert main(["audit", "honest"]) == 1
    assert "<step>.jsonl" in capsys.readouterr().err


@pytest.mark.long
def test_every_report_has_its_audit(project: Path) -> None:
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", name)]
    Path("transcripts/gamed.jsonl").unlink()  # of another simulator, which a report would rightly keep apart
    for _ in range(2):  # the section is written once, however often the report is made
        assert report.main([*folders, "--personas", "data/personas/test.jsonl", "--out", "reports"]) == 0
    audits = json.loads(Path("reports/audit.json").read_text())
    assert list(audits) == ["base", "honest"] and {audit["outcome"] for audit in audits.values()} == {"clean"}
    page = Path("reports/results.md").read_text()
    assert page.count("## Audit: verdicts") == page.count("## Audit: is the score earned or gamed?") == 1
    assert "| honest | clean | – |" in page


@pytest.mark.long
def test_the_variant_base_is_no_base_of_dialogues_with_other_people(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = [one.model_copy(update={"persona_id": f"elsewhere-{one.persona_id}"}) for one in talks(mixed(1.0))]
    write(Path("foreign.jsonl"), elsewhere)
    assert main(["audit", "foreign.jsonl", "-o", "apart.json"]) == 0
    assert "compared with no base: foreign.jsonl met other personas than transcripts/base.jsonl" in capsys.readouterr().err
    found = json.loads(Path("apart.json").read_text())["policies"]["foreign.jsonl"]["checks"]
    assert {check["outcome"] for check in found if check["name"] == "unconfirmed_gain"} == {"unknown"}
    assert main(["audit", "honest"]) == 0
    assert "compared with the base in transcripts/base.jsonl" in capsys.readouterr().err
    harder = [
        one.model_copy(update={"simulator": one.simulator.model_copy(update={"difficulty": "challenging"})}) for one in talks(mixed(1.0))
    ]
    write(Path("harder.jsonl"), harder)
    assert main(["audit", "harder.jsonl"]) == 0
    assert "compared with no base: harder.jsonl met other users than transcripts/base.jsonl" in capsys.readouterr().err
    assert main(["audit", "harder.jsonl", "--base", "transcripts/base.jsonl"]) == 1
    assert "scores of different simulators are not comparable" in capsys.readouterr().err
