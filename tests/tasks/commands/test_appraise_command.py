"""`rlver appraise`: recorded dialogues of any shape, and that refusing leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dialogue_project import complaint
from fakes import REPLIES, people

from rlver.components.domain.files import write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main

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


def test_the_scripted_appraiser_takes_no_original_along(project: Path) -> None:
    write_jsonl(
        project / "some.jsonl", [{**FOREIGN[0], "original": "my own note"}, {**FOREIGN[0], "id": "b", "original": {"history": ["long"]}}]
    )
    assert main(["appraise", "some.jsonl", "-o", "out.jsonl"]) == 0
    assert [dialogue.original for dialogue in load_transcripts(project / "out.jsonl")] == [None, None]


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
    for unknown in ("llm", "oracle"):
        told = complaint(capsys, "appraise", "foreign.jsonl", "-o", "out.jsonl", "--appraiser", unknown)
        assert f"unknown appraiser '{unknown}'" in told and "scripted" in told and "llm[" not in told
    assert "empty.jsonl:0: has no rows" in complaint(capsys, "appraise", _touched(project / "empty.jsonl"), "-o", "out.jsonl")


def _touched(path: Path) -> str:
    path.write_text("")
    return path.name
