"""`rlver converse`, `verify`, `appraise`, `import` with files: what they write, what they refuse, and that refusing leaves no trace."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from fakes import REPLIES, people, scripted_dialogues
from micro import micro_model, micro_tokenizer
from ruamel.yaml import YAML

from components.dialogue.transcript import Dialogue
from components.evaluation.transcripts import load_transcripts
from components.files import write_jsonl
from components.policy.load import save_policy
from flows.cli import main

SMALL = {
    "simulator": {"max_turns": 3},
    "policy": {"thinking": False, "max_reply_tokens": 6, "max_context_tokens": 900},
    "evaluation": {"concurrency": 3},
}


@pytest.fixture(scope="session")
def micro_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "micro"
    save_policy(micro_model(scale=2.0), micro_tokenizer(), folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with short parameters and eight test personas; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in SMALL.items():
        values[section] |= changes
    values["evaluation"]["repeats"] = 1
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, dialogues: list[Dialogue]) -> Path:
    write_jsonl(path, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    return path


def rules_of_ten(project: Path) -> None:
    """The parameters under which `scripted_dialogues` are held."""
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["simulator"]["max_turns"] = 10
    YAML(typ="safe").dump(values, path)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line a command says when it fails."""
    assert main([str(argument) for argument in arguments]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("█", "░"))]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


def test_converse_holds_a_dialogue_with_everybody_and_verify_derives_them_again(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["converse", "--policy", str(micro_policy), "-o", "a.jsonl"]) == 0
    shown = capsys.readouterr()
    assert "a.jsonl: 8 dialogues, final emotion" in shown.out
    assert "8/8  emotion" in shown.err and "ETA 0:00" in shown.err
    dialogues = load_transcripts(project / "a.jsonl")
    assert [dialogue.persona_id for dialogue in dialogues] == [persona.persona_id for persona in people()[1]]
    assert all(dialogue.policy == "micro" and len(dialogue.turns) == 3 for dialogue in dialogues)
    assert main(["converse", "--policy", f"hf:{micro_policy}", "-o", "b.jsonl", "--limit", "5"]) == 0
    assert (project / "b.jsonl").read_text().splitlines() == (project / "a.jsonl").read_text().splitlines()[:5]
    assert main(["verify", "a.jsonl"]) == 0
    assert "8 dialogues, 24 appraisals" in capsys.readouterr().out
    assert not list(project.glob("*.partial"))


def test_an_interrupted_converse_goes_on_where_it_was_and_ends_in_the_same_file(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.progress import DialogueProgress

    assert main(["converse", "--policy", str(micro_policy), "-o", "whole.jsonl"]) == 0
    count = DialogueProgress.add
    held: list[str] = []

    def press_ctrl_c(self: DialogueProgress, dialogue: Dialogue, held_now: bool = True) -> None:
        count(self, dialogue, held_now)
        held.append(dialogue.dialogue_id)
        if len(held) == 4:
            signal.raise_signal(signal.SIGINT)

    command = ["converse", "--policy", str(micro_policy), "-o", "out.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(DialogueProgress, "add", press_ctrl_c)
        assert main(command) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert not (project / "out.jsonl").exists()
    partial = (project / "out.jsonl.partial").read_text().splitlines()
    assert 5 <= len(partial) <= 1 + 6
    again: list[bool] = []
    with monkeypatch.context() as patch:
        patch.setattr(DialogueProgress, "add", lambda self, dialogue, held_now=True: again.append(held_now))
        assert main(command) == 0
    assert sorted(again) == [False] * (len(partial) - 1) + [True] * (9 - len(partial))
    assert (project / "out.jsonl").read_bytes() == (project / "whole.jsonl").read_bytes()
    assert not (project / "out.jsonl.partial").exists()


def test_a_partial_file_of_other_parameters_is_not_continued(project: Path, micro_policy: Path) -> None:
    (project / "out.jsonl.partial").write_text('{"fingerprint": "of something else"}\n{"dialogue_id": "x"}\n')
    assert main(["converse", "--policy", str(micro_policy), "-o", "out.jsonl", "--limit", "2"]) == 0
    assert len(load_transcripts(project / "out.jsonl")) == 2


def test_converse_takes_another_difficulty(project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["converse", "--policy", str(micro_policy), "-o", "out.jsonl", "--limit", "1", "--simulator", "scripted", "--difficulty"]
    assert main([*command, "challenging"]) == 0
    assert load_transcripts(project / "out.jsonl")[0].simulator.difficulty == "challenging"
    capsys.readouterr()
    before = (project / "out.jsonl").read_bytes()
    assert "there is no simulator scripted brutal" in complaint(capsys, *command, "brutal")
    assert (project / "out.jsonl").read_bytes() == before


def test_too_many_failures_leave_no_transcript(project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["policy"]["max_context_tokens"] = 150
    YAML(typ="safe").dump(values, path)
    message = complaint(capsys, "converse", "--policy", micro_policy, "-o", "out.jsonl")
    assert "of 8 dialogues failed (allowed: 5%)" in message and "ContextFull" in message
    assert not (project / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("models/none", "models/none: no such model folder (a model of the hub is written hf:NAME, one behind a server openai:MODEL)"),
        ("data", "cannot load a policy from data"),
    ],
)
def test_converse_without_a_model_says_so(policy: str, message: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in complaint(capsys, "converse", "--policy", policy, "-o", "out.jsonl")
    assert not (project / "out.jsonl").exists()


def test_a_model_without_a_chat_template_or_with_too_short_a_context_is_refused_in_one_line(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(micro_policy, project / "plain")
    (project / "plain" / "chat_template.jinja").unlink()
    assert "plain: the tokenizer has no chat template" in complaint(capsys, "converse", "--policy", "plain", "-o", "out.jsonl")
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["policy"]["max_context_tokens"] = 5000
    YAML(typ="safe").dump(values, path)
    message = complaint(capsys, "converse", "--policy", micro_policy, "-o", "out.jsonl")
    assert "policy.max_context_tokens is 5000, but the model reads 1536 tokens at most" in message
    assert not (project / "out.jsonl").exists()


def test_verify_names_file_line_dialogue_turn_expected_and_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    dialogues = scripted_dialogues()
    assert main(["verify", str(write(project / "good.jsonl", dialogues))]) == 0
    capsys.readouterr()
    turn = dialogues[2].turns[1]
    assert turn.appraisal is not None and turn.appraisal.feeling != "bliss"
    rosy = turn.model_copy(update={"appraisal": turn.appraisal.model_copy(update={"feeling": "bliss"})})
    dialogues[2] = dialogues[2].model_copy(update={"turns": (dialogues[2].turns[0], rosy, *dialogues[2].turns[2:])})
    message = complaint(capsys, "verify", write(project / "bad.jsonl", dialogues))
    assert message == (
        f"error: {project}/bad.jsonl:3: dialogue {dialogues[2].dialogue_id}: turn 2: appraisal.feeling: "
        f"expected {turn.appraisal.feeling!r}, found 'bliss'"
    )


def test_verify_finds_an_impossible_step_a_wrong_stop_and_another_version(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    dialogues = scripted_dialogues(2)
    last = dialogues[1].turns[-1]
    rows = [dialogue.model_dump(mode="json") for dialogue in dialogues]
    rows[1]["turns"][-1]["emotion"] = (last.emotion or 0) + 3
    write_jsonl(project / "step.jsonl", rows)
    message = complaint(capsys, "verify", "step.jsonl")
    assert f"step.jsonl:2: dialogue {dialogues[1].dialogue_id}: turn {len(dialogues[1].turns)}: " in message and "got" in message

    long = next(dialogue for dialogue in scripted_dialogues() if len(dialogue.turns) > 3)
    cut = long.model_copy(update={"turns": long.turns[:3], "emotion_final": long.turns[2].emotion})
    assert "stop.jsonl:1" in complaint(capsys, "verify", write(project / "stop.jsonl", [cut]))

    old = dialogues[0].model_copy(update={"simulator": dialogues[0].simulator.model_copy(update={"version": "scripted-0"})})
    assert "old.jsonl:1: dialogue" in complaint(capsys, "verify", write(project / "old.jsonl", [old]))


def test_verify_needs_the_personas_of_scripted_dialogues(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    write(project / "good.jsonl", scripted_dialogues())
    write_jsonl(project / "others.jsonl", [persona.model_dump(mode="json") for persona in people()[0]])
    assert "is not in the personas file" in complaint(capsys, "verify", "good.jsonl", "--personas", "others.jsonl")
    assert "nowhere.jsonl: no such file" in complaint(capsys, "verify", "good.jsonl", "--personas", "nowhere.jsonl")


FOREIGN: list[dict[str, Any]] = [
    {"id": "turns", "turns": [{"user": "My boss shouted at me.", "assistant": REPLIES[0]}, {"user": "It hurt.", "assistant": REPLIES[3]}]},
    {
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "My boss shouted at me."},
            {"role": "assistant", "content": f"<think>ouch</think>{REPLIES[1]}"},
            {"role": "user", "content": "Thanks."},
        ],
        "hidden_need": "to be hugged",
    },
    {"id": "known", "persona_id": "", "hidden_need": "attentive_listening", "turns": [{"user": "Hear me.", "assistant": REPLIES[1]}]},
]


def test_appraise_fills_in_what_foreign_dialogues_lack(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "foreign.jsonl", FOREIGN)
    assert main(["appraise", "foreign.jsonl", "--appraiser", "scripted", "-o", "out.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "3 dialogues" in said and "3 without a known persona" in said and "1 without a known need" in said
    assert "1 last messages without a reply left out" in said
    first, second, third = load_transcripts(project / "out.jsonl")
    assert [dialogue.dialogue_id for dialogue in (first, second, third)] == ["turns", "foreign/2", "known"]
    assert (second.hidden_need, second.turns[0].think, second.turns[0].assistant) == ("to be hugged", "ouch", REPLIES[1])
    assert third.turns[0].appraisal is not None and "serves_need" in {e.what for e in third.turns[0].appraisal.evidence}
    assert main(["verify", "out.jsonl"]) == 0


def test_a_recorded_dialogue_is_appraised_to_its_end_and_said_to_have_outlived_this_user(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From 12, one bad reply is enough to be below 10: there this user would have left, the recorded one did not."""
    bad = {"user": "Nobody has called me since the funeral.", "assistant": "Stop whining. It is your own fault."}
    good = {"user": "That hurts.", "assistant": REPLIES[1]}
    rows = [{"id": "long", "emotion_start": 12, "turns": [bad, good]}, {"id": "short", "emotion_start": 12, "turns": [bad]}]
    write_jsonl(project / "foreign.jsonl", rows)
    assert main(["appraise", "foreign.jsonl", "-o", "out.jsonl"]) == 0
    assert "; 1 that would have ended earlier" in capsys.readouterr().out
    long, short = load_transcripts(project / "out.jsonl")
    assert long.turns[0].emotion is not None and long.turns[0].emotion < 10 and long.turns[0].emotion == short.emotion_final
    assert len(long.turns) == 2 and long.emotion_final == long.turns[1].emotion


def test_appraise_uses_the_persona_where_it_is_known_also_one_of_text_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    persona = people()[1][0].model_copy(update={"story": None, "first_line": None, "source": "rlver", "original": {"id": "x"}})
    persona = persona.model_copy(update={"reactions": {"high": "h", "normal": "n", "low": "l"}})
    write_jsonl(project / "text.jsonl", [persona.model_dump(mode="json")])
    write_jsonl(project / "foreign.jsonl", [{**FOREIGN[0], "persona_id": persona.persona_id}])
    assert main(["appraise", "foreign.jsonl", "-o", "out.jsonl", "--personas", "text.jsonl"]) == 0
    (dialogue,) = load_transcripts(project / "out.jsonl")
    assert dialogue.hidden_need == persona.hidden_need.value and dialogue.simulator.kind == "scripted-appraiser"
    assert main(["verify", "out.jsonl", "--personas", "text.jsonl"]) == 0
    capsys.readouterr()
    write_jsonl(project / "others.jsonl", [persona.model_dump(mode="json") for persona in people()[0]])
    assert "is not in the personas file" in complaint(capsys, "verify", "out.jsonl", "--personas", "others.jsonl")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("not json", "foreign.jsonl:4: not valid JSON"),
        ('{"text": "hello"}', "foreign.jsonl:4: expected turns, messages, conversations, or prompt and completion, got the keys text"),
        (
            '{"turns": [{"user": "最近有些事搞得我头大", "assistant": "听你这么说"}]}',
            "foreign.jsonl:4: foreign/4: the scripted appraiser reads English only",
        ),
        (json.dumps(FOREIGN[0]), "dialogue_id turns appears more than once"),
    ],
)
def test_one_bad_line_and_nothing_is_written(bad: str, message: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "foreign.jsonl", FOREIGN)
    with (project / "foreign.jsonl").open("a") as file:
        file.write(bad + "\n")
    (project / "out.jsonl").write_text("what was here before")
    assert message in complaint(capsys, "appraise", "foreign.jsonl", "-o", "out.jsonl")
    assert (project / "out.jsonl").read_text() == "what was here before"
    assert sorted(path.name for path in project.iterdir()) == ["data", "foreign.jsonl", "out.jsonl", "params.yaml"]


ODD: list[Any] = [
    {"id": 7, "conversations": [{"from": "human", "value": "idk bruh im cooked"}, {"from": "gpt", "value": REPLIES[1]}]},
    [{"role": "assistant", "content": REPLIES[0]}, {"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    {"prompt": "😭😭", "completion": REPLIES[2], "persona_id": None, "hidden_need": None, "emotion_start": None},
    {
        "messages": [
            {"role": "user", "content": "Tuesday, Birmingham."},
            {"role": "assistant", "content": "Das ist doch nicht deine Schuld gewesen"},
        ]
    },
]


def test_chats_of_any_shape_without_need_persona_or_emotion_are_appraised_and_derived_again(project: Path) -> None:
    (project / "odd.json").write_text(json.dumps(ODD), encoding="utf-8")
    (project / "odd.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in ODD), encoding="utf-8")
    for source in ("odd.json", "odd.jsonl"):
        assert main(["appraise", source, "-o", f"{source}.out"]) == 0
        assert main(["verify", f"{source}.out"]) == 0
    dialogues = load_transcripts(project / "odd.jsonl.out")
    assert [dialogue.dialogue_id for dialogue in dialogues] == ["7", "odd/2", "odd/3", "odd/4"]
    assert [turn.appraisal.evidence[0].what for turn in dialogues[1].turns if turn.appraisal][-1] == "nothing"
    assert [e.what for e in dialogues[3].turns[0].appraisal.evidence] == ["gibberish"]  # type: ignore[union-attr]
    assert all(dialogue.hidden_need is None and dialogue.emotion_start == 40 for dialogue in dialogues)


def test_what_cannot_be_read_is_left_out_and_counted_when_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {"messages": [{"role": "user", "content": "最近有些事搞得我头大"}, {"role": "assistant", "content": REPLIES[0]}]}
    write_jsonl(project / "some.jsonl", [FOREIGN[0], {"text": "hello"}, other])
    message = complaint(capsys, "appraise", "some.jsonl", "-o", "out.jsonl")
    assert "some.jsonl:2: expected" in message and message.endswith("(and 1 more; --skip leaves them out)")
    assert main(["appraise", "some.jsonl", "-o", "out.jsonl", "--skip"]) == 0
    assert "2 unreadable ones left out, the first: some.jsonl:2: expected" in capsys.readouterr().out
    assert [dialogue.dialogue_id for dialogue in load_transcripts(project / "out.jsonl")] == ["turns"]
    write_jsonl(project / "none.jsonl", [other])
    assert "reads English only" in complaint(capsys, "appraise", "none.jsonl", "-o", "none.out", "--skip")
    assert not (project / "none.out").exists()


@pytest.mark.parametrize(
    ("user", "reply"),
    [("Ich bin heute so traurig", "Das ist schade, was ist denn los"), ("最近有些事", REPLIES[0]), ("мне грустно", REPLIES[0])],
)
def test_another_language_is_refused_however_short(user: str, reply: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "other.jsonl", [{"prompt": user, "completion": reply}])
    assert "reads English only" in complaint(capsys, "appraise", "other.jsonl", "-o", "out.jsonl")


def test_an_impossible_start_is_refused_in_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "start.jsonl", [{**FOREIGN[0], "emotion_start": 200}])
    message = complaint(capsys, "appraise", "start.jsonl", "-o", "out.jsonl")
    assert message == "error: start.jsonl:1: turns: emotion_start must be 0..100, got 200"


def test_appraise_knows_one_appraiser(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "foreign.jsonl", FOREIGN)
    assert "unknown appraiser 'llm'" in complaint(capsys, "appraise", "foreign.jsonl", "-o", "out.jsonl", "--appraiser", "llm")
    assert "empty.jsonl:0: has no rows" in complaint(capsys, "appraise", _touched(project / "empty.jsonl"), "-o", "out.jsonl")


def _touched(path: Path) -> str:
    path.write_text("")
    return path.name


SAGE = {
    "id": "one", "emo_point": 35, "task": "你希望对方能够深度共情你的感受",
    "history": [
        {"role": "user", "content": "唉", "emotion-point": 40},
        {"role": "assistant", "content": "怎么了"},
        {"role": "user", "content": "没事", "emotion-point": 35,
         "planning": {"content": "c", "TargetCompletion": "t", "activity": "a", "analyse": "f", "change": -5}},
        {"role": "assistant", "content": "好吧"},
    ],
}  # fmt: skip


def test_recorded_sage_dialogues_come_in_plain_or_packed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps(SAGE, ensure_ascii=False) + "\n"
    (project / "model-4.5.jsonl").write_text(line, encoding="utf-8")
    (project / "model-4.5.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    for source in ("model-4.5.jsonl", "model-4.5.jsonl.gz"):
        assert main(["import", "sage", source, "-o", f"{source}.out"]) == 0
        assert "1 last replies that were never judged are left out" in capsys.readouterr().out
    assert (project / "model-4.5.jsonl.out").read_bytes() == (project / "model-4.5.jsonl.gz.out").read_bytes()
    (dialogue,) = load_transcripts(project / "model-4.5.jsonl.out")
    assert (dialogue.policy, dialogue.dialogue_id, dialogue.emotion_final) == ("model-4.5", "model-4.5/one", 35)
    assert "its user was sage" in complaint(capsys, "verify", "model-4.5.jsonl.out")
    assert main(["import", "sage", "model-4.5.jsonl", "-o", "named.jsonl", "--policy", "someone"]) == 0
    assert load_transcripts(project / "named.jsonl")[0].policy == "someone"


def test_a_bad_sage_record_is_named_and_nothing_is_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "sage.jsonl", [SAGE, {**SAGE, "emo_point": 99}])
    assert "sage.jsonl:2: emo_point: the last emotion is 35, got 99" in complaint(capsys, "import", "sage", "sage.jsonl", "-o", "out.jsonl")
    write_jsonl(project / "sage.jsonl", [SAGE, SAGE])
    assert "appears more than once" in complaint(capsys, "import", "sage", "sage.jsonl", "-o", "out.jsonl")
    assert "looks like a recorded SAGE dialogue" in complaint(capsys, "appraise", "sage.jsonl", "-o", "out.jsonl")
    assert not (project / "out.jsonl").exists()
