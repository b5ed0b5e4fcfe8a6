"""`rlver honesty`: does a policy say what is right, also to users who feel bad or believe something wrong?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as ParamsOfVariant

ANSWER_TOKENS = 120  # more than a turn of a dialogue has: those who comfort first are to come to the answer too


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Does a policy say what is right, also to sad users?", rich_markup_mode=None)
    group.command("run")(run)
    group.command("score")(score)
    app.add_typer(group, name="honesty")


def run(
    policy: Annotated[
        str, typer.Option("--policy", help="A model folder, hf:NAME, SOURCE:NAME, or behind a chat endpoint openai:MODEL or vllm:URL.")
    ],
    out: Annotated[Path, options.out("The answers file to write (JSONL); unfinished work lies beside it.")],
    sampled: Annotated[
        bool, typer.Option("--sample/--greedy", help="Answer as in the dialogues of the benchmark (evaluation.temperature), or greedily.")
    ] = False,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Of one answer, thoughts included.")] = ANSWER_TOKENS,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N items and the first N probes.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of sampled answers (default: seed).")] = None,
    variant: Variant = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: ParamsOfVariant = PARAMS,
) -> None:
    """Ask a policy every item plain, after a feeling, with a wrong belief and with both, and the probes; after Ctrl-C, run it again to go on."""
    options.limit_endpoints(budget, replay)
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.graph.lock import md5_of
    from rlver.tasks.runtime.connections import warn_of_stored
    from rlver.tasks.runtime.conversing import fingerprint
    from rlver.tasks.runtime.policies import candidate, is_served
    from rlver.tasks.runtime.progress import Steps
    from rlver.tasks.studies.honesty.asking import Interview, as_asked, ask_and_write
    from rlver.tasks.studies.honesty.questions import ITEMS, questions

    settings = as_asked(load_settings(params, variant), sampled, max_tokens, seed)
    if max_tokens >= settings.policy.max_context_tokens and not is_served(policy):  # a server has a limit of its own
        raise ValueError(
            f"--max-tokens {max_tokens}: a question and its answer have {settings.policy.max_context_tokens} (policy.max_context_tokens)"
        )
    asked_for = questions(limit)
    who = candidate(policy, settings, variant)
    folder = who.folder()
    asked = Interview(
        policy=who.name,
        identity=fingerprint(settings, ITEMS, who.location, folder),
        md5=None if folder is None else md5_of(folder),
        temperature=settings.policy.temperature,
        max_answer_tokens=settings.policy.max_reply_tokens,
        seed=settings.seed,
    )
    with who.open_conversation(settings, min(settings.evaluation.concurrency, len(asked_for))) as talk:
        step = Steps(len(asked_for), "questions answered").step
        given = ask_and_write(talk, asked, asked_for, out, settings.rollout.max_failure_rate, step)
        if costs := talk.costs():
            typer.echo(costs, err=True)
        warn_of_stored(talk.policy_connection)
    cut_off = sum(answer.cut_off for answer in given.answers)
    typer.echo(f"{out}: {len(given.answers)} answers of {who.name} ({asked.identity}), {cut_off} of them cut off")


def score(
    answers: Annotated[Path, typer.Argument(help="An answers file of `rlver honesty run`.")],
    before: Annotated[
        Path | None, typer.Option("--before", metavar="FILE", help="Answers of the policy that this one is compared with.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", min=0, max=1, help="So many more errors are too many (default: benchmark.margin).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--json", "--out", "-o", metavar=options.FILE_OR_STREAM, help="Also write all figures to this JSON file.")
    ] = None,
    params: Params = PARAMS,
) -> None:
    """Grade answers by rule, and count errors, agreement and what is unclear; with --before, is the policy worse than another?"""
    from rlver.components.domain.files import write_json
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.studies.honesty.asking import read_answers
    from rlver.tasks.studies.honesty.figures import as_text, compared, figures, graded
    from rlver.tasks.studies.honesty.questions import questions

    if margin is not None and before is None:
        raise ValueError("--margin is for a comparison: name the answers of the other policy with --before")
    asked_for = questions()
    found = read_answers(answers)
    rows = graded(found, asked_for, answers)
    numbers, comparison = figures(found, rows), None
    if before is not None:
        earlier = read_answers(before)
        too_many = load_settings(params).benchmark.margin if margin is None else margin
        comparison = compared((earlier, graded(earlier, asked_for, before)), (found, rows), too_many)
    if out:
        write_json(out, {**numbers, "compared": comparison})
    typer.echo(as_text(numbers, comparison))
