"""Documents as this project and others write them, from its own generators and by hand: what the fuzzers begin with."""

from __future__ import annotations

from typing import Any

from fakes import REPLIES, people

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.formats.foreign import Recording
from rlver.components.replay.reappraisal import reappraise
from rlver.components.users.scripted.simulator import ScriptedAppraiser


def appraised(number: int) -> Dialogue:
    """Replies to a persona of the library, appraised by the scripted user: a transcript as this project writes it."""
    persona = people()[1][number % 8]
    said = [
        (f"I could not sleep, and my sister still does not call. {place}", REPLIES[(number + place) % len(REPLIES)]) for place in range(3)
    ]
    turns = tuple(Turn(user=user, assistant=reply, cue=bool(place), reply_tokens=9) for place, (user, reply) in enumerate(said))
    recording = Recording(f"{persona.persona_id}/{number}", persona.persona_id, None, "p", 1, None, None, turns, 0)
    return reappraise(recording, persona, ScriptedAppraiser("vanilla"), EmotionRules(max_turns=3))


def record(name: str, changes: list[int], **other: Any) -> dict[str, Any]:
    """A dialogue as SAGE records it: the judgement of a reply stands on the next message."""
    emotion, history = 40, list[dict[str, Any]]([{"role": "user", "content": "Nobody calls me.", "emotion-point": 40}])
    for change in changes:
        emotion = max(0, min(100, emotion + change))
        planning = {part: f"Heading]\n{part}" for part in ("content", "TargetCompletion", "activity", "analyse")}
        history.append({"role": "assistant", "content": "I am here.", "think": "Be kind."})
        history.append({"role": "user", "content": "Oh.", "emotion-point": emotion, "planning": {**planning, "change": change}})
    return {"id": name, "emo_point": emotion, "task": "你希望对方能够深度共情你的感受", "history": history, **other}


TRANSCRIPTS = [[appraised(number).model_dump(mode="json") for number in numbers] for numbers in ((0, 1), (2,))]
RECORDED = [[record("one", [5, -10]), record("two", [10] * 6)], [record("one", [3], character="被动型", scene="s", player="p")]]
SAID = [
    ("user", "I lost my job last week."),
    ("assistant", "<think>poor man</think>I am so sorry."),
    ("user", "Thank you."),
    ("assistant", "Go on."),
]
CHATS: list[Any] = [
    [{"messages": [{"role": role, "content": text} for role, text in SAID], "id": 7}],
    [{"conversations": [{"from": {"user": "human", "assistant": "gpt"}[role], "value": text} for role, text in SAID]}],
    [{"turns": [{"user": SAID[0][1], "assistant": SAID[1][1], "cue": True, "reply_tokens": 3}], "seed": 3, "emotion_start": 50}],
    [{"instruction": SAID[0][1], "input": "", "output": SAID[1][1], "history": [[SAID[2][1], SAID[3][1]]]}],
    [
        [{"speaker": "seeker", "text": [{"text": SAID[0][1]}, {"image": 1}]}, {"speaker": "supporter", "text": SAID[1][1]}],
        TRANSCRIPTS[1][0],
    ],
]
