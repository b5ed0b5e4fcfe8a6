"""What `rlver blind` does: hold the page open over two transcripts, two models or both, and report what people answered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from components.dialogue.transcript import Dialogue
from components.evaluation.blind.answers import read_answers
from components.evaluation.blind.judgements import judged
from components.evaluation.blind.orders import Side
from components.evaluation.blind.pairs import pairs_of
from components.evaluation.blind.report import HumanReport, human_report
from components.evaluation.blind.wording import markdown
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile, write_json, write_text_atomically
from components.settings import Settings, load_settings
from tasks import environment, records
from tasks.transcript_files import read_transcripts

if TYPE_CHECKING:
    from components.personas.persona import Persona
    from tasks.policies import Candidate

ANSWERS = Path("blind")
TEST_PERSONAS = Path("data/personas/test.jsonl")

Say = Callable[[str], None]


def hold_open(
    transcripts: tuple[Path, Path] | None,
    policies: tuple[str, str] | None,
    variants: tuple[str, str] | None,
    answers: Path | None,
    raters: Sequence[str] | None,
    personas: Path | None,
    host: str,
    port: int,
    params: Path,
    say: Say,
) -> None:
    """Serve the page until Ctrl-C: pairs of `transcripts`, talks with `policies`, each with the overlay of its variant."""
    from tasks.blind import serving
    from tasks.blind.answer_file import AnswerFile
    from tasks.blind.comparing import Comparing, study_of
    from tasks.blind.page import Page
    from tasks.blind.talking import Speaker, Talking
    from tasks.servers import free_port

    serving.check_host(host)
    settings = load_settings(params)
    compared = None if transcripts is None else [(str(file), read_transcripts(file)) for file in transcripts]
    candidates = _candidates(policies, variants, params)
    names = transcripts or policies
    assert names is not None
    answers = answers or ANSWERS / f"{_stem(names[0])}-vs-{_stem(names[1])}.jsonl"
    with ExitStack() as stack:
        file = stack.enter_context(AnswerFile(answers, say))
        comparing = talking = None
        if compared is not None:
            (name_a, a), (name_b, b) = compared
            pairing = pairs_of(a, b)
            blind = settings.blind
            study = study_of(_told_apart(name_a, a, name_b, b), pairing.pairs, settings.seed, blind.pairs, blind.overlap)
            file.begin(study)
            comparing = Comparing(pairing.pairs, study, file, serving.now)
            left_out = f"; {pairing.left_out} dialogues have no partner or failed" if pairing.left_out else ""
            say(f"{len(pairing.pairs)} pairs, {min(len(pairing.pairs), blind.pairs)} for each person{left_out}")
        if candidates:
            say("loading the models of the talks …")
        talks = stack.enter_context(serving.opened(candidates))
        if policies is not None:
            speakers: dict[Side, Speaker] = {"a": Speaker(policies[0], talks["a"].policy), "b": Speaker(policies[1], talks["b"].policy)}
            talking = Talking(speakers, file, serving.now, settings.seed, serving.OPEN_TALKS, say)
        page = Page(comparing, talking, raters, _cards(personas) if candidates else ())
        say(f"answers are saved in {answers}, with the names that people give")
        serving.serve(page.app(serving.while_open(talks)), host, free_port(port), say)


def report(answers: Path, transcripts: Sequence[Path], out: Path | None, track: bool, params: Path, warn: Say) -> str:
    """Write the report beside the answers (or at `out`, without its ending) as Markdown and JSON; the Markdown, and where it is.

    A tracker that cannot be reached is a warning: the files are the record.
    """
    settings = load_settings(params)
    found = read_answers(answers)
    if found.cut_off_bytes:
        warn(
            f"{answers}: the last line was cut off while it was written ({found.cut_off_bytes} bytes); it was never confirmed and is left out"
        )
    emotions = {d.dialogue_id: d.emotion_final for file in transcripts for d in load_transcripts(file)} if transcripts else None
    try:
        made = human_report(judged(found.rows), settings.evaluation.bootstrap_samples, settings.seed, emotions)
    except ValueError as error:
        raise BadFile(f"{answers}: {error}") from error
    stem = out or answers.with_name(answers.name.removesuffix(".jsonl") + ".report")
    text, page, numbers = markdown(made), stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.json")
    write_text_atomically(page, text)
    write_json(numbers, made.as_json())
    where = _track(answers, made, (page, numbers), settings, warn) if track else ""
    return f"{text}\n{page}, {numbers}{where}"


def _track(answers: Path, made: HumanReport, artifacts: Sequence[Path], settings: Settings, warn: Say) -> str:
    """The end of a sentence that names the run."""
    from tasks.environment import NoProject
    from tasks.tracking import TrackingUnavailable, log_report

    try:
        root = environment.project_root()
        uri = environment.prepare(root).tracking_uri
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in artifacts)).hexdigest()
        told = {"answers": str(answers), "seed": str(settings.seed), "bootstrap_samples": str(settings.evaluation.bootstrap_samples)}
        if made.compared:
            told |= {"a": made.compared.a, "b": made.compared.b, "simulator": made.compared.simulator}
        metrics = {name: value for name, value in records.flat_numbers(made.as_json()).items() if not name.startswith("revised")}
        run = log_report(root, uri, "blind", digest, told, metrics, artifacts)
    except (NoProject, TrackingUnavailable) as error:
        warn(f"not in MLflow: {error}; the files are complete, and running this again logs them")
        return ""
    return f"; MLflow run {run}"


def _candidates(policies: tuple[str, str] | None, variants: tuple[str, str] | None, params: Path) -> dict[Side, tuple[Candidate, Settings]]:
    """Who is talked with, found in order before anything is loaded: decoding as in the benchmark, each with its own overlay.

    Folders speak in this process, because a server for rollouts has one model's weights.
    """
    if policies is None:
        return {}
    from tasks.conversing import as_evaluated
    from tasks.dialogue_commands import with_simulator
    from tasks.policies import candidate

    found: dict[Side, tuple[Candidate, Settings]] = {}
    for side, policy, variant in zip(get_args(Side), policies, variants or (None, None), strict=True):
        settings = as_evaluated(with_simulator(load_settings(params, variant), "scripted", None))  # nobody asks a simulated user
        settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"sampler": "transformers"})})
        found[side] = (candidate(policy, settings), settings)
    return found


def _cards(personas: Path | None) -> list[str]:
    """How it began for each persona, and what they say first: no need is named. None where there is no file."""
    from components.personas.schema import validate_file

    file = personas or (TEST_PERSONAS if TEST_PERSONAS.is_file() else None)
    return [] if file is None else [_card(one) for one in validate_file(file)]


def _card(persona: Persona) -> str:
    beginning = persona.background.partition("\n\n")[0]
    return f"{beginning}\n\nYou could begin: {persona.first_line}" if persona.first_line else beginning


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
