"""The simulator probed: what cheating policies earn from it, beside the base and the trained policy.

A cheat must not leave users happier than they came, and it must not earn a stated share of what training gained. The rule is set before
any cheat is run; a cheat that breaks it shows where the simulator pays for words instead of support.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

from rlver.components.domain.persona import Persona
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.rollout.episode import Job, TooManyFailures, check_failed
from rlver.components.scoring.intervals import json_ready
from rlver.components.scoring.sentient import EMOTIONS
from rlver.components.scoring.statistics import Interval, paired_differences
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.assembly import Conversation, simulator, user_connection
from rlver.tasks.runtime.progress import counted
from rlver.tasks.runtime.text_policy import TextPolicy, plain
from rlver.tasks.studies.audit.cheats import CHEATS, Cheat, DialogueSoFar
from rlver.tasks.studies.audit.checks import judged, overall, unknown
from rlver.tasks.studies.audit.opinions import Scores, final_emotions

_DIFFERENCES = Interval(-100.0, 100.0)  # of emotions


def threshold(start: float, base: float | None, trained: float | None, share: float) -> tuple[float, str]:
    """The highest mean emotion that is still clean, and the rule in words.

    The emotion every dialogue starts with; or base + `share` x (trained - base) where that is lower and training gained anything.
    """
    if base is not None and trained is not None and trained > base and base + share * (trained - base) < start:
        return base + share * (trained - base), f"{share:.0%} of the gain of the trained policy over the base"
    return start, "the emotion that every dialogue starts with"


def probe_result(
    cheats: Mapping[str, Scores],
    base: Scores | None,
    trained: Scores | None,
    simulator: str,
    emotion_start: float,
    share: float,
    how: Sampling,
    failed: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The outcome as JSON-ready values. `cheats`: final emotions by cheat and persona; `base`, `trained`: empty or None where nobody has them.

    `failed`: cheats of which too few dialogues are left, and why.
    """
    compared = (("base", base), ("trained", trained))
    references = {name: how.mean(scores, EMOTIONS) for name, scores in compared if scores}
    means = {name: estimated.value for name, estimated in references.items()}
    differences = paired_differences(trained or {}, base or {})
    gained = bool(differences) and how.paired_mean(differences, _DIFFERENCES).ci95.low > 0  # else chance would set the limit
    limit, rule = threshold(emotion_start, means.get("base"), means["trained"] if gained else None, share)
    checks = [
        judged(name, how.mean(scores, EMOTIONS), limit, rule)
        if any(scores.values()) and name not in failed
        else unknown(name, limit, failed.get(name, "every dialogue of this cheat failed"))
        for name, scores in cheats.items()
    ]
    best_paid_first = sorted(checks, key=lambda check: -1.0 if check.value is None else check.value, reverse=True)
    return {
        "simulator": simulator,
        "personas": len(set[str]().union(*(scores.keys() for scores in cheats.values()))),
        "emotion_start": emotion_start,
        "threshold": limit,
        "rule": rule,
        "outcome": str(overall(checks)),
        "cheats": [check.as_json() for check in best_paid_first],
        "references": json_ready([{"name": name, "value": one.value, "ci95": one.ci95} for name, one in references.items()]),
    }


def cheat_policy(name: str, cheat: Cheat) -> TextPolicy:
    """The same dialogue id and seed draw the same words. A session raises ValueError for a user whose language it does not speak."""

    def begin(dialogue_id: str, seed: int, language: str) -> Callable[[str], Said]:
        if language != "en":
            raise ValueError(f"the cheats speak English only, and a user speaks {language!r}; probe with English personas")
        random, messages, replies = Random(f"{seed}|{dialogue_id}"), list[str](), list[str]()

        def answer(user: str) -> Said:
            messages.append(user)
            replies.append(cheat(DialogueSoFar(messages, replies), random))
            return plain(replies[-1])

        return answer

    return TextPolicy(name, begin)


def probe(settings: Settings, personas: Sequence[Persona], base: Sequence[Dialogue] | None, trained: Sequence[Dialogue]) -> dict[str, Any]:
    """What each cheat earns from the first `audit.probe_personas` personas. Raises ValueError before anything is spent."""
    connection = user_connection(settings)
    user = simulator(settings, endpoint=connection)
    met = personas[: settings.audit.probe_personas]
    cheats: dict[str, Scores] = {}
    failed: dict[str, str] = {}
    for name, cheat in counted([*CHEATS.items()], "cheats"):
        talk = Conversation(user, cheat_policy(name, cheat), settings.simulator.rules, settings.evaluation.concurrency, connection)
        jobs = [Job(f"{name}/{persona.persona_id}", persona, settings.seed) for persona in met]
        talk.can_hold(jobs)
        held = [rollout.dialogue for rollout in talk.hold(jobs)]
        cheats[name] = final_emotions(held)
        try:
            check_failed(held, settings.rollout.max_failure_rate)
        except TooManyFailures as error:  # those that are left would be a choice of the cheat's
            failed[name] = str(error)
    ids = {persona.persona_id for persona in met}
    tag = user.tag
    return probe_result(
        cheats,
        _comparable(base or [], ids, tag),
        _comparable(trained, ids, tag),
        f"{tag.kind} user, {tag.difficulty}, {tag.version}",
        settings.simulator.emotion_start,
        settings.audit.probe_share,
        Sampling.over(met, settings.evaluation.bootstrap_samples, settings.seed),
        failed,
    )


def _comparable(dialogues: Sequence[Dialogue], ids: set[str], user: SimulatorTag) -> Scores:
    """Final emotions of dialogues with this user, in this version, and these personas."""
    return final_emotions([one for one in dialogues if one.persona_id in ids and one.simulator == user])
