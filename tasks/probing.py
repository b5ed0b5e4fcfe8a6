"""Letting every cheat talk with the configured user, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.dialogue.episode import Job
from components.dialogue.transcript import Dialogue
from components.evaluation.audit.cheat_policy import CheatPolicy
from components.evaluation.audit.cheats import CHEATS
from components.evaluation.audit.opinions import Scores, final_emotions
from components.evaluation.audit.probe import probe_result
from components.personas.persona import Persona
from components.settings import Settings
from tasks.progress import counted
from tasks.stages.assembly import Conversation, emotion_rules, simulator, user_connection


def probe(settings: Settings, personas: Sequence[Persona], base: Sequence[Dialogue] | None, trained: Sequence[Dialogue]) -> dict[str, Any]:
    """What each cheat earns from the first `audit.probe_personas` personas. Raises ValueError before anything is spent."""
    connection = user_connection(settings)
    user = simulator(settings, endpoint=connection)
    met = personas[: settings.audit.probe_personas]
    cheats: dict[str, Scores] = {}
    for name, cheat in counted([*CHEATS.items()], "cheats"):
        talk = Conversation(user, CheatPolicy(name, cheat), emotion_rules(settings), settings.evaluation.concurrency, connection)
        jobs = [Job(f"{name}/{persona.persona_id}", persona, settings.seed) for persona in met]
        talk.can_hold(jobs)
        cheats[name] = final_emotions([rollout.dialogue for rollout in talk.hold(jobs)])
    ids = {persona.persona_id for persona in met}
    s, tag = settings.simulator, user.tag
    return probe_result(
        cheats,
        _comparable(base or [], ids, tag.kind, tag.difficulty),
        _comparable(trained, ids, tag.kind, tag.difficulty),
        f"{tag.kind} user, {tag.difficulty}, {tag.version}",
        s.emotion_start,
        settings.audit.probe_share,
        settings.evaluation.bootstrap_samples,
        settings.seed,
    )


def _comparable(dialogues: Sequence[Dialogue], ids: set[str], kind: str, difficulty: str) -> Scores | None:
    """Final emotions of dialogues with the same user and personas; None without any."""
    scores: Mapping[str, Sequence[float]] = final_emotions(
        [d for d in dialogues if d.persona_id in ids and (d.simulator.kind, d.simulator.difficulty) == (kind, difficulty)]
    )
    return scores or None
