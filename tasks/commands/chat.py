"""`rlver chat`: a person talks to a policy, or is the supporter of a simulated user."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from rlver.tasks.runtime.options import PARAMS, ParamsAndOverlays, Variant, keeping_no_dialogue


def register(app: typer.Typer) -> None:
    app.command()(chat)


def chat(
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="The model: a folder, hf:NAME, openai:MODEL or vllm:URL (default: the newest trained one)."),
    ] = None,
    side: Annotated[
        Literal["user", "supporter"],
        typer.Option("--as", help="Be the user of a model, or the supporter of a simulated user and watch the emotion change."),
    ] = "user",
    persona: Annotated[str | None, typer.Option("--persona", help="Id of the simulated user, as supporter.")] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, as supporter.")] = None,
    variant: Variant = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the sampling or of the simulated user.")] = None,
    params: ParamsAndOverlays = PARAMS,
) -> None:
    """Talk to a model, or be the supporter of a simulated user."""
    from rlver.components.settings.settings import load_settings, with_simulator
    from rlver.tasks.runtime.assembly import simulator, user_connection
    from rlver.tasks.runtime.language import language_of
    from rlver.tasks.runtime.person import newest_policy, someone, standard_terminal, support, talk
    from rlver.tasks.runtime.policies import candidate, in_this_process

    settings, terminal = load_settings(params, variant), standard_terminal()
    seed = settings.seed if seed is None else seed
    if side == "supporter":
        if policy is not None:
            raise ValueError("--policy is for --as user: as supporter you are the policy")
        who, connection = someone(persona, personas, settings), user_connection(settings)
        with keeping_no_dialogue(connection.answers if connection else None):
            asyncio.run(support(who, seed, simulator(settings, endpoint=connection), settings.simulator.rules, terminal, connection))
        return
    named = persona is not None or personas is not None
    language = someone(persona, personas, settings).language if named else language_of(settings, params.parent)
    settings = in_this_process(with_simulator(settings, "scripted", None))  # nobody asks the user anything
    model = candidate(policy or str(newest_policy(Path("models"))), settings)
    with model.open_conversation(settings, concurrency=1) as conversation:
        conversation.policy.start()
        with keeping_no_dialogue(model.connection.answers if model.connection else None):
            asyncio.run(talk(conversation, model.location, seed, language, terminal))
