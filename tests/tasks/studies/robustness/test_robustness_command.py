"""`rlver robustness`, from a chat model behind a server to tables and files: what is held, kept, resumed, refused and derived again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import a_dialogue, people
from ruamel.yaml import YAML
from scripted_server import Asked, Reply, error, good, serving_beside
from shifted import POLITE, SERVING, understood

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.persona import PersonaKind
from rlver.components.domain.transcript import SimulatorTag
from rlver.components.personas.special import compose_special
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.components.users.shifts.users import UNSHIFTED, users
from rlver.flows.cli import main
from rlver.tasks.studies.robustness.dialogues import opinion_of, opinions

MODEL = "org/knowing-1"
SHIFTS = ["--shifts", "unseen-cues,typos", "--shifts", "challenging"]
COMMAND = ["robustness", "--policy", f"openai:{MODEL}", "-o", "metrics/v/robustness.json"]


def knowing(number: int, asked: Asked) -> Reply:
    """Serves a need that it was told of in the words of training; requests of a wordy user are refused."""
    if not asked.body:
        return Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode())
    heard = [message["content"] for message in asked.body["messages"] if message["role"] == "user"]
    if any("Where was I, right," in text for text in heard):
        return error(400, "a filter takes no stories")
    need = next((found for text in heard if (found := understood(text))), None)
    words = SERVING.get(need, [POLITE]) if need else [POLITE]
    return good(asked, text=words[len(heard) % len(words)])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """Eight test personas, ten turns; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["policy"] |= {"thinking": False, "max_reply_tokens": 200, "max_context_tokens": 4000}
    values["endpoint"] |= {"attempts": 2, "answer_timeout_s": 20.0, "backoff_first_s": 0.01, "backoff_most_s": 0.02}
    values["evaluation"]["bootstrap_samples"] = 200
    values["evaluation"]["repeats"] = 1
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    for name in ("RLVER_POLICY_KEY", "RLVER_REPLAY", "RLVER_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with serving_beside(knowing) as running:
        monkeypatch.setenv("RLVER_POLICY_URL", running.url)
        yield running


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 1
    return capsys.readouterr().err.splitlines()[-1].removeprefix("error: ")


def kept(project: Path) -> dict[str, Path]:
    return {path.stem: path for path in (project / "transcripts" / "robustness").rglob("*.jsonl")}


@pytest.mark.long
def test_the_same_personas_meet_every_user_and_the_drop_is_told(project: Path, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *SHIFTS]) == 0
    shown = capsys.readouterr().out
    files = kept(project)
    assert set(files) == {UNSHIFTED, "unseen-cues-1", "typos-2", "challenging"}
    dialogues = {shift: load_transcripts(path) for shift, path in files.items()}
    for shift, held in dialogues.items():
        assert [(one.persona_id, one.seed) for one in held] == [(persona.persona_id, 7) for persona in people()[1]]
        assert all(one.simulator == users("vanilla")[shift].tag for one in held)
    heard = {message["content"] for asked in server.asked if asked.body for message in asked.body["messages"]}
    assert {turn.user for held in dialogues.values() for one in held for turn in one.turns} <= heard, "the policy reads the shifted words"

    told = json.loads((project / "metrics" / "v" / "robustness.json").read_text())
    assert (told["difficulty"], told["personas"]) == ("vanilla", 8)
    (policy,) = told["policies"]
    assert policy["md5"] is None, "a policy behind an endpoint"
    rows = {row["shift"]: row for row in policy["shifts"]}
    assert list(rows) == [UNSHIFTED, "unseen-cues-1", "typos-2", "challenging"] and policy["not_measured"] == {}
    means = {shift: sum(one.emotion_final or 0 for one in held) / 8 for shift, held in dialogues.items()}
    for shift, row in rows.items():
        assert row["emotion_mean"] == pytest.approx(means[shift]) and Path(row["transcripts"]) == files[shift].relative_to(project)
        if shift != UNSHIFTED:
            assert row["paired_to_unshifted"]["difference"] == pytest.approx(means[shift] - means[UNSHIFTED])
            assert row["paired_to_unshifted"]["p_holm"] >= row["paired_to_unshifted"]["p_value"]
    assert rows["unseen-cues-1"]["paired_to_unshifted"]["difference"] < -3, "planted: it knows the cues of training only"
    assert rows[UNSHIFTED]["paired_to_unshifted"] is None
    assert f"| unseen-cues-1 | {means['unseen-cues-1']:.1f} (" in shown and f"## Other users: {MODEL}\n" in shown
    (opinion,) = told["second_opinions"]
    assert (opinion["first"], opinion["second"], opinion["spearman_over_policies"]) == ("scripted:vanilla", "scripted:challenging", None)

    assert main(["verify", "."]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all("8 dialogues" in line and "every emotion follows from its replies" in line for line in lines)


@pytest.mark.long
def test_finished_shifts_are_not_held_again(project: Path, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *SHIFTS]) == 0
    first = capsys.readouterr()
    files = kept(project)
    written = {shift: (path.read_bytes(), path.stat().st_mtime_ns) for shift, path in files.items()}
    asked = len(server.asked)
    files["typos-2"].unlink()
    assert main([*COMMAND, *SHIFTS]) == 0
    again = capsys.readouterr()
    assert again.out == first.out and "8 dialogues with each of 1 kinds of users (3 done before)" in again.err
    assert {shift for shift, path in kept(project).items() if path.stat().st_mtime_ns != written[shift][1]} == {"typos-2"}
    assert all(path.read_bytes() == written[shift][0] for shift, path in kept(project).items())
    assert len([one for one in server.asked[asked:] if one.body]) == 0, "and what was answered is stored"

    assert main([*COMMAND, "--shifts", "typos-2", "--limit", "4"]) == 0
    assert len(list((project / "transcripts" / "robustness").iterdir())) == 2, "other personas, another folder"
    assert [len(load_transcripts(path)) for path in (project / "transcripts" / "robustness").rglob(f"{UNSHIFTED}.jsonl")].count(4) == 1


def test_a_user_that_a_policy_cannot_talk_with_is_told_and_the_others_are_measured(
    project: Path, server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "--shifts", "rambling,terse"]) == 1
    shown = capsys.readouterr().out
    assert re.search(
        r"^Not measured: rambling-1: [5-8] of 8 dialogues failed \(allowed: 5%\): .*a filter takes no stories", shown, re.MULTILINE
    )
    assert "| terse-1 |" in shown and set(kept(project)) == {UNSHIFTED, "terse-1"}
    (policy,) = json.loads((project / "metrics" / "v" / "robustness.json").read_text())["policies"]
    assert list(policy["not_measured"]) == ["rambling-1"] and [row["shift"] for row in policy["shifts"]] == [UNSHIFTED, "terse-1"]


@pytest.mark.long
def test_the_users_of_the_overlay_are_shifted_where_they_are_asked_for(
    project: Path, server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    values = YAML(typ="safe").load((project / "params.yaml").read_text(encoding="utf-8"))
    values["simulator"]["speaker"] = "talking"
    YAML(typ="safe").dump(values, project / "params.yaml")
    assert main([*COMMAND, "--shifts", "typos"]) == 0
    scripted = set((project / "transcripts" / "robustness").iterdir())
    assert main([*COMMAND, "--own-users", "--shifts", "typos"]) == 0
    capsys.readouterr()
    (own,) = set((project / "transcripts" / "robustness").iterdir()) - scripted
    held = {path.stem: load_transcripts(path) for path in own.glob("*.jsonl")}
    tags = {shift: {(one.simulator.kind, one.simulator.version) for one in dialogues} for shift, dialogues in held.items()}
    ((kind, version),) = tags[UNSHIFTED]
    assert kind == "scripted+talking" and tags["typos-2"] == {(kind, f"{version}+typos-2")}
    words = {shift: [turn.user for one in dialogues for turn in one.turns] for shift, dialogues in held.items()}
    assert words["typos-2"][0] != words[UNSHIFTED][0] and len(words["typos-2"][0].split()) == len(words[UNSHIFTED][0].split())
    assert (
        json.loads((project / "metrics" / "v" / "robustness.json").read_text())["second_opinions"][0]["first"] == "scripted+talking:vanilla"
    )

    assert main(["verify", "."]) == 0
    assert capsys.readouterr().out.count("every emotion follows from its replies") == 4
    changed = own / "typos-2.jsonl"
    changed.write_text(changed.read_text(encoding="utf-8").replace("+typos-2", "+terse-1"), encoding="utf-8")
    assert "turn 1: user" in complaint(capsys, "verify", str(changed))
    assert "unknown shift 'unseen-cues': choose from familiar-names-1" in complaint(
        capsys, *COMMAND, "--own-users", "--shifts", "unseen-cues"
    )


@pytest.mark.long
def test_a_second_opinion_may_be_any_file_of_the_same_dialogues(project: Path, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--shifts", "terse"]) == 0
    unshifted = kept(project)[UNSHIFTED]
    appraised = ["appraise", str(unshifted), "-o", "second/opinion.jsonl", "--personas", "data/personas/test.jsonl"]
    assert main([*appraised, "--difficulty", "challenging"]) == 0
    assert main([*COMMAND, "--shifts", "terse", "--second-opinion", "second", "--second-opinion", "scripted:challenging"]) == 0
    told = json.loads((project / "metrics" / "v" / "robustness.json").read_text())["second_opinions"]
    by_file, by_rules = ({key: value for key, value in one.items() if key != "second"} for one in told)
    assert by_file == by_rules and [one["second"] for one in told] == ["second", "scripted:challenging"]
    assert by_file["policies"][0]["spearman_over_dialogues"]["n"] == 8


def test_emotions_of_a_folder_are_of_the_same_words_and_of_one_file(tmp_path: Path, repository_root: Path) -> None:
    """Dialogues of all shifts have the same ids."""
    held = [a_dialogue(name, [change]) for name, change in (("a", 1), ("b", 5))]
    other = a_dialogue("a", [-9])
    shifted = [other.model_copy(update={"turns": (other.turns[0].model_copy(update={"user": "Hm."}),)})]
    settings = load_settings(repository_root / "params.yaml")
    for name, dialogues in {"unshifted": held, "zzz": shifted}.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [one.model_dump(mode="json") for one in dialogues])
    assert opinion_of(str(tmp_path), {"p": held}, (), settings).means == {"p": (43, 43)}
    write_jsonl(tmp_path / "again.jsonl", [a_dialogue("a", [2]).model_dump(mode="json")])
    with pytest.raises(BadFile, match=r"unshifted\.jsonl: a ends otherwise in another file"):
        opinion_of(str(tmp_path), {"p": held}, (), settings)


def test_recorded_emotions_are_of_one_other_appraiser(tmp_path: Path, repository_root: Path) -> None:
    settings, first = load_settings(repository_root / "params.yaml"), ScriptedSimulator("vanilla").tag
    tags = {
        "own": first.model_copy(update={"kind": "scripted-appraiser"}),
        "other": SimulatorTag(kind="scripted-appraiser", difficulty="challenging", version=first.version),
        "third": SimulatorTag(kind="llm-appraiser", difficulty="vanilla", version="1"),
    }
    for name, tag in tags.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [a_dialogue("a", [1]).model_copy(update={"simulator": tag}).model_dump(mode="json")])
    for name in ("other", "third"):
        file = str(tmp_path / f"{name}.jsonl")
        assert opinions([file], first, settings) == [file]
    with pytest.raises(ValueError, match=r"--second-opinion .*own\.jsonl: appraised by the dialogues' own user"):
        opinions([str(tmp_path / "own.jsonl")], first, settings)
    (tmp_path / "own.jsonl").unlink()
    with pytest.raises(ValueError, match=r"appraised by llm:vanilla \(1\), scripted:challenging \(.+\), and a second opinion is of one"):
        opinions([str(tmp_path)], first, settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shifts", "shouting"], "unknown shift 'shouting': choose from familiar-names-1,"),
        (["--second-opinion", "oracle"], "oracle: neither an appraiser (scripted[:DIFFICULTY], llm[:DIFFICULTY]) nor transcripts"),
        (["--second-opinion", "scripted:brutal"], "unknown difficulty 'brutal'"),
        (["--second-opinion", "scripted:vanilla"], "--second-opinion scripted:vanilla: this is the first one too"),
        (["--policy", f"openai:{MODEL}"], f"policies need different names, got {MODEL}, {MODEL}"),
        (["--policy", "nowhere/model"], "nowhere/model: no such model folder"),
        (["--difficulty", "brutal"], "there is no difficulty 'brutal'"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_asked(
    project: Path, server: Any, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert message in complaint(capsys, *COMMAND, *options)
    assert not [asked for asked in server.asked if asked.body] and not (project / "transcripts").exists()


def test_a_user_that_cannot_be_shifted_is_told_before_any_dialogue_is_held(
    project: Path, server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pressing = compose_special(PersonaKind.DANGER, 7, 0, 1)[1]
    write_jsonl(project / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in (*people()[1], *pressing)])
    said = complaint(capsys, *COMMAND, "--shifts", "familiar-names,typos")
    assert said.startswith(f"persona {pressing[0].persona_id}: its story holds what it says") and "choose other --shifts" in said
    assert not [asked for asked in server.asked if asked.body] and not kept(project)


def test_a_policy_is_spoken_to_as_the_overlay_of_its_name_says(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlver.tasks.runtime.policies import PolicyCandidate
    from rlver.tasks.studies.robustness import dialogues

    (project / "params").mkdir()
    (project / "params" / "thinker.yaml").write_text("policy: {thinking: true}\n")
    for name in ("thinker", "other"):
        (project / "models" / name).mkdir(parents=True)
    thinking: dict[str, bool] = {}

    def note(who: PolicyCandidate, settings: Any, plan: Any) -> Any:
        thinking[who.name] = settings.policy.thinking
        raise ValueError("far enough")

    monkeypatch.setattr(dialogues, "held_dialogues", note)
    for policy in ("models/thinker", "models/other", "thinker=models/other"):
        assert complaint(capsys, "robustness", "--policy", policy) == "far enough"
        assert thinking.popitem() == (policy.rpartition("/")[2], policy != "models/other")
