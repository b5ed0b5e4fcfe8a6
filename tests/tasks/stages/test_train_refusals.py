"""What the stage `train` does not go on with: what needs one process, under torchrun, a check in which too many dialogues failed, and a
step that is given up."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import Any

import pytest
from fakes import SPEAKING, FakeSampler, FakeSimulator, FakeUser, LetterChat, people
from small_project import make_project, train_arguments

from rlver.components.domain.files import read_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.policy.token_policy import TokenPolicy
from rlver.components.rollout.episode import Job, TooManyFailures
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.processes import handling, interrupt
from rlver.tasks.stages import train

ASYNC = "{engine: trl-async, credit: turn, scale_rewards: none, loss_type: dapo, beta: 0.0}"


class GoesOn(Exception):
    """Nothing was refused."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("overlay", "refused"),
    [
        ("rollout: {sampler: vllm}", "rollout.sampler: vllm"),
        ("train: {max_staleness: 1}", "train.max_staleness: 1"),
        ("train: {keep: best}", "train.keep: best"),
        (f"train: {ASYNC}", "train.engine: trl-async"),
        ("train: {keep: last}", None),
    ],
)
def test_what_needs_one_process_is_refused_under_torchrun(
    project: Path, overlay: str, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun starts its processes whatever train.processes says, so the settings cannot know of them."""

    def goes_on(*_: Any) -> Any:
        raise GoesOn

    (project / "params" / "x.yaml").write_text(f"policy: {{thinking: false}}\n{overlay}\n")
    monkeypatch.setattr(train, "lacking", lambda *_: None)
    monkeypatch.setattr(train, "training_identity", goes_on)
    monkeypatch.setattr(train.processes, "join", lambda *_: None)
    with pytest.raises(GoesOn):
        train.main(train_arguments("x", "x"))  # one process
    monkeypatch.setattr(train.processes, "count", lambda: 2)
    told = f"^{refused} goes with one process; start it without torchrun" if refused else None
    with pytest.raises(ValueError if refused else GoesOn, match=told):
        train.main(train_arguments("x", "x"))


@pytest.mark.parametrize(("failures", "most", "ends"), [(2, 0.5, False), (3, 0.5, True), (4, 1.0, False), (1, 0.0, True)])
def test_a_check_in_which_too_many_dialogues_failed_ends_the_training(project: Path, failures: int, most: float, ends: bool) -> None:
    settings = load_settings(Path("params.yaml"), "v")
    settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"max_failure_rate": most})})
    watched = people()[0][:4]
    away = {persona.persona_id for persona in watched[:failures]}

    def user(persona: Persona, seed: int) -> FakeUser:
        return FakeUser(persona.persona_id, [5] * 9, breaks="open" if persona.persona_id in away else None)

    policy = TokenPolicy(FakeSampler(), LetterChat(), SPEAKING)
    talk = Conversation(FakeSimulator(user), policy, settings.simulator.rules, concurrency=4)
    dialogues = train.TrainingDialogues(settings, "v", talk, {}, watched, project / "held_out")
    if ends:
        with pytest.raises(TooManyFailures, match=f"{failures} of 4 dialogues failed .*no answer to open"):
            dialogues.check(8)
    else:
        assert dialogues.check(8)["failed_dialogues"] == failures
    assert len(list(read_jsonl(project / "held_out" / "8.jsonl"))) == 4, "what was said can be looked at"


def test_dialogues_that_a_signal_ends_say_nothing_but_that(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio would tell, with a traceback, of the dialogue during which it came."""

    def given_up(*_: Any) -> str:
        signal.raise_signal(signal.SIGALRM)
        return "never said"

    users = people()[0][:4]
    settings = load_settings(Path(__file__).parents[3] / "params.yaml")
    talk = Conversation(
        FakeSimulator(lambda persona, seed: FakeUser(persona.persona_id, [0])),
        TokenPolicy(FakeSampler(given_up), LetterChat(), SPEAKING),
        settings.simulator.rules,
        concurrency=4,
    )
    with handling({signal.SIGALRM: interrupt}), pytest.raises(KeyboardInterrupt):
        talk.hold([Job(persona.persona_id, persona, 1) for persona in users])
    gc.collect()
    assert not caplog.records
