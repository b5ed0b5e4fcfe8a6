"""Stage `base`: the policy before reinforcement learning.

`base.kind: tiny` builds tokenizer and model here and warm-starts them on the train personas; `model`, or another source of models, saves the
named model as it is, so that everything after this stage reads one folder whatever the model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.domain.files import write_json
from rlver.components.domain.kinds import ModelSource, own_section
from rlver.components.domain.persona import Persona
from rlver.components.domain.registry import MODELS
from rlver.components.personas.schema import validate_file
from rlver.components.settings.sections import TINY, BaseSettings
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime.stage import run_stage

if TYPE_CHECKING:
    from rlver.components.policy.supervised import Example
    from rlver.components.policy.tiny.model import CorpusDialogue

HUB = "model"  # the source of folders and of the hub
WORLD_IN_FIRST_LESSON = 0.8  # share of the small world's sentences


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", help="whose overlays name the model")
    parser.add_argument("--personas", type=Path, help="those that the tiny policy is warm-started on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, required=True)
    arguments = parser.parse_args(argv)
    settings = load_settings(Path("params.yaml"), arguments.variant)
    if settings.base.kind != TINY:
        metrics = _take_over(settings.base, arguments.out)
    elif arguments.personas is None:
        parser.error("base.kind: tiny needs --personas")
    else:
        metrics = _warm_start(settings, validate_file(arguments.personas), arguments.out)
    write_json(arguments.metrics, metrics)
    return 0


def _take_over(base: BaseSettings, out: Path) -> dict[str, Any]:
    """From the source base.kind, or the one before the colon of base.model. The metrics name the package of another's source, and the commit in the hub."""
    from rlver.components.policy.load import load_policy, located, origin_of, save_policy
    from rlver.components.weights.sources.model import commit_of

    name = place = str(base.model)
    if base.kind != HUB:
        source: ModelSource = MODELS.load(base.kind)
        name, place = f"{base.kind}:{name}", str(source.folder(name, own_section(base, base.kind)))
    model, tokenizer = load_policy(place)
    folder = located(place)
    save_policy(model, tokenizer, out, like=folder)
    found = {"model": name, "source": origin_of(name), "commit": commit_of(folder)}
    known = {what: which for what, which in found.items() if which is not None}
    return {**known, "parameters": sum(weight.numel() for weight in model.parameters())}


def _warm_start(settings: Settings, personas: Sequence[Persona], out: Path) -> dict[str, Any]:
    from statistics import mean

    from rlver.components.policy.load import save_policy
    from rlver.components.policy.supervised import encode_reply, encode_text, warm_start
    from rlver.components.policy.tiny.model import corpus, new_model, said, train_tokenizer
    from rlver.components.policy.tiny.small_world import build, training_sentences
    from rlver.components.policy.tiny.supporters import mixed
    from rlver.components.users.scripted.simulator import ScriptedSimulator

    base = settings.base
    simulator, rules = ScriptedSimulator(settings.simulator.difficulty), settings.simulator.rules

    def dialogues_of(follow_share: float, count: int, seed: int) -> list[CorpusDialogue]:
        return list(corpus(personas, mixed(follow_share), simulator, rules, count, base.direct_share, seed))

    taught = dialogues_of(base.teaching_follow_share, round(base.dialogues * base.teaching_share), settings.seed)
    habits = dialogues_of(base.follow_share, base.dialogues - len(taught), settings.seed + 1)
    world = training_sentences(settings.seed, len(build().training) * base.world_rounds)
    sample = [*taught[:400], *habits[:400]]
    texts = [user for dialogue in sample for user in dialogue.users] + [fact.sentence for fact in build().training]
    tokenizer = train_tokenizer(texts + [said(move, True) for dialogue in sample for move in dialogue.moves], base.vocab_size)
    replies = [(move, dialogue.thinking) for dialogue in [*taught, *habits] for move in dialogue.moves]
    known = [encode_text(tokenizer, text) for text in world]
    early = round(WORLD_IN_FIRST_LESSON * len(known))  # the later lessons belong to dialogues and only keep it in mind
    lessons = [
        [encode_reply(tokenizer, said(move, thinking)) for move, thinking in replies[:: max(1, len(replies) // base.single_replies)]],
        [_encoded(tokenizer, dialogue) for dialogue in taught],
        [_encoded(tokenizer, dialogue) for dialogue in habits],
    ]
    for lesson, part in zip(lessons, (known[:early], known[early::2], known[early + 1 :: 2]), strict=True):
        lesson += part
    model = new_model(tokenizer, base.hidden_size, base.layers, base.heads, settings.policy.max_context_tokens, settings.seed)

    def show(step: int, steps: int, loss: float) -> None:
        if step % 100 == 0 or step == steps:
            print(f"warm start: step {step}/{steps}, loss {loss:.3f}", flush=True)

    result = warm_start(model, lessons, base.learning_rate, base.batch_tokens, base.max_seconds, settings.seed, show)
    if result.cut_short:
        told = f"only {result.steps} steps within base.max_seconds ({base.max_seconds:g} s): this base is weaker than that of a quiet or faster machine"
        print(f"warning: {told}, and so is what is trained from it", file=sys.stderr, flush=True)
    save_policy(model, tokenizer, out)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "corpus_emotion_mean": mean(dialogue.emotion_final for dialogue in habits),
        "steps": result.steps,
        "tokens": result.tokens,
        "first_loss": result.first_loss,
        "last_loss": result.last_loss,
        "cut_short": result.cut_short,
    }


def _encoded(tokenizer: Any, dialogue: CorpusDialogue) -> Example:
    from rlver.components.policy.supervised import encode_dialogue
    from rlver.components.policy.tiny.model import said

    return encode_dialogue(tokenizer, dialogue.users, [said(move, dialogue.thinking) for move in dialogue.moves], dialogue.thinking)


if __name__ == "__main__":
    sys.exit(run_stage(main))
