"""`rlver distil`, `fidelity`, `ask-unsure`: an appraiser learned from recorded dialogues, how far it agrees, and what to ask next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params

if TYPE_CHECKING:
    from rlver.components.domain.protocols import AppraiserKind
    from rlver.components.domain.transcript import Dialogue

Recorded = Annotated[list[Path], typer.Argument(help="Transcripts or recorded SAGE dialogues (JSONL, also .gz), one file a policy model.")]
Folder = Annotated[Path, options.out("The folder of the appraiser and its fidelity card.", options.FOLDER)]
Personas = Annotated[Path | None, typer.Option("--personas", help="The personas file, if the transcripts have one.")]


def register(app: typer.Typer) -> None:
    for command in (distil, fidelity, ask_unsure):
        app.command()(command)


def distil(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """Learn an appraiser from recorded dialogues with any user; tests it first on personas and models that it has not seen."""
    import time

    from rlver.components.settings.settings import load_settings
    from rlver.components.users.distilled.folder import CARD, write_folder
    from rlver.tasks.studies.distil.learn import distilled, learn
    from rlver.tasks.studies.distil.recordings import amount, headline, locked_split, origin, read_material, write_card

    settings = load_settings(params)
    begin = time.process_time()
    material = read_material(transcripts, personas, settings)
    examples = material.examples
    splits, curve = locked_split(material, settings)
    learned = learn(material, examples.rows_of(range(len(examples.dialogues))), settings.distil, settings.seed)
    digest = write_folder(distilled(material, learned, settings.distil), out, origin(examples, settings))
    card = {
        "appraiser": f"distilled {digest}",
        "how": "Learned without the locked personas and policy models (chosen by hash of their names), tested on dialogues between the two. "
        "The appraiser itself was then learned from all recordings. What the guard does (replies that are none) is not part of the figures.",
        "seconds": round(time.process_time() - begin, 1),
        "origin": origin(examples, settings),
        "splits": splits,
        "learning_curve": curve,
    }
    write_card(out, CARD, card)
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    typer.echo(f"{out}: distilled {digest}, {size:.1f} MB, from {amount(examples)}; {headline(splits)}; card: {out / CARD}.md")


def fidelity(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """How far learned appraisers agree with the recorded users, by cross-fitting over personas and policy models (long)."""
    from rlver.components.settings.settings import load_settings
    from rlver.components.users.distilled.folder import CARD
    from rlver.tasks.studies.distil.examples import cross_folds
    from rlver.tasks.studies.distil.fidelity import fidelity_of, fold_scored
    from rlver.tasks.studies.distil.recordings import amount, headline, origin, read_material, write_card

    settings = load_settings(params)
    material = read_material(transcripts, personas, settings)
    folds, parts = list(cross_folds(material.examples.dialogues, settings.distil.persona_folds, settings.distil.policy_folds)), []
    for number, fold in enumerate(folds, start=1):
        parts.append(fold_scored(material, fold, settings.distil, settings.seed))
        typer.echo(f"fold {number} of {len(folds)}", err=True)
    every = fidelity_of(material, parts, settings.simulator.rules, settings.evaluation.bootstrap_samples, settings.seed)
    card: dict[str, Any] = {
        "appraiser": "appraisers learned from these recordings, by cross-fitting",
        "how": f"Every dialogue is scored by an appraiser that has seen neither its persona nor, of several, its policy model "
        f"({settings.distil.persona_folds} folds of personas, at most {settings.distil.policy_folds} of models).",
        "origin": origin(material.examples, settings),
        "splits": {"cross-fitted": every},
    }
    write_card(out, f"{CARD}-cross-fitted", card)
    typer.echo(f"{out / f'{CARD}-cross-fitted'}.md: {amount(material.examples)}; {headline(card['splits'])}")


def ask_unsure(
    transcripts: Recorded,
    appraiser: Annotated[str, typer.Option("--appraiser", metavar="KIND", help="distilled:FOLDER: whose doubts are asked about.")],
    replies: Annotated[int, typer.Option("--replies", min=1, help="Ask about at most so many replies, whole dialogues of them.")],
    personas: Annotated[Path, typer.Option("--personas", help="The personas file; the LLM user must know whom to play.")],
    out: Annotated[Path, options.out("The recordings to write (JSONL); `rlver distil` learns from them.", options.FILE_OR_STREAM)],
    variant: Annotated[str | None, typer.Option("--variant", help="Take the parameters of this variant.")] = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let the LLM user appraise the dialogues that a distilled appraiser is least sure of, within a budget."""
    options.limit_endpoints(budget, replay)
    import asyncio

    from rlver.components.domain.files import write_jsonl
    from rlver.components.personas.schema import validate_file
    from rlver.components.rollout.transcripts import summary
    from rlver.components.settings.settings import load_settings
    from rlver.components.users.distilled.folder import folder_of, read_folder
    from rlver.tasks.runtime.appraisers import appraiser_of
    from rlver.tasks.studies.distil.doubts import doubts, felt_by, within
    from rlver.tasks.studies.distil.recordings import recorded

    model = read_folder(folder_of(appraiser))
    settings = load_settings(params, variant)
    people = {persona.persona_id: persona for persona in validate_file(personas)}
    every = [dialogue for path in transcripts for dialogue in recorded(path)]
    chosen = list(within(doubts(model, [one for one in every if one.persona_id in people], people), replies))
    if not chosen:
        raise ValueError(
            f"no dialogue of a persona in {personas} has between 1 and {replies} replies; ask about more, or name other personas"
        )
    model_asked, rules = appraiser_of("llm", settings), settings.simulator.rules

    async def asked(kind: AppraiserKind) -> list[Dialogue | None]:
        return list(await asyncio.gather(*(felt_by(kind, doubt.dialogue, people[doubt.dialogue.persona_id], rules) for doubt in chosen)))

    dialogues = [one for one in model_asked.run(asked) if one is not None]
    if not dialogues:
        raise ValueError(
            f"{settings.simulator.llm.appraiser.model} gave no usable answer on any of {len(chosen)} dialogues; try another model"
        )
    write_jsonl(out, [one.model_dump(mode="json") for one in dialogues])
    unknown = sum(one.persona_id not in people for one in every)
    remarks = [
        f"sure of the direction with probability {chosen[0].sure:.2f} to {chosen[-1].sure:.2f}",
        *([f"{len(chosen) - len(dialogues)} that the model gave no usable answer on are left out"] if len(dialogues) < len(chosen) else []),
        *([f"{unknown} of a persona that is not in {personas} were not considered"] if unknown else []),
        *([model_asked.connection.line()] if model_asked.connection else []),
    ]
    typer.echo("; ".join([f"{out}: {summary(dialogues)}", *remarks]))
