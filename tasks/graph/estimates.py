"""What a stage would take: dialogues, calls of an LLM user and their price, memory, disk, hours. Arithmetic on parameters and small files.

Stages that would run, read from their commands: the module, its options, and whether its settings can work at all.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlver.components.domain.files import read_json, read_jsonl
from rlver.components.settings.overlays import SettingsError, overlays_of
from rlver.components.settings.sections import TINY
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.training.memory import ADAMW, FLOAT32, KNOWN, ModelShape, shape_of, training_bytes
from rlver.components.users.llm.kind import Usage
from rlver.components.weights.sources.model import without_revision
from rlver.tasks.graph import dvc
from rlver.tasks.graph.pipelines import ASKED_FOR, OFFERED
from rlver.tasks.runtime.language import ENGLISH, language_of_personas

CHECKPOINTS = 3  # two are kept, and a third is there while it is being written
BEST_CHECKS = 4  # the best of all, the best until each checkpoint that is kept, and one that is being written (training/best.py)
MEASURED_STEP_S, MEASURED_WEIGHTS, MEASURED_TOKENS = 132.0, 134_515_008, 48 * 6 * 40  # of SmolLM2-135M, on two cores: docs/log.md


@dataclass(frozen=True)
class Talk:
    """What an LLM user takes for the dialogues of a stage: usage by model, and money where every model has a price."""

    usage: Mapping[str, Usage]
    money: float | None


def training_dialogues(settings: Settings) -> tuple[int, int]:
    """(dialogues that are learned from, dialogues with held-out personas) of a training run."""
    train = settings.train
    checks = 1 + train.steps // train.evaluate_every + bool(train.steps % train.evaluate_every)
    return train.steps * train.personas_per_step * train.group_size, checks * train.evaluation_personas


def test_personas(root: Path, settings: Settings) -> int:
    """How many there are: those of the imported file, if it is here, else as many as are composed."""
    imported = root / (settings.personas.imported_test or "")
    return sum(1 for _ in read_jsonl(imported)) if imported.is_file() else settings.personas.test


def talk(settings: Settings, dialogues: int, language: str) -> Talk:
    """At most this: every dialogue goes to the limit of turns."""
    simulator = settings.simulator
    usage: dict[str, Usage] = {}
    for part in simulator.parts:
        for model, one in part.kind.usage(simulator.wanted(part.name).parameters, language, simulator.max_turns).items():
            usage[model] = usage.get(model, Usage(0, 0, 0)).plus(one.times(dialogues))
    prices = settings.endpoint.prices
    if not usage.keys() <= prices.keys():
        return Talk(usage, None)
    return Talk(usage, sum(prices[name].of(one.tokens_in, one.tokens_out) for name, one in usage.items()))


def language_of(personas: Path, imported: str | None) -> str:
    """The language of the file, if it is there; else imported profiles are Chinese and composed personas English."""
    if personas.is_file():
        return language_of_personas(personas)
    return "zh" if imported else ENGLISH


def policy_shape(settings: Settings, folder: Path | None) -> ModelShape:
    """The shape of the policy; `folder` holds the model that base.model names, None where it is not on this machine.

    Raises ValueError for a model that is neither here nor known.
    """
    base = settings.base
    if base.kind == TINY:
        return ModelShape(
            base.hidden_size, base.layers, base.heads, 1, base.hidden_size // base.heads, 3 * base.hidden_size, base.vocab_size, tied=True
        )
    if folder is not None:
        return shape_of(read_json(folder / "config.json"))
    name = str(base.model) if ":" in str(base.model).removeprefix("hf:") else without_revision(str(base.model))[0]
    if name in KNOWN:
        return KNOWN[name]
    raise ValueError(f"the size of {base.model} is not known before it is here; known are {', '.join(KNOWN)}")


def guessed_seconds(settings: Settings, shape: ModelShape) -> float | None:
    """Seconds of a training step on two cores, as many times those of SmolLM2-135M as weights x sampled tokens are; None where calls are waited for."""
    if settings.base.kind == TINY or settings.simulator.models:
        return None
    train = settings.train
    turns = train.max_turns or settings.simulator.max_turns
    tokens = train.personas_per_step * train.group_size * turns * settings.policy.max_reply_tokens
    return MEASURED_STEP_S * shape.parameters / MEASURED_WEIGHTS * tokens / MEASURED_TOKENS


def memory(settings: Settings, shape: ModelShape, on_gpu: bool) -> dict[str, int]:
    """Bytes of a training step on each device, for dialogues that fill policy.max_context_tokens."""
    from rlver.components.policy.precision import computes_in_bfloat16  # brings torch

    train, policy = settings.train, settings.policy
    held_in_bfloat16 = train.frozen_precision == "native" and (on_gpu or computes_in_bfloat16(train.frozen_precision))
    stripped = policy.thinking and policy.thoughts == "strip"  # a turn is then a row of its own
    speaks_here = settings.rollout.sampler == "transformers"
    speaks_apart = train.engine == "trl-async" or (train.max_staleness > 0 and speaks_here)  # at most: a processor may do with bfloat16
    in_bfloat16 = speaks_here and policy.precision == "native" and train.max_staleness == 0  # at most: not every processor multiplies it
    return training_bytes(
        shape,
        on_gpu=on_gpu,
        lora_rank=train.lora_rank,
        held_in_bfloat16=held_in_bfloat16,
        trained_layers=min(train.trained_layers, shape.layers),
        with_reference=train.beta > 0,
        separate_critic=_has_own_critic(settings),
        copies=int(speaks_apart),
        bfloat16_copies=int(in_bfloat16),
        checkpointing=train.gradient_checkpointing,
        rows=train.rows_per_forward * (settings.simulator.max_turns if stripped else 1),
        row_tokens=policy.max_context_tokens,
        key_value_rows=settings.rollout.concurrency if speaks_here else 0,
        key_value_tokens=policy.max_context_tokens,
        sent=not speaks_here and not settings.pushed_rank,
    )


def training_disk(settings: Settings, shape: ModelShape) -> int:
    """Bytes on disk of a training run: checkpoints, the weights of the best checks, and the model twice, because DVC keeps a copy."""
    own = shape.parameters + (shape.trunk if _has_own_critic(settings) else 0)
    train = settings.train
    # A checkpoint of a model whose upper layers train holds all its weights.
    kept = shape.adapters(train.lora_rank) * (2 if _has_own_critic(settings) else 1) if train.lora_rank else own
    trained = shape.upper(min(train.trained_layers, shape.layers)) if train.trained_layers else kept
    best = FLOAT32 * trained * BEST_CHECKS if train.keep == "best" else 0
    moments = ADAMW * trained if train.checkpoint_optimizer else 0
    return CHECKPOINTS * (FLOAT32 * kept + moments) + best + base_disk(shape)


def base_disk(shape: ModelShape) -> int:
    return 2 * FLOAT32 * shape.parameters


def _has_own_critic(settings: Settings) -> bool:
    return settings.train.algorithm == "ppo" and settings.train.critic == "separate"


def measured_seconds(logs: Sequence[Path]) -> float | None:
    """Median seconds of a training step in the first curve that is there: an earlier run, or one under way."""
    for path in filter(Path.is_file, logs):
        with path.open(encoding="utf-8", newline="") as file:
            seconds = [float(row["seconds"]) for row in csv.DictReader(file) if row.get("seconds")]
        if seconds:
            return statistics.median(seconds)
    return None


@dataclass(frozen=True)
class PlannedStage:
    """A stage that would run, and the options of its command by name."""

    stage: dvc.Stage
    module: str
    options: Mapping[str, str]

    def settings(self, root: Path) -> Settings:
        """Those it would run with. Raises SettingsError."""
        seed = self.options.get("seed")
        return load_settings(root / "params.yaml", self.options.get("variant"), seed=int(seed) if seed else None)


def planned(step: dvc.Stage) -> PlannedStage:
    """Module and options of a stage's command; of several lines, the first."""
    module = re.search(r"-m rlver\.tasks\.stages\.(\w+)", step.command)
    options = re.findall(r"--([a-z]+) (\S+)", step.command.split("\n")[0])
    return PlannedStage(step, module[1] if module else "", dict(options))


def refuse_impossible(root: Path, steps: Iterable[dvc.Stage], plan: Iterable[dvc.Stage] = ()) -> None:
    """Raise SettingsError, in one line, for the first of `steps` whose settings cannot work: better now than after the stages before it.

    `plan` has the stages that make what they read, out of date or not.
    """
    maker = {path: one for one in map(planned, plan) for path in one.stage.writes}
    for one in map(planned, steps):
        overlays = list(overlays_of(root / "params", one.options["variant"])) if one.module and "variant" in one.options else []
        if overlays[1:] == [f"params/{one.options.get('variant')}.yaml"] and overlays[0] not in one.stage.reads:
            raise SettingsError(
                f"{overlays[1]} extends {overlays[0]}, which {one.stage.name} does not watch: name it in that stage's params in "
                f"{one.stage.pipeline.replace(f'/{ASKED_FOR}', f'/{OFFERED}')}, or a change of it makes nothing old"
            )
        if one.module == "warmup" and one.settings(root).policy.thinking:
            raise SettingsError(f"{one.stage.name}: the warm-up dialogues have no thoughts: set policy.thinking: false")
        if one.module in ("base", "train"):
            settings = one.settings(root)
            if one.module == "train":
                settings.require_trainable()
                if settings.train.engine == "verl" and settings.train.verl_recipe not in one.stage.reads:
                    raise SettingsError(
                        f"{one.stage.name} does not watch {settings.train.verl_recipe}: in dvc.yaml, name it in by_verl and not in trained"
                    )
        base, held = (maker.get(one.options.get(name, "")) for name in ("base", "transcripts"))
        if one.module == "train" and base and base.module == "base":
            _refuse_longer_context(one, one.settings(root), base.settings(root))
        if one.module == "score" and base and held and base.module == held.module == "converse":
            _refuse_other_users(root, one, held, base)


def _refuse_longer_context(one: PlannedStage, own: Settings, base: Settings) -> None:
    tokens, positions = own.policy.max_context_tokens, base.policy.max_context_tokens
    if base.base.kind == TINY and tokens > positions:
        raise SettingsError(
            f"{one.stage.name}: policy.max_context_tokens is {tokens}, but the tiny model that it begins with has {positions} positions: set "
            "it in params.yaml, or name a model with base.model"
        )


def _refuse_other_users(root: Path, one: PlannedStage, held: PlannedStage, base: PlannedStage) -> None:
    users = []
    for stage in (held, base):
        if len(stage.stage.writes) > 1:  # with a command for each
            return
        user = stage.settings(root).simulator
        parts = [(part.name, part.which) for part in user.parts]
        users.append((parts, user.models, stage.options.get("difficulty", user.difficulty), user.rules))
    if users[0] != users[1]:
        raise SettingsError(
            f"{one.stage.name}: the users of {held.stage.name}, or their rules, are not those of {base.stage.name}, and such scores are not "
            "comparable: put `simulator` into params.yaml, not into the overlay"
        )
