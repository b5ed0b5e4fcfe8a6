"""Dialogues as sessions of traces, and our scorers on them and on the traces of others."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import people, scripted_dialogues
from tracked_project import dialogue, write

from rlver.components.domain.files import BadFile
from rlver.components.domain.transcript import StopReason
from rlver.components.formats.foreign import UnreadableChat
from rlver.tasks.tracking.scorers import dialogue_scorers, messages_of
from rlver.tasks.tracking.store import Store, open_store
from rlver.tasks.tracking.traces import dialogue_of, in_order, log_file, session_of

PARAMS = Path(__file__).parents[3] / "params.yaml"


@pytest.fixture
def store(tmp_path: Path, tracking_uri: str) -> Store:
    import mlflow

    mlflow.set_tracking_uri(tracking_uri)
    store = open_store(tmp_path, tracking_uri)
    mlflow.set_experiment(experiment_id=store.experiment)
    return store


def sessions(store: Store) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for trace in store.client.search_traces(locations=[store.experiment]):
        found.setdefault(trace.info.trace_metadata["mlflow.trace.session"], []).append(trace)
    return found


def test_a_dialogue_is_a_session_with_one_trace_a_turn_and_its_appraisal(tmp_path: Path, store: Store) -> None:
    said = [dialogue("a/1"), dialogue("b/1", error="no answer", stop_reason=StopReason.FAILED, emotion_final=None), dialogue("c/1")]
    path = tmp_path / "v.jsonl"
    write(path, "".join(one.model_dump_json() + "\n" for one in said))
    for _ in range(2):  # a second time changes nothing
        names = log_file(store, path, run=None, most=2)
    found = sessions(store)
    assert sorted(found) == names and names[0].startswith("a/1@") and [len(turns) for turns in found.values()] == [2, 2]
    first, second = sorted(found[names[0]], key=lambda trace: trace.info.request_time)
    assert second.info.request_time - first.info.request_time == 1000 and second.info.execution_duration == 0
    assert [span.name for span in first.data.spans] == ["turn", "thought", "appraisal"]
    felt = first.data.spans[2].outputs
    assert (felt["emotion"], felt["change"], felt["feeling"], felt["evidence"][0]["span"]) == (45, 5, "seen", "hello")
    (emotion,) = first.info.assessments
    assert (
        (emotion.name, emotion.value) == ("emotion", 45)
        and emotion.rationale.startswith("+5: It greets me.")
        and "(+4.5): “hello”" in emotion.rationale
    )
    assert first.info.trace_metadata["rlver.hidden_need"] == "guidance"
    assert len(first.info.trace_metadata) <= 8, "each is a row with three indexes"
    assert not first.data.spans[2].inputs, "the reply stands in the span above it"
    assert dialogue_of(found[names[0]]) == said[0], "the whole dialogue can be read back"


def test_a_dialogue_that_failed_before_its_first_turn_is_no_session(tmp_path: Path, store: Store) -> None:
    silent = dialogue("b/1", error="no answer", stop_reason=StopReason.FAILED, emotion_final=None, turns=())
    for name, said in {"v": [dialogue("a/1"), silent], "none": [silent]}.items():
        write(tmp_path / f"{name}.jsonl", "".join(one.model_dump_json() + "\n" for one in said))
    names = log_file(store, tmp_path / "v.jsonl", run=None, most=None)
    assert names == list(sessions(store)) and len(names) == 1
    assert log_file(store, tmp_path / "none.jsonl", run=None, most=None) == []


def test_two_runs_of_a_policy_do_not_share_sessions(tmp_path: Path, store: Store) -> None:
    for number, start in enumerate((40, 39)):
        write(tmp_path / f"{number}.jsonl", dialogue("a/1", emotion_start=40, seed=start).model_dump_json() + "\n")
        log_file(store, tmp_path / f"{number}.jsonl", run=None, most=None)
    assert len(sessions(store)) == 2


def test_a_run_keeps_its_dialogues_when_another_logs_the_same_file(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "v.jsonl", dialogue("a/1").model_dump_json() + "\n")
    runs = [store.client.create_run(store.experiment).info.run_id for _ in range(2)]
    elsewhere = Store(store.client, store.client.create_experiment("elsewhere"), store.uri)
    third = store.client.create_run(elsewhere.experiment).info.run_id
    sent = [(store, runs[0]), (store, runs[0]), (store, runs[1]), (elsewhere, third), (elsewhere, None), (store, None)]
    names = [log_file(at, tmp_path / "v.jsonl", run=run, most=None) for at, run in sent]
    for at, those in ((store, runs), (elsewhere, [third])):
        found = sessions(at)
        assert {turn.info.trace_metadata["mlflow.sourceRun"] for turns in found.values() for turn in turns} == set(those)
        assert [len(turns) for turns in found.values()] == [2] * len(those)
        assert all(len(turn.info.assessments) == 1 for turns in found.values() for turn in turns)
    assert names[0] == names[1] != names[2] and names[4] == names[3], "without a run nothing is added to what a run holds"


@pytest.mark.long
def test_ten_dialogues_weigh_what_they_must(tmp_path: Path, store: Store, tracking_uri: str) -> None:
    """What all turns have in common is stored once a dialogue: with it in every trace it is 5,590 bytes a turn."""

    def stored() -> int:
        with closing(sqlite3.connect(tracking_uri.removeprefix("sqlite:///"))) as database:
            (free,), (page,), (pages,) = (
                next(database.execute(f"pragma {name}")) for name in ("freelist_count", "page_size", "page_count")
            )
        return int((pages - free) * page)

    said = scripted_dialogues(10)
    write(tmp_path / "v.jsonl", "".join(one.model_dump_json() + "\n" for one in said))
    before = stored()
    log_file(store, tmp_path / "v.jsonl", run=None, most=None)
    turns = sum(len(one.turns) for one in said)
    assert turns > 70 and (stored() - before) / turns < 5_300
    untold = {"reply_tokens": None, "think_tokens": None}
    without = [one.model_copy(update={"turns": tuple(turn.model_copy(update=untold) for turn in one.turns)}) for one in said]
    held = [dialogue_of(traces) for traces in sessions(store).values()]
    assert sorted(held, key=repr) == sorted(without, key=repr), "and each can be read back"


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ("Hello.", "Hello."),
        (["Hello."], "Hello."),
        ({"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}, "Hello."),
        ([{"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}], "Hello."),
        ({"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]}, "Hello."),
        ({"output": [{"type": "reasoning"}, {"type": "message", "role": "assistant", "content": [{"text": "Hello."}]}]}, "Hello."),
        ({"output": [{"role": "assistant", "content": "Hello."}]}, "Hello."),
        ({"answer": "Hello."}, '{"answer": "Hello."}'),
        ({"choices": [], "output": "x"}, '{"choices": [], "output": "x"}'),
        (7, "7"),
        (None, ""),
    ],
)
def test_a_reply_is_found_in_the_shapes_that_clients_return(outputs: Any, text: str) -> None:
    from rlver.tasks.tracking.scorers import _text

    assert _text(outputs) == text


@pytest.mark.parametrize("content", [None, [{"type": "text", "text": "hello"}, {"type": "image_url"}], 7])
def test_a_message_that_is_not_all_text_is_refused_and_not_left_out(content: Any) -> None:
    request = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "hello"}]}
    root = SimpleNamespace(parent_id=None, inputs=request, outputs="hello")
    trace: Any = SimpleNamespace(data=SimpleNamespace(spans=[root]))
    with pytest.raises(UnreadableChat, match="expected text, got "):
        messages_of([trace])


def test_what_is_no_transcript_is_one_line(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "x.jsonl", '{"messages": []}\n')
    with pytest.raises(BadFile, match=r"x.jsonl:1: not a dialogue"):
        log_file(store, tmp_path / "x.jsonl", run=None, most=None)


def scores(traces: list[Any], **options: Any) -> dict[str, Any]:
    import mlflow

    result = mlflow.genai.evaluate(data=traces, scorers=dialogue_scorers(PARAMS, **options))
    return dict(result.metrics)


@pytest.mark.long
def test_recorded_dialogues_are_scored_by_the_appraisals_they_carry(tmp_path: Path, store: Store) -> None:
    said = [dialogue("a/1"), dialogue("b/1")]
    path = tmp_path / "v.jsonl"
    write(path, "".join(one.model_dump_json() + "\n" for one in said))
    log_file(store, path, run=None, most=None)
    found = scores(store.client.search_traces(locations=[store.experiment]))
    assert found["final_emotion/mean"] == 50 and found["right_act/mean"] == 1 and found["thought_leak/mean"] == 0
    assert found["success/mean"] == 0 and found["failure/mean"] == 0 and found["repetition/mean"] == 0
    assert session_of(said[0], "0" * 32) == "a/1@00000000"


@pytest.mark.long
def test_plain_chat_traces_of_anybody_are_appraised_anew(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a scripted dialogue as any application would trace them: the same emotions come out that its user had."""
    import mlflow

    (recorded,) = scripted_dialogues(1)
    write(tmp_path / "people.jsonl", "".join(persona.model_dump_json() + "\n" for persona in people()[1]))

    @mlflow.trace
    def chatbot(messages: list[dict[str, str]], reply: str) -> str:
        return reply

    with mlflow.tracing.context(session_id="their talk", metadata={"persona_id": recorded.persona_id}):
        history: list[dict[str, str]] = []
        for turn in recorded.turns:
            history.append({"role": "user", "content": turn.user})
            leaked = f"<think>hm</think>{turn.assistant}" if turn is recorded.turns[-1] else turn.assistant
            chatbot(list(history), leaked)
            history.append({"role": "assistant", "content": turn.assistant})
    mlflow.flush_trace_async_logging()
    traces = store.client.search_traces(locations=[store.experiment])
    assert dialogue_of(traces) is None
    assert [message["content"] for message in messages_of(in_order(traces))][:-1] == [message["content"] for message in history][:-1]
    informed = scores(traces, personas=tmp_path / "people.jsonl")
    assert informed["final_emotion/mean"] == recorded.emotion_final, "who knows the persona feels what its user felt"
    assert informed["thought_leak/mean"] == pytest.approx(1 / len(recorded.turns))
    assert any(name.startswith("strategy/") for name in informed)
    named: dict[str, Any] = {}
    monkeypatch.chdir(PARAMS.parent)
    exec(re.findall(r"```python\n(.*?)```", (PARAMS.parent / "docs" / "mlflow.md").read_text(), flags=re.DOTALL)[0], named)
    assert 0 <= named["result"].metrics["final_emotion/mean"] <= 100, "and the guide's own lines do it blindly"
