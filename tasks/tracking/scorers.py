"""Our measures as `mlflow.genai` scorers, for the traces of any chat model: `mlflow.genai.evaluate(data=traces, scorers=dialogue_scorers(…))`.

A session is one dialogue. Traces that this project logged are scored by the appraisals they carry; any other conversation is appraised
anew by the scripted user, who knows the persona if it is given one and else appraises blindly (docs/mlflow.md says what that is worth).
It reads English only: a session in another language gets an error in place of a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Feedback, Trace
from mlflow.genai.scorers import Scorer, scorer

from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.thinking import CLOSE, OPEN
from rlver.components.domain.transcript import Dialogue
from rlver.components.formats.foreign import UnreadableChat, recording_of
from rlver.components.personas.schema import validate_file
from rlver.components.replay.reappraisal import reappraise
from rlver.components.scoring.acts import frequencies
from rlver.components.scoring.sentient import right_act_rate
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.tasks.tracking.traces import dialogue_of, in_order

REPEATS = "repeats"


def dialogue_scorers(params: Path, personas: Path | None = None, difficulty: str | None = None) -> list[Scorer]:
    """All scorers, with the user of `params` (difficulty, bounds of the emotion). Trace metadata `persona_id` finds a persona in `personas`."""
    settings = load_settings(params, difficulty=difficulty)
    rules, appraiser = settings.simulator.rules, ScriptedAppraiser(settings.simulator.difficulty)
    people = {persona.persona_id: persona for persona in validate_file(personas)} if personas else {}

    def appraised(session: Sequence[Trace]) -> Dialogue:
        if recorded := dialogue_of(session):
            return recorded
        ordered = in_order(session)
        marks = ordered[-1].info.trace_metadata
        name = marks.get("mlflow.trace.session") or ordered[-1].info.trace_id
        persona = people.get(marks.get("persona_id", ""))
        about = {"persona_id": persona.persona_id} if persona else {}
        return reappraise(recording_of({"messages": messages_of(ordered), "id": name, **about}, name), persona, appraiser, rules)

    @scorer
    def final_emotion(session: list[Any]) -> Feedback:
        dialogue = appraised(session)
        path = [dialogue.emotion_start, *(turn.emotion for turn in dialogue.turns)]
        return Feedback(value=dialogue.emotion_final, rationale=" → ".join("–" if value is None else str(value) for value in path))

    @scorer
    def success(session: list[Any]) -> bool | None:
        final = appraised(session).emotion_final
        return None if final is None else final >= SUCCESS

    @scorer
    def failure(session: list[Any]) -> bool | None:
        final = appraised(session).emotion_final
        return None if final is None else final < FAILURE

    @scorer
    def right_act(session: list[Any]) -> float | None:
        return right_act_rate([appraised(session)])

    @scorer
    def repetition(session: list[Any]) -> float | None:
        seen = [{one.what for one in turn.appraisal.evidence} for turn in appraised(session).turns if turn.appraisal]
        return sum(REPEATS in what for what in seen) / len(seen) if seen else None

    @scorer
    def strategies(session: list[Any]) -> list[Feedback]:
        return [Feedback(name=f"strategy/{act}", value=share) for act, share in frequencies([appraised(session)]).items()]

    @scorer
    def thought_leak(outputs: Any) -> bool:
        reply = _text(outputs)
        return OPEN in reply or CLOSE in reply

    return [final_emotion, success, failure, right_act, repetition, strategies, thought_leak]


def messages_of(ordered: Sequence[Trace]) -> list[dict[str, str]]:
    """The conversation of a session. A request may hold only what was said last, or the whole conversation until then."""
    talk: list[dict[str, str]] = []
    for trace in ordered:
        root = next(span for span in trace.data.spans if span.parent_id is None)
        given = _messages(root.inputs)
        talk = given if any(message["role"] == "assistant" for message in given) else [*talk, *given]
        talk.append({"role": "assistant", "content": _text(root.outputs)})
    return talk


def _messages(inputs: Any) -> list[dict[str, str]]:
    """The messages of a request: those it lists, or its one text. System messages are the policy's affair."""
    if isinstance(inputs, Mapping):
        if isinstance(listed := inputs.get("messages", inputs.get("input")), list):
            return [
                {"role": one["role"], "content": _all_text(one["content"])} for one in listed if one.get("role") in ("user", "assistant")
            ]
        if len(inputs) == 1:
            return _messages(next(iter(inputs.values())))
    if isinstance(inputs, list):
        return _messages({"messages": inputs})
    return [{"role": "user", "content": _text(inputs)}]


def _all_text(content: Any) -> Any:
    """`content` as it is: text, or parts that are all text. Raises UnreadableChat for others, as nobody hears what is left out of a score."""
    if isinstance(content, list) and all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in content):
        return content
    if not isinstance(content, str):
        raise UnreadableChat(f"expected text, got {type(content).__name__}")
    return content


def _text(value: Any) -> str:
    """The text of a reply in the shapes of chat completions, chat agents and the Responses API, or of a plain string; anything else as JSON."""
    if isinstance(value, list) and value:  # as a served model wraps it
        return _text(value[0])
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)
    for name, which in (("choices", 0), ("messages", -1)):
        if isinstance(listed := value.get(name), list) and listed and isinstance(listed[which], Mapping):
            message = listed[which].get("message", listed[which])
            if isinstance(message, Mapping) and isinstance(content := message.get("content"), str):
                return content
    items = value.get("output")
    for item in reversed(items) if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("role") == "assistant":
            parts = item.get("content")
            if isinstance(parts, list):
                return "".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)
            return str(parts)
    return json.dumps(value, default=str)
