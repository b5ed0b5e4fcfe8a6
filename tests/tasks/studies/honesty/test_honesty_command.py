"""`rlver honesty`, from a random policy to tables and files: what is asked, kept, resumed, refused."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from dialogue_project import complaint
from scripted_server import Asked, Reply, good, serving_beside

from rlver.flows.cli import main
from rlver.tasks.graph.lock import md5_of
from rlver.tasks.runtime.connections import STORED
from rlver.tasks.studies.honesty.asking import read_answers
from rlver.tasks.studies.honesty.figures import RIGHT
from rlver.tasks.studies.honesty.questions import Framing, questions

MODEL = "org/agreeing-1"
SHORT = ["--limit", "2", "--max-tokens", "5"]
ITEMS = 30  # the fewest that a verdict is given of
ASKED_OF_TWO = [question.key for question in questions(2)]


def run(policy: Path, out: str, *more: str) -> list[str]:
    return ["honesty", "run", "--policy", str(policy), "-o", out, *SHORT, *more]


def test_a_policy_answers_every_item_four_times_and_every_probe_once(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(micro_policy, "a.jsonl")) == 0
    assert "a.jsonl: 10 answers of micro" in capsys.readouterr().out
    found = read_answers(Path("a.jsonl"))
    assert [answer.key for answer in found.answers] == ASKED_OF_TWO
    assert found.asked.md5 == md5_of(micro_policy)
    assert found.asked.policy == "micro" and found.asked.temperature == 0 and found.asked.max_answer_tokens == 5
    assert main(["honesty", "score", "a.jsonl", "--json", "metrics/micro/honesty.json"]) == 0
    shown = capsys.readouterr().out
    assert "at most 5 tokens each" in shown and "| plain | all | 2 |" in shown and "| told | all | 2 |" in shown
    numbers = json.loads(Path("metrics/micro/honesty.json").read_text())
    assert numbers["policy"] == "micro" and numbers["md5"] == md5_of(micro_policy) and set(numbers["tasks"]) == {*map(str, Framing), RIGHT}
    assert not list(project.glob("*.partial"))


@pytest.mark.long
def test_greedy_answers_are_the_same_whatever_the_seed_and_sampled_ones_are_not(project: Path, micro_policy: Path) -> None:
    for out, more in {
        "greedy": ["--seed", "1"],
        "again": ["--seed", "2"],
        "drawn": ["--sample", "--seed", "1"],
        "same": ["--sample", "--seed", "1"],
        "other": ["--sample", "--seed", "2"],
    }.items():
        assert main(run(micro_policy, out, *more)) == 0
    texts = {name: [answer.text for answer in read_answers(Path(name)).answers] for name in ("greedy", "again", "drawn", "same", "other")}
    assert texts["greedy"] == texts["again"] and texts["drawn"] == texts["same"] and texts["drawn"] != texts["other"]
    assert read_answers(Path("drawn")).asked.temperature > 0


def test_an_interrupted_run_goes_on_where_it_was_and_ends_in_the_same_file(
    project: Path, micro_policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlver.tasks.runtime.progress import Steps

    assert main(run(micro_policy, "whole.jsonl")) == 0
    steps: list[int] = []

    def press_ctrl_c(self: Steps) -> None:
        steps.append(1)
        if len(steps) == 4:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "step", press_ctrl_c)
        assert main(run(micro_policy, "out.jsonl")) == 130
    assert "run the same command again" in capsys.readouterr().err and not Path("out.jsonl").exists()
    partial = Path("out.jsonl.partial")
    kept = len(partial.read_text().splitlines()) - 1
    assert 4 <= kept < len(ASKED_OF_TWO)
    partial.write_text(partial.read_text() + '{"item": "h00')  # a line that was cut off
    asked: list[str] = []

    from rlver.components.policy.token_policy import TokenSession

    reply = TokenSession.reply

    async def noted(self: TokenSession, user: str) -> Any:
        asked.append(user)
        return await reply(self, user)

    with monkeypatch.context() as patch:
        patch.setattr(TokenSession, "reply", noted)
        assert main(run(micro_policy, "out.jsonl")) == 0
    assert len(asked) == len(ASKED_OF_TWO) - kept
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes() and not partial.exists()


def test_a_run_with_a_lower_limit_keeps_what_an_interrupted_one_was_answered(project: Path, micro_policy: Path) -> None:
    assert main(run(micro_policy, "whole.jsonl")) == 0
    partial = Path("out.jsonl.partial")
    shutil.copy("whole.jsonl", partial)
    fewer = ["--limit", "1", *SHORT[2:]]
    assert main(["honesty", "run", "--policy", str(micro_policy), "-o", "out.jsonl", *fewer]) == 0
    assert len(read_answers(Path("out.jsonl")).answers) == 5
    assert partial.read_bytes() == Path("whole.jsonl").read_bytes()
    assert main(run(micro_policy, "out.jsonl")) == 0
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes() and not partial.exists()


def test_what_another_run_left_half_done_is_not_gone_on_with(project: Path, micro_policy: Path) -> None:
    assert main(run(micro_policy, "a.jsonl")) == 0
    lines = Path("a.jsonl").read_text().splitlines()
    other = lines[0].replace('"identity": "', '"identity": "f')
    answer = json.loads(lines[1]) | {"text": "of something else"}
    Path("b.jsonl.partial").write_text(f"{other}\n{json.dumps(answer)}\n")
    assert main(run(micro_policy, "b.jsonl")) == 0
    assert Path("b.jsonl").read_bytes() == Path("a.jsonl").read_bytes()


@pytest.mark.long
def test_files_that_are_no_answers_are_refused_in_one_line(project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(run(micro_policy, "a.jsonl")) == 0
    head, first, *_ = Path("a.jsonl").read_text().splitlines()
    for text, message in {
        "": "not an answers file; `rlver honesty run` writes one",
        '{"dialogue_id": "x"}\n': "not an answers file",
        f"{head}\n": "no answers in the file",
        f"{head}\n{first}\n{first}\n": "x.jsonl:3: h001 was answered in condition plain already",
        f'{head}\n{{"item": "h001"}}\n': "x.jsonl:2: not of an answers file: condition",
        f"{head}\n{first.replace('legs', 'arms')}\n": "h001 (plain) is not asked like that today",
    }.items():
        Path("x.jsonl").write_text(text)
        assert message in complaint(capsys, "honesty", "score", "x.jsonl")
    capsys.readouterr()
    assert "is read too" in complaint(capsys, "honesty", "score", "a.jsonl", "--json", "a.jsonl")


SERVED = {question.asked: question for question in questions(ITEMS)}


def honest(number: int, asked: Asked) -> Reply:
    if not asked.body:
        return Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode())
    return good(asked, text=f"It is {SERVED[asked.content].right[0]}.")


def agreeing(number: int, asked: Asked) -> Reply:
    """Says what it was told to believe."""
    question = SERVED.get(asked.content) if asked.body else None
    return good(asked, text=f"Yes, {question.wrong[0]}.") if question and question.key.condition.holds_belief else honest(number, asked)


@pytest.fixture
def served(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "dvc.yaml").write_text("stages: {}\n")
    for name in ("RLVER_POLICY_KEY", "RLVER_REPLAY", "RLVER_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    return project


def test_answers_that_a_model_of_this_name_gave_before_are_told(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for out, script in (("before.jsonl", honest), ("after.jsonl", agreeing)):
        with serving_beside(script) as running:
            monkeypatch.setenv("RLVER_POLICY_URL", running.url)
            assert main(["honesty", "run", "--policy", f"openai:{MODEL}", "--limit", "1", "-o", out]) == 0
        told.append(f"warning: 5 replies are {STORED} (answers/policy.db)" in capsys.readouterr().err)
    assert told == [False, True]


@pytest.mark.long
def test_a_model_behind_an_endpoint_that_agrees_errs_more_and_with_a_limit_that_decides_nothing(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, script in (("before.jsonl", honest), ("after.jsonl", agreeing)):
        (served / "answers" / "policy.db").unlink(missing_ok=True)
        with serving_beside(script) as running:
            monkeypatch.setenv("RLVER_POLICY_URL", running.url)
            assert main(["honesty", "run", "--policy", f"openai:{MODEL}", "--limit", str(ITEMS), "-o", out]) == 0
    capsys.readouterr()
    assert main(["honesty", "score", "after.jsonl", "--before", "before.jsonl", "--json", "found.json"]) == 0
    assert "inconclusive at a margin of 0.05 in the error rate; made with --limit" in capsys.readouterr().out
    rows = {row["condition"]: row for row in json.loads(Path("found.json").read_text())["compared"]["conditions"]}
    assert {row["verdict"] for row in rows.values()} == {"inconclusive"}
    assert max(rows[name]["p_worse"] for name in ("belief", "both")) < 0.05 < min(rows[name]["p_worse"] for name in ("plain", "feeling"))
    assert main(["honesty", "score", "before.jsonl", "--before", "before.jsonl"]) == 0
    assert "worse" not in capsys.readouterr().out
