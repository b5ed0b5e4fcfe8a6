"""Dialogues as MLflow sessions: one trace a turn, in it one span with the user's appraisal of the reply.

Traces are made from a transcript after the fact. Their ids follow from the experiment, the run and the file's content, so what one run sends
twice is there once, and no run takes another's: MLflow would move a trace whose id it knows. Their times say in which order things were
said, a second apart, and nothing about how long they took, which no transcript knows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.domain.transcript import Appraisal, Dialogue, Turn
from rlver.components.rollout.transcripts import load_transcripts
from rlver.tasks.graph.lock import md5_of
from rlver.tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Feedback, Span, Trace

TURN, THOUGHT, APPRAISAL = "turn", "thought", "appraisal"
BETWEEN_TURNS_MS = 1000
_DIALOGUE, _SESSION = "rlver.dialogue", "mlflow.trace.session"
_SEARCHED = ("policy", "persona_id", "hidden_need")  # in the metadata: a row each, with its indexes. The rest of a dialogue is an attribute


def log_file(store: Store, path: Path, *, run: str | None, most: int | None) -> list[str]:
    """Log the first `most` dialogues of a transcript file (None: all) and return their sessions. Raises BadFile.

    One that failed before its first turn is no session. Without a `run`, those that a run of this experiment has logged are left as they are.
    """
    # mlflow.start_span_no_context draws ids and writes now: nothing public keeps the id that has a file sent twice be there once.
    from mlflow.tracing.client import TracingClient

    dialogues = [dialogue for dialogue in load_transcripts(path)[:most] if dialogue.turns]
    origin = md5_of(path)
    written_ms = path.stat().st_mtime_ns // 1_000_000
    client = TracingClient(store.uri)
    held = {} if run else _held_by_runs(store, origin)
    left = count(-sum(len(dialogue.turns) for dialogue in dialogues))
    for dialogue in dialogues:
        if session_of(dialogue, origin) in held:
            continue
        spans: list[Span] = []
        for number, turn in enumerate(dialogue.turns, start=1):
            said = _Said(dialogue, number, turn, origin, written_ms + BETWEEN_TURNS_MS * next(left), store.experiment, run)
            trace = said.trace()
            client.start_trace(trace.info)
            spans += trace.data.spans
        client.log_spans(store.experiment, spans)
    names = (session_of(dialogue, origin, run) for dialogue in dialogues)
    return [held.get(name, name) for name in names]


def session_of(dialogue: Dialogue, origin: str, run: str | None = None) -> str:
    """A session's id: the dialogue's, and the first digits of its file's MD5 and of the run, where one logs it.

    Dialogue ids are the same in every evaluation of a policy, and a stage that runs again may write the same bytes.
    """
    return f"{dialogue.dialogue_id}@{origin[:8]}{f'-{run[:8]}' if run else ''}"


def _held_by_runs(store: Store, origin: str) -> dict[str, str]:
    """The sessions that runs of this experiment have logged of a file, by the name that they would have without a run."""
    wanted, found, page = f"metadata.`{_SESSION}` LIKE '%@{origin[:8]}-%'", dict[str, str](), None
    while True:
        traces = store.client.search_traces(
            locations=[store.experiment], filter_string=wanted, max_results=500, page_token=page, include_spans=False
        )
        names = [trace.info.trace_metadata[_SESSION] for trace in traces]
        found |= {name.rpartition("-")[0]: name for name in names}
        if not (page := traces.token):
            return found


@dataclass(frozen=True)
class _Said:
    """One turn and where it belongs."""

    dialogue: Dialogue
    number: int
    turn: Turn
    origin: str  # MD5 of the transcript file
    at_ms: int
    experiment: str  # its id
    run: str | None

    def trace(self) -> Trace:
        from mlflow.entities import Trace, TraceData, TraceInfo, TraceLocation, TraceState

        failed = self.turn.appraisal is None and self.dialogue.error is not None
        info = TraceInfo(
            trace_id=f"tr-{self._identity(32):032x}",
            trace_location=TraceLocation.from_experiment_id(self.experiment),
            request_time=self.at_ms,
            state=TraceState.ERROR if failed else TraceState.OK,
            request_preview=self.turn.user[:1000],
            response_preview=self.turn.assistant[:1000],
            execution_duration=0,
            trace_metadata=self._metadata() | ({"mlflow.sourceRun": self.run} if self.run else {}),
            tags={"mlflow.traceName": f"{TURN} {self.number}"},
            assessments=[self._emotion()] if self.turn.emotion is not None else [],
        )
        return Trace(info=info, data=TraceData(spans=list(self._spans(info.trace_id))))

    def _metadata(self) -> dict[str, str]:
        searched = {f"rlver.{name}": str(value) for name in _SEARCHED if (value := getattr(self.dialogue, name)) is not None}
        return {**searched, _SESSION: session_of(self.dialogue, self.origin, self.run)}

    def _whole(self) -> dict[str, Any]:
        """What the turns of a dialogue have in common, as far as it is known: once, in the trace of the last turn."""
        if self.number < len(self.dialogue.turns):
            return {}
        about = self.dialogue.model_dump(mode="json", exclude={"turns", "original"}, exclude_none=True)
        return {_DIALOGUE: {**about, "turn": self.number, "transcript_md5": self.origin}}

    def _spans(self, trace: str) -> Iterator[Span]:
        chat = [{"role": "user", "content": self.turn.user}], [{"message": {"role": "assistant", "content": self.turn.assistant}}]
        yield self._span(trace, 1, TURN, "AGENT", {"messages": chat[0]}, {"choices": chat[1]}, self._whole())
        if self.turn.think:
            yield self._span(trace, 2, THOUGHT, "LLM", None, self.turn.think)
        if self.turn.appraisal:
            felt = {"emotion": self.turn.emotion, "cue": self.turn.cue, **self.turn.appraisal.model_dump(mode="json")}
            yield self._span(trace, 3, APPRAISAL, "EVALUATOR", None, felt)

    def _span(self, trace: str, number: int, name: str, kind: str, inputs: Any, outputs: Any, others: Mapping[str, Any] = {}) -> Span:
        from mlflow.entities import Span
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(span: int) -> SpanContext:
            return SpanContext(self._identity(32), self._identity(15) * 16 + span, is_remote=False, trace_flags=TraceFlags(1))

        own = {"traceRequestId": trace, "spanType": kind, "spanInputs": inputs, "spanOutputs": outputs}
        values = {**{f"mlflow.{key}": value for key, value in own.items() if value is not None}, **others}
        at_ns = self.at_ms * 1_000_000
        return Span(
            ReadableSpan(
                name=name,
                context=context(number),
                parent=context(1) if number > 1 else None,
                attributes={key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
                start_time=at_ns,
                end_time=at_ns,
                status=Status(StatusCode.OK),
            )
        )

    def _emotion(self) -> Feedback:
        """The emotion after the reply, as an assessment by the simulator, with its reasons."""
        from mlflow.entities import AssessmentSource, Feedback

        tag = self.dialogue.simulator
        feedback = Feedback(
            name="emotion",
            value=self.turn.emotion,
            rationale=_reasons(self.turn.appraisal) if self.turn.appraisal else None,
            source=AssessmentSource("CODE", f"{tag.kind} {tag.difficulty} {tag.version}"),
            create_time_ms=self.at_ms,
            last_update_time_ms=self.at_ms,
        )
        feedback.assessment_id = f"a-{self._identity(32):032x}"
        return feedback

    def _identity(self, digits: int) -> int:
        """A number of so many hex digits that belongs to this turn of this file in this run alone."""
        text = f"{self.experiment} {self.run} {self.origin} {self.dialogue.dialogue_id} {self.number}"
        return int(hashlib.sha256(text.encode()).hexdigest()[:digits], 16)


def _reasons(appraisal: Appraisal) -> str:
    evidence = [f"{one.what} ({one.points:+g}){f': “{one.span}”' if one.span else ''}" for one in appraisal.evidence]
    return "\n".join([f"{appraisal.change:+d}: {appraisal.content} {appraisal.target} Feels {appraisal.feeling}.", *evidence])


def in_order(session: Sequence[Trace]) -> list[Trace]:
    """The traces of a session as they followed each other; a fast program makes several in one millisecond."""
    return sorted(session, key=lambda trace: min(span.start_time_ns for span in trace.data.spans))


def dialogue_of(session: Sequence[Trace]) -> Dialogue | None:
    """The dialogue that `log_file` made these traces of; None for the traces of others."""
    ordered = in_order(session)
    whole = next((found for span in ordered[-1].data.spans if (found := span.get_attribute(_DIALOGUE))), None)
    if whole is None:
        return None
    about = {name: value for name, value in whole.items() if name not in ("turn", "transcript_md5")}
    return Dialogue.model_validate({**about, "turns": [_turn_of(trace) for trace in ordered]})


def _turn_of(trace: Trace) -> dict[str, Any]:
    spans = {span.name: span for span in trace.data.spans}
    root = spans[TURN]
    felt = dict(spans[APPRAISAL].outputs) if APPRAISAL in spans else {}
    return {
        "user": root.inputs["messages"][0]["content"],
        "assistant": root.outputs["choices"][0]["message"]["content"],
        "think": spans[THOUGHT].outputs if THOUGHT in spans else None,
        "emotion": felt.pop("emotion", None),
        "cue": felt.pop("cue", None),
        "appraisal": felt or None,
    }
