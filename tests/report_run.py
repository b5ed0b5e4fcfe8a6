"""A finished run as files, from a seed: dialogues with consistent emotions, real metrics, training logs and a benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rlver.components.domain.files import write_json, write_jsonl, write_text_atomically
from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling

if TYPE_CHECKING:
    from rlver.components.report.material import Material

SIMULATOR = SimulatorTag(kind="scripted", difficulty="vanilla", version="scripted-1")
NEEDS = (
    "not_at_fault", "self_reflection", "dialectical_analysis", "deep_empathy", "attentive_listening", "understand_others", "useful_advice",
    "sincere_praise",
)  # fmt: skip
USER = (
    "My sister Nora has not answered any of my messages since the funeral.",
    "I sold grandmother's piano to pay for the roof, and nobody had told me that Nora wanted it.",
    "She stood in the empty front room, said nothing, and left with her coat open in the snow.",
    "I wrote to her twice. I drove there once. Her car was in the yard and the lights went out.",
    "People at work ask me if I slept badly. I keep hearing that door.",
    "I know what the roof cost. I wonder what the rest of it costs.",
    "My brother says it was only a piano. He never had to listen for who was playing it.",
    "Maybe I should have asked. I keep turning that over.",
)
GOOD = (
    "Under the anger about the piano there seems to be grief: it was the last place where you could hear your grandmother.",
    "You drove there and stood in front of a dark house. That must have felt like losing her as well.",
    "It was not your fault. The roof was leaking and nobody had told you what the piano meant to Nora.",
    "What do you hear, when you keep hearing that door?",
)
POOR = (
    "Time heals all wounds.",
    "You should have asked before you sold it.",
    "It is only a piano, try to look on the bright side!",
    "Have you considered writing a list of things you are grateful for?",
    "",
)


def make_dialogue(policy: str, number: int, skill: float, random: Random) -> Dialogue:
    """A dialogue in which a share `skill` of the replies serves the need."""
    emotion, turns, stop = 40, [], StopReason.TURN_LIMIT
    for index in range(10):
        good = random.random() < skill
        change = random.choice((6, 8, 9)) if good else random.choice((-6, -4, -2, 0))
        emotion = max(0, min(100, emotion + change))
        reply = random.choice(GOOD if good else POOR)
        what, points = ("serves_need", change + 1) if good else ("misses_need", change + 1)
        evidence = (
            Evidence(step="content", what="deep_empathy" if good else "platitude", span=reply[:24], points=0),
            Evidence(step="target", what=what, span=reply[:24], points=points),
            Evidence(step="effect", what="trait:suspicious", points=-1),
        )
        appraisal = Appraisal(
            content="They name what hurts." if good else "They hand me a saying.",
            target="That is what I came for." if good else "That is not what I came for.",
            activity="Maybe I can go on a little." if good else "So nobody listens here either.",
            feeling="understood" if good else "let down",
            change=change,
            evidence=evidence,
        )
        turns.append(
            Turn(
                user=f"{USER[(index + number) % len(USER)]} {random.choice(('', 'It was day ' + str(index + number) + '.'))}".strip(),
                assistant=reply,
                think="Grief, not the piano. Name it, do not fix it." if good else "Say something kind.",
                emotion=emotion,
                appraisal=appraisal,
                cue=index % 3 == 1,
                reply_tokens=len(reply.split()),
                think_tokens=10 if good else 4,
            )
        )
        if emotion >= 100 or emotion < 10:
            stop = StopReason.EMOTION_CEILING if emotion >= 100 else StopReason.EMOTION_FLOOR
            break
    return Dialogue(
        dialogue_id=f"p{number:03d}/0", persona_id=f"p{number:03d}", hidden_need=NEEDS[number % len(NEEDS)], policy=policy, seed=7,
        simulator=SIMULATOR, emotion_start=40, emotion_final=emotion, stop_reason=stop, turns=tuple(turns),
    )  # fmt: skip


def make_failed(policy: str, number: int) -> Dialogue:
    return Dialogue(
        dialogue_id=f"p{number:03d}/0", persona_id=f"p{number:03d}", hidden_need=NEEDS[number % len(NEEDS)], policy=policy, seed=7,
        simulator=SIMULATOR, emotion_start=40, stop_reason=StopReason.FAILED, error="turn 2: the context holds 1590 of 1600 tokens",
        turns=(Turn(user=USER[0], assistant=POOR[0], emotion=None, appraisal=None),),
    )  # fmt: skip


def make_dialogues(policy: str, personas: int, skill: float, seed: int, failed: bool = False) -> list[Dialogue]:
    random = Random(f"{seed}:{policy}")
    dialogues = [make_dialogue(policy, number, min(1.0, max(0.0, random.gauss(skill, 0.12))), random) for number in range(personas)]
    return [*dialogues, make_failed(policy, personas)] if failed else dialogues


def write_transcripts(root: Path, variant: str, dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None) -> None:
    """Transcripts and the metrics that the score stage would give them."""
    write_jsonl(root / "transcripts" / f"{variant}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    classes = {dialogue.persona_id: ("negative", "passive", "avoidant")[int(dialogue.persona_id[1:]) % 3] for dialogue in dialogues}
    metrics = sentient_metrics(dialogues, base, Sampling(200, 7), classes=classes, settings_digest="3f9c0d51a2b4")
    write_json(root / "metrics" / variant / "sentient.json", metrics)


def write_benchmark(root: Path, variant: str, shift: float, seed: int) -> None:
    random = Random(seed)
    tasks = {}
    for task, metric, higher, base in (("rlver_tiny_likelihood", "bits_per_byte", False, 2.1), ("rlver_tiny_choice", "acc", True, 0.7)):
        draws = [random.random() for _ in range(120)]
        scores = [float(draw < base - shift) if higher else round(base + draw / 2 + shift, 6) for draw in draws]
        items = [{"doc": f"{i:03d}", "prompt": f"{task}{i}", "score": score} for i, score in enumerate(scores)]
        tasks[task] = {
            "metric": metric, "higher_is_better": higher, "value": round(sum(scores) / len(scores), 6), "ci95": [0.0, 1.0], "n": len(items),
            "margin": 0.05, "items": items,
        }  # fmt: skip
    write_json(root / "metrics" / variant / "general.json", {"tasks": tasks, "smoke_test": False, "settings_digest": "77aa01c2d3e4"})


def write_logs(root: Path, variant: str, steps: int, end: float, seed: int) -> None:
    random = Random(seed)
    rows = ["step,emotion_mean,success_rate,failure_rate,right_act_rate,grad_norm,kl,entropy,reply_tokens,seconds"]
    for step in range(1, steps + 1):
        done = 1 - (1 - step / steps) ** 2
        noise = random.gauss(0, 3)
        rows.append(
            f"{step},{13 + (end - 13) * done + noise:.3f},{0.4 * done:.3f},{0.76 - 0.68 * done:.3f},{0.15 + 0.6 * done + noise / 90:.3f},"
            f"{0.6 + abs(noise) / 9:.4f},,{2.2 - 1.1 * done:.4f},{14 + 9 * done + noise / 3:.2f},4.1"
        )
    write_text_atomically(root / "logs" / variant / "train.csv", "\n".join(rows) + "\n")
    held_out = [f"{step},{13 + (end - 16) * (1 - (1 - step / steps) ** 2):.2f},0.3,0.1,32" for step in range(0, steps + 1, 20)]
    write_text_atomically(
        root / "logs" / variant / "evaluation.csv", "\n".join(["step,emotion_mean,success_rate,failure_rate,n", *held_out]) + "\n"
    )


def write_held_out(root: Path, variant: str, skills: Sequence[float], personas: int) -> None:
    """What the checks of a training leave: the same personas at the steps 0, 20, 40, …, with these skills."""
    for number, skill in enumerate(skills):
        dialogues = make_dialogues(f"{variant} at {number}", personas, skill, seed=7)
        rows = [dialogue.model_copy(update={"policy": variant}).model_dump(mode="json") for dialogue in dialogues]
        write_jsonl(root / "logs" / variant / "held_out" / f"{20 * number}.jsonl", rows)


def write_run(root: Path, personas: int = 20, trained: Sequence[str] = ("grpo-think",), seed: int = 7) -> Path:
    """transcripts/, metrics/ and logs/ of a base and trained variants; the last variant has one failed dialogue."""
    base = make_dialogues("base", personas, 0.16, seed)
    write_transcripts(root, "base", base, None)
    write_benchmark(root, "base", 0.0, seed)
    for position, variant in enumerate(trained):
        skill = 0.68 - 0.03 * position
        write_transcripts(root, variant, make_dialogues(variant, personas, skill, seed, failed=variant == trained[-1]), base)
        write_benchmark(root, variant, 0.002 + 0.02 * position, seed)
        write_logs(root, variant, 70, 80 - 3 * position, seed + position)
    return root


def load(root: Path) -> Material:
    """Such a run as the report reads it."""
    from rlver.components.report.material import load_material

    return load_material(root / "transcripts", root / "metrics", root / "logs")


def edit_json(path: Path, **changes: object) -> None:
    write_json(path, {**json.loads(path.read_text(encoding="utf-8")), **changes})
