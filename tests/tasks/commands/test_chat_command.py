"""`rlver chat` on both sides, with lines from a pipe."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import people
from micro import micro_model, micro_tokenizer
from profiles import profile, write_profiles
from ruamel.yaml import YAML
from scripted_server import Reply, serving_beside

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import load_yaml, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatedUser, SimulatorUnavailable
from rlver.components.domain.transcript import Appraisal, Evidence
from rlver.components.personas.profiles import import_profiles
from rlver.components.policy.load import save_policy
from rlver.components.policy.token_policy import TokenPolicy
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.flows.cli import main
from rlver.tasks.runtime import person
from rlver.tasks.runtime.person import Terminal, reasons, support


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["policy"] |= {"thinking": True, "max_reply_tokens": 8, "max_context_tokens": 300}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    write_jsonl(tmp_path / "personas.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_supporter_sees_the_emotion_its_reasons_and_at_the_end_the_need(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    persona = people()[1][2]
    typed(monkeypatch, "I am so sorry, that sounds hard.", "", "Everything happens for a reason.", "/quit", "never read")
    assert main(["chat", "--as", "supporter", "--persona", persona.persona_id, "--personas", "personas.jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"user> {persona.first_line}" in lines
    assert "you > I am so sorry, that sounds hard." in lines and "you > never read" not in lines
    bars = [int(line.split()[1]) for line in lines if line.strip().startswith("emotion ")]
    assert bars[0] == 40 and len(bars) == 3 and bars[2] < bars[1]
    assert any("platitude" in line and "'Everything happens for a reason'" in line for line in lines)
    assert lines[-2] == f"you left after 2 turns, final emotion {bars[-1]}."
    assert lines[-1] == f"The hidden need was {persona.hidden_need}: {persona.need_text}"


def test_a_user_who_cannot_be_reached_ends_the_talk_with_the_reason_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ScriptedSimulator):
        def session(self, persona: Persona, seed: int) -> SimulatedUser:
            user = super().session(persona, seed)
            monkeypatch.setattr(user, "appraise", gone)
            return user

    async def gone(reply: str) -> Appraisal:
        raise SimulatorUnavailable("turn 1: nobody answers")

    shown = io.StringIO()
    with pytest.raises(SimulatorUnavailable) as refusal:
        asyncio.run(support(people()[1][0], 7, Silent("vanilla"), EmotionRules(), Terminal(io.StringIO("I am here.\n"), shown)))
    assert str(refusal.value) == "turn 1: nobody answers"
    assert shown.getvalue().count("user> ") == 1, "no more is said after that"


def test_evidence_may_count_in_fractions() -> None:
    said = {"content": "It greets me.", "target": "That helps.", "activity": "Somebody is there.", "feeling": "seen"}
    felt = Appraisal(change=5, evidence=(Evidence(step="target", what="serves_need", span="hello", points=4.5),), **said)
    assert reasons(felt)[-1] == "+4.5 serves_need ('hello')"


def test_a_user_who_has_had_enough_ends_the_talk(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, *["It is all your own fault."] * 20)
    assert main(["chat", "--as", "supporter", "--personas", "personas.jsonl"]) == 0
    assert re.fullmatch(r"emotion_floor after [45] turns, final emotion \d\.", capsys.readouterr().out.splitlines()[-2])


def test_without_a_personas_file_somebody_is_composed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch)
    assert main(["chat", "--as", "supporter"]) == 0
    assert "you left after 0 turns, final emotion 40." in capsys.readouterr().out


def test_an_unknown_persona_is_told_with_one_that_is_there(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "--as", "supporter", "--persona", "nobody", "--personas", "personas.jsonl"]) == 1
    assert capsys.readouterr().err == f"error: there is no persona nobody in personas.jsonl; the first one is {people()[1][0].persona_id}\n"


def test_a_policy_answers_every_line_the_same_for_the_same_seed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for name, seed in (("one", "1"), ("one", "1"), ("one", "2")):
        save_policy(micro_model(scale=2.0), micro_tokenizer(), project / "models" / name)
        typed(monkeypatch, "My sister left.", "And then?")
        assert main(["chat", "--seed", seed]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
    lines = said[0].splitlines()
    assert lines[0].startswith("You talk to models/one.")
    assert [line for line in lines if line.startswith("you > ")] == ["you > My sister left.", "you > And then?"]
    assert sum(line.startswith("it > ") for line in lines) == 2


def test_ctrl_c_says_where_is_kept_what_went_to_a_server(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(person, "talk", interrupted)
    (project / "dvc.yaml").write_text("stages: {}\n")
    save_policy(micro_model(), micro_tokenizer(), project / "models" / "one")
    assert main(["chat"]) == 130
    assert capsys.readouterr().err.endswith("no dialogue of this command is kept, so it begins anew\n")
    with serving_beside(lambda number, asked: Reply(body=b'{"data": [{"id": "model-a"}]}')) as server:
        assert main(["chat", "--policy", f"vllm:{server.url}"]) == 130
    assert capsys.readouterr().err.endswith("it begins anew; what was said is kept with the model's answers in answers/policy.db\n")


def test_a_chat_leaves_the_server_for_rollouts_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A training may be using its weights."""
    settings = load_yaml(project / "params.yaml")
    settings["rollout"]["sampler"] = "vllm"
    YAML(typ="safe").dump(settings, project / "params.yaml")
    monkeypatch.setenv("RLVER_POLICY_SERVER_URL", "http://127.0.0.1:9")
    save_policy(micro_model(), micro_tokenizer(), project / "models" / "one")
    typed(monkeypatch, "My sister left.")
    assert main(["chat"]) == 0
    assert "it > " in capsys.readouterr().out


@pytest.mark.parametrize("named", ["settings", "personas"])
def test_a_policy_is_spoken_to_in_the_language_of_the_personas(
    named: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chinese = import_profiles(write_profiles(project / "profiles.jsonl", profile()), "test")
    write_jsonl(project / "zh.jsonl", [persona.model_dump(mode="json") for persona in chinese])
    save_policy(micro_model(), micro_tokenizer(), project / "models" / "one")
    languages: list[str] = []
    begun = TokenPolicy.session
    monkeypatch.setattr(
        TokenPolicy, "session", lambda self, name, seed, language: languages.append(language) or begun(self, name, seed, language)
    )
    typed(monkeypatch)
    assert main(["chat"]) == 0
    if named == "settings":
        (project / "params").mkdir()
        (project / "params" / "v.yaml").write_text("personas: {imported_test: zh.jsonl}\n")
    typed(monkeypatch)
    assert main(["chat", *(["--variant", "v"] if named == "settings" else ["--personas", "zh.jsonl"])]) == 0
    assert languages == ["en", "zh"]


def test_the_trained_policy_is_preferred_to_the_base(project: Path) -> None:
    from rlver.tasks.runtime.person import newest_policy

    for name in ("trained", "base"):
        (project / "models" / name).mkdir(parents=True)
        (project / "models" / name / "config.json").write_text("{}")
    os.utime(project / "models" / "trained" / "config.json", (1, 1))
    assert newest_policy(project / "models").name == "trained"


def test_a_talk_that_no_longer_fits_says_so(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    save_policy(micro_model(scale=2.0), micro_tokenizer(), project / "models" / "one")
    typed(monkeypatch, *["word " * 60] * 5)
    assert main(["chat"]) == 1
    assert re.search(
        r"the talk has become too long for the model \(turn \d: .* of 300 tokens.*\); start a new one", capsys.readouterr().err
    )


def test_without_a_model_there_is_nobody_to_talk_to(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "hello")
    assert main(["chat"]) == 1
    assert capsys.readouterr().err == "error: models: no model yet; `rlver run` makes one, or name one with --policy\n"


@pytest.mark.long
def test_a_real_pipe_works(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlver.flows.cli", "chat", "--as", "supporter", "--personas", "personas.jsonl"],
        input="I am so sorry, that sounds hard.\n", capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "you > I am so sorry" in done.stdout and "you left after 1 turns" in done.stdout
