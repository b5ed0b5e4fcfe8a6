"""`rlver simulator calibrate`: what it prints, when it is content, what it refuses; and, slowly, the users as they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import cast

import pytest
from fakes import dialogues_of, people
from heard_by_hand import NEEDS_READER
from llm_project import make_llm_project
from micro import micro_model, micro_tokenizer

from benchmarks.llm_server import counts, running
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Policy
from rlver.components.policy.load import save_policy
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.effects import SERVES
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.flows.cli import main
from rlver.tasks.runtime.assembly import Conversation, simulator
from rlver.tasks.studies.calibration.calibration import Figure, figures_of, strategy_acceptance, table, verdict


def figure(difficulty: str, share: float, published: float, low: float = 0.04, high: float = 0.05) -> Figure:
    return Figure(difficulty, "strategy acceptance", Estimated(share, Interval(share - low, share + high), 200), published)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with the parameters of the repository; the current directory."""
    shutil.copy(repository_root / "params.yaml", tmp_path)
    shutil.copytree(repository_root / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, personas: tuple[Persona, ...]) -> Path:
    write_jsonl(path, [persona.model_dump(mode="json") for persona in personas])
    return path


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["simulator", "calibrate", *map(str, arguments)]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("█", "░"))]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


def test_the_table_has_percent_points_and_intervals() -> None:
    lines = table([figure("vanilla", 0.531, 0.524), figure("challenging", 0.3, 0.331)]).splitlines()
    assert re.split(r"  +", lines[0]) == ["user", "figure", "measured [95% interval]", "published", "difference"]
    assert re.split(r"  +", lines[1]) == ["vanilla", "strategy acceptance", "53.1 [49.1, 58.1]", "52.4", "+0.7"]
    assert re.split(r"  +", lines[2]) == ["challenging", "strategy acceptance", "30.0 [26.0, 35.0]", "33.1", "-3.1"]


def test_three_points_are_near_enough_and_more_are_not() -> None:
    near, far = figure("vanilla", 0.534, 0.524, 0.01, 0.01), figure("challenging", 0.29, 0.331, 0.01, 0.01)
    assert near.is_off is False and far.is_off
    assert verdict([near]) == "all within 3 points of the published figures"
    assert verdict([near, far]) == "further than 3 points from the published figure: challenging strategy acceptance -4.1"


def test_what_so_few_dialogues_do_not_show_is_not_decided() -> None:
    near, unknown = figure("vanilla", 0.534, 0.524, 0.01, 0.01), figure("challenging", 0.33, 0.331)
    assert unknown.is_off is None
    assert verdict([near, unknown]).endswith("is not decided by so few dialogues: challenging strategy acceptance -0.1")


def test_test_personas_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everybody = write(project / "test.jsonl", people()[1])
    assert "is no train persona" in complaint(capsys, "--model", project, "--personas", everybody)


def test_a_model_that_is_not_there_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everybody = write(project / "train.jsonl", people()[0])
    assert "models/base: no such model folder" in complaint(capsys, "--personas", everybody)


def test_a_policy_without_strategies_cannot_calibrate(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_policy(micro_model(scale=2.0), micro_tokenizer(), project / "micro")
    everybody = write(project / "train.jsonl", people()[0])
    said = complaint(capsys, "--model", project / "micro", "--personas", everybody, "--dialogues", 2)
    assert "no reply is dominated by one strategy" in said


def test_of_llm_users_strategy_acceptance_is_measured_and_nothing_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each version hears the replies of the vanilla dialogues: one appraisal each, of which vanilla's were answered before."""
    make_llm_project(tmp_path)
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path / "micro")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setattr(
        "rlver.tasks.studies.calibration.calibration.dominating_strategy", lambda reply: "praise"
    )  # micro speaks no English
    with running() as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        arguments = ["--model", "micro", "--personas", "train.jsonl", "--dialogues", "3"]
        assert main(["simulator", "calibrate", *arguments]) in (0, 1)
        asked = counts(url)
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()[1:-1]]
    assert [row[:2] for row in rows] == [["vanilla", "strategy acceptance"], ["challenging", "strategy acceptance"]]
    assert asked["calls"] == 3 * (3 + 2) + 3 * 3, "three vanilla dialogues, and nine replies once more for the challenging user"
    assert set(asked["asked"].values()) == {1}


@NEEDS_READER
def test_users_who_hear_and_talk_are_measured_by_what_they_hear(repository_root: Path) -> None:
    """Both replies serve the need. The scripted appraiser of challenging users doubts them, as nothing that was told comes back in them."""
    settings = load_settings(repository_root / "params.yaml", "pretrained")
    persona = next(one for one in people()[0] if SERVES[one.hidden_need] == "deep_empathy")
    talk = Conversation(simulator(settings), cast(Policy, None), settings.simulator.rules, 1)
    said = (
        "Underneath it all I sense how much this hurts you, and how lonely it must be.",
        "I sense an old grief in that, and that it hurts to be overlooked.",
    )
    held = [
        *dialogues_of(talk.user(settings, "vanilla"), [persona], lambda number, turn: said[turn], EmotionRules(max_turns=len(said))),
        *dialogues_of(talk.user(settings, "challenging"), [persona], lambda number, turn: said[turn], EmotionRules(max_turns=len(said))),
    ]
    found = {(one.difficulty, one.name): one.measured.value for one in figures_of(talk, held, [persona], settings)}
    accepted, expressed = "strategy acceptance", "need expression"
    assert {user for user, _ in found} == {"vanilla", "challenging"} and {name for _, name in found} == {accepted, expressed}
    assert found["vanilla", accepted] == found["challenging", accepted] == 1
    assert strategy_acceptance(held[:1], {persona.persona_id: persona}, ScriptedAppraiser("challenging")).value == 0


def test_users_of_other_appraisers_are_not_calibrated(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everybody = write(project / "train.jsonl", people()[0])
    (project / "params" / "learned.yaml").write_text("simulator: {appraiser: 'distilled:nowhere', speaker: talking}\n")
    said = complaint(capsys, "--personas", everybody, "--variant", "learned")
    assert "its users (distilled+talking) are not calibrated, only scripted, heard and llm ones are" in said


def test_an_interruption_does_not_promise_that_dialogues_are_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press_ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlver.tasks.studies.calibration.calibration.held_with_each_user", press_ctrl_c)
    save_policy(micro_model(), micro_tokenizer(), project / "micro")
    everybody = write(project / "train.jsonl", people()[0])
    assert main(["simulator", "calibrate", "--model", str(project / "micro"), "--personas", str(everybody)]) == 130
    assert capsys.readouterr().err.endswith("interrupted: no dialogue of this command is kept, so it begins anew\n")


def test_replies_to_chinese_personas_are_not_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everybody = write(project / "train.jsonl", tuple(persona.model_copy(update={"language": "zh"}) for persona in people()[0]))
    assert "does not speak English, the only language in which strategies are read" in complaint(capsys, "--personas", everybody)


@pytest.mark.slow
def test_the_users_keep_to_the_published_figures_with_the_base_policy(repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Needs the outputs of the stages `personas` and `base`."""
    model, personas = repository_root / "models" / "base", repository_root / "data" / "personas" / "train.jsonl"
    if not model.is_dir() or not personas.is_file():
        pytest.skip("needs models/base and data/personas/train.jsonl; rlver run makes them")
    arguments = ("--model", model, "--personas", personas, "--params", repository_root / "params.yaml", "--dialogues", 500)
    status = main(["simulator", "calibrate", *map(str, arguments)])
    assert status == 0, capsys.readouterr().out
