"""`rlver blind`: people compare two policies without knowing which is which, on a page over two transcripts, two models or both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlver.tasks.runtime import environment, options
from rlver.tasks.runtime.options import PARAMS

if TYPE_CHECKING:
    from rlver.components.domain.transcript import Dialogue
    from rlver.components.settings.settings import Settings
    from rlver.tasks.studies.blind.report import HumanReport

ANSWERS = Path("blind")

group = typer.Typer(
    cls=options.by_default("compare"),
    no_args_is_help=True,
    rich_markup_mode=None,
    help="People compare two policies on a local web page without knowing which is which. `rlver blind A B` is `rlver blind compare A B`.",
)

Answers = Annotated[
    Path | None, typer.Option("--answers", help="The file of answers; one that exists is gone on with. [blind/A-vs-B.jsonl]")
]
Raters = Annotated[str | None, typer.Option("--raters", help="Names, with commas: nobody else may answer. Default: anybody.")]
Host = Annotated[str, typer.Option("--host", help="An address of this machine; others than loopback ask for a key, but are not encrypted.")]
Personas = Annotated[
    Path | None,
    typer.Option("--personas", help="Whose situations are shown as ideas for a talk. [data/personas/test.jsonl, if it is there]"),
]
Variants = Annotated[
    tuple[str, str] | None, typer.Option("--variants", metavar="A B", help="Overlays params/A.yaml and params/B.yaml, for the talks.")
]
Params = Annotated[Path, typer.Option("--params", help="The parameter file; its section blind says how many pairs.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="blind")


@group.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A transcript file, or a variant's name.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another, with the same personas.")],
    talk: Annotated[
        tuple[str, str] | None,
        typer.Option("--talk", metavar="A B", help="Also talk with two models: folders, hf:NAME, openai:MODEL or vllm:URL."),
    ] = None,
    variants: Variants = None,
    answers: Answers = None,
    raters: Raters = None,
    personas: Personas = None,
    host: Host = "127.0.0.1",
    port: options.Port = 7500,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Show pairs of dialogues of the same persona, in random order and on random sides, and keep what people prefer."""
    if talk is None and (variants or personas):
        raise ValueError("--variants and --personas are for the talks: name two models with --talk")
    options.limit_endpoints(budget)
    _hold_open((a, b), talk, variants=variants, answers=answers, raters=raters, personas=personas, host=host, port=port, params=params)


@group.command()
def talk(
    a: Annotated[str, typer.Argument(metavar="A", help="A model: a folder, hf:NAME, openai:MODEL or vllm:URL.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    variants: Variants = None,
    answers: Answers = None,
    raters: Raters = None,
    personas: Personas = None,
    host: Host = "127.0.0.1",
    port: options.Port = 7500,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Let people talk with two hidden models side by side, and keep which they prefer."""
    options.limit_endpoints(budget)
    _hold_open(None, (a, b), variants=variants, answers=answers, raters=raters, personas=personas, host=host, port=port, params=params)


@group.command()
def report(
    answers: Annotated[Path, typer.Argument(help="The file of answers.")],
    transcripts: Annotated[
        list[Path] | None,
        typer.Option("--transcripts", help="Take the emotions from these files, as of another appraiser (once for each)."),
    ] = None,
    out: Annotated[Path | None, options.out("Where to write, without the ending. [beside the answers]", options.ANY)] = None,
    track: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Also into MLflow.")] = True,
    params: Params = PARAMS,
) -> None:
    """Who is preferred, how far people agree, and whether the simulator's emotion says the same; all with 95% intervals."""
    from rlver.components.domain.files import BadFile, write_json, write_text_atomically
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.components.scoring.splits import refuse_mixed_users
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.studies.blind.answers import read_answers
    from rlver.tasks.studies.blind.comparing import named
    from rlver.tasks.studies.blind.report import human_report, judged, refuse_other_words
    from rlver.tasks.studies.blind.wording import markdown

    settings = load_settings(params)
    stem = out or answers.with_name(answers.name.removesuffix(".jsonl") + ".report")
    if not stem.name:
        raise BadFile(f"-o {stem} is a folder: add the name that both files are to begin with")
    page, numbers = (stem.with_name(f"{stem.name}.{ending}") for ending in ("md", "json"))
    for path in (page, numbers):
        options.check(path, options.FILE, {"answers": answers, "transcripts": transcripts})
    found = read_answers(answers)
    if found.cut_off_bytes:
        cut_off = f"the last line was cut off while it was written ({found.cut_off_bytes} bytes)"
        typer.echo(f"{answers}: {cut_off}; it was never confirmed and is left out", err=True)
    dialogues = [dialogue for file in transcripts or () for dialogue in load_transcripts(file)]
    refuse_mixed_users(dialogues)
    emotions = {d.dialogue_id: d.emotion_final for d in dialogues} if transcripts else None
    appraiser = named(dialogues[0].simulator) if dialogues else ""
    try:
        answered = judged(found.rows)
        if answered.study:
            refuse_other_words(answered.study, dialogues)
        made = human_report(answered, settings.evaluation.bootstrap_samples, settings.seed, emotions, appraiser)
    except ValueError as error:
        raise BadFile(f"{answers}: {error}") from error
    text = markdown(made)
    write_text_atomically(page, text)
    write_json(numbers, made.as_json())
    where = _track(answers, made, (page, numbers), settings) if track else ""
    typer.echo(f"{text}\n{page}, {numbers}{where}")


def _hold_open(
    transcripts: tuple[Path, Path] | None,
    policies: tuple[str, str] | None,
    *,
    variants: tuple[str, str] | None,
    answers: Path | None,
    raters: str | None,
    personas: Path | None,
    host: str,
    port: int,
    params: Path,
) -> None:
    """Serve the page until Ctrl-C: pairs of `transcripts`, talks with `policies`, each with the overlay of its variant."""
    from contextlib import ExitStack

    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import file_of_variant, read_transcripts
    from rlver.tasks.runtime.servers import free_port
    from rlver.tasks.runtime.web import check_host
    from rlver.tasks.studies.blind.answer_file import AnswerFile
    from rlver.tasks.studies.blind.comparing import Comparing, pairs_of, study_of
    from rlver.tasks.studies.blind.page import Page, known_name
    from rlver.tasks.studies.blind.serving import OPEN_TALKS, hidden_models, now, serve, while_open
    from rlver.tasks.studies.blind.talking import Talking, TalkSpeaker

    names = None if raters is None else [name for name in raters.split(",") if name.strip()]
    if names == []:
        raise ValueError("--raters needs a name, got none")
    for name in names or ():
        known_name(name)  # what nobody can be called is told before anything is loaded
    try:
        check_host(host)
        settings = load_settings(params)
        options.refuse_twice([file_of_variant(file) or file for file in transcripts or ()])
        compared = None if transcripts is None else [(str(file), read_transcripts(file)) for file in transcripts]
        models = hidden_models(policies, variants, params) if policies else {}
        cards = _cards(personas) if models else []
        sides = transcripts or [model.policy for model in models.values()]
        answers = answers or ANSWERS / f"{'-vs-'.join(map(_stem, sides))}.jsonl"
        free_port(port, host)  # an address that is not this machine's is told before a file is made
        with ExitStack() as stack:
            file = stack.enter_context(AnswerFile(answers, typer.echo))
            comparing = talking = None
            if compared is not None:
                (name_a, a), (name_b, b) = compared
                pairing = pairs_of(a, b)
                blind = settings.blind
                study = study_of(_told_apart(name_a, a, name_b, b), pairing.pairs, settings.seed, blind.pairs, blind.overlap)
                file.begin(study)
                comparing = Comparing(pairing.pairs, study, file, now)
                left_out = f"; {pairing.left_out} dialogues have no partner or failed" if pairing.left_out else ""
                typer.echo(f"{len(pairing.pairs)} pairs, {min(len(pairing.pairs), blind.pairs)} for each person{left_out}")
            if models:
                typer.echo("loading the models of the talks …")
            talks = {side: stack.enter_context(model.open()) for side, model in models.items()}
            if talks:
                speakers = {side: TalkSpeaker(models[side].name, talk.policy) for side, talk in talks.items()}
                talking = Talking(speakers, file, now, settings.seed, OPEN_TALKS, typer.echo)
            page = Page(comparing, talking, names, cards)
            typer.echo(f"answers are saved in {answers}, with the names that people give")
            serve(page.app(while_open(talks)), host, free_port(port, host), typer.echo)
    except KeyboardInterrupt:
        typer.echo("stopped")


def _track(answers: Path, made: HumanReport, artifacts: Sequence[Path], settings: Settings) -> str:
    """The end of a sentence that names the run."""
    from rlver.tasks.runtime.environment import NoProject
    from rlver.tasks.tracking import records
    from rlver.tasks.tracking.recorder import log_report
    from rlver.tasks.tracking.store import TrackingUnavailable

    try:
        root, where = environment.opened()
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in artifacts)).hexdigest()
        told = {"answers": str(answers), "seed": str(settings.seed), "bootstrap_samples": str(settings.evaluation.bootstrap_samples)}
        if made.compared:
            told |= {"a": made.compared.a, "b": made.compared.b, "simulator": made.compared.simulator, "appraiser": made.compared.appraiser}
        told |= {f"talked_{number}": f"{one.a} (a), {one.b} (b)" for number, one in enumerate(made.talked)}
        plain = made.as_json()
        numbers = plain | {"talked": {str(number): one for number, one in enumerate(plain["talked"])}}
        metrics = {name: value for name, value in records.flat_numbers(numbers).items() if not name.startswith("revised")}
        run = log_report(root, where.tracking_uri, "blind", digest, told, metrics, artifacts)
    except (NoProject, TrackingUnavailable) as error:
        typer.echo(f"not in MLflow: {error}; the files are complete, and running this again logs them", err=True)
        return ""
    return f"; MLflow run {run}"


def _cards(personas: Path | None) -> list[str]:
    """How it began for each persona, and what they say first: no need is named. None where there is no file."""
    from rlver.tasks.runtime.people import known_personas

    begun = ((one.background.partition("\n\n")[0], one.first_line) for one in known_personas(personas))
    return [f"{beginning}\n\nYou could begin: {line}" if line else beginning for beginning, line in begun]


def _told_apart(name_a: str, a: Sequence[Dialogue], name_b: str, b: Sequence[Dialogue]) -> tuple[str, str]:
    """The policies' names, or the files' where those are not one and another."""
    policies = [sorted({dialogue.policy for dialogue in side}) for side in (a, b)]
    if all(len(names) == 1 for names in policies) and policies[0] != policies[1]:
        return policies[0][0], policies[1][0]
    return name_a, name_b


def _stem(name: Path | str) -> str:
    """What a file of answers calls a transcript or a policy."""
    last = str(name).rstrip("/").rpartition("/")[2] or str(name)
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in last.removesuffix(".jsonl"))
