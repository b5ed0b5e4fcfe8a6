"""The dialogues that are compared, and what another appraiser says of them.

Every shift has a transcript file of its own, in a folder named by what decides the dialogues; a file that is there is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import AppraiserKind, Simulator
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.replay.reappraisal import final_emotions
from rlver.components.rollout.episode import Job, TooManyFailures
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import Settings, digest_of, load_settings, with_simulator
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import VERSION, ScriptedAppraiser, ScriptedSimulator
from rlver.components.users.shifts.users import SHIFTS, UNSHIFTED, users
from rlver.tasks.runtime.appraisers import appraiser_of, is_appraiser, is_same_appraiser, refuse_as_second
from rlver.tasks.runtime.assembly import simulator
from rlver.tasks.runtime.conversing import as_evaluated, fingerprint, hold_and_write, jobs_of
from rlver.tasks.runtime.policies import PolicyCandidate, candidate
from rlver.tasks.runtime.progress import DialogueProgress
from rlver.tasks.studies.robustness.robustness import SecondOpinion, second_opinion

SCRIPTED = "scripted"


@dataclass(frozen=True)
class Plan:
    """Who talks with whom. `users`: row of the report -> user, the unshifted one first."""

    personas: Path
    people: Sequence[Persona]
    users: Mapping[str, Simulator]
    repeats: int | None
    folder: Path


def shared_users(spoken: Sequence[Settings]) -> Settings:
    """The settings of the first policy, whose users are those of all. Raises ValueError where they differ, or where a language model plays them."""
    first, *others = spoken
    if any(one.simulator != first.simulator for one in others):
        raise ValueError("--own-users: the overlays of these policies name different users: compare policies with the same users")
    if first.simulator.models:
        raise ValueError("--own-users: users whom a language model plays are not shifted: leave --own-users out")
    return first


def chosen_users(shifts: Sequence[str], settings: Settings, own: bool) -> dict[str, Simulator]:
    """The users of the rows asked for, by full name (`typos-2`) or without the version; all where none is named.

    Scripted ones, or, where `own`, those that the settings name. Raises ValueError for a shift that they do not have.
    """
    simulated = settings.simulator
    of, speaker = (partial(simulator, settings), simulated.parts[-1].name) if own else (ScriptedSimulator, SCRIPTED)
    every = users(simulated.difficulty, of, scripted_words=speaker == SCRIPTED)
    short = {shift.name: shift.tag for shift in SHIFTS}
    wanted = [short.get(name, name) for name in shifts]
    if unknown := sorted(name for name in shifts if short.get(name, name) not in every):
        raise ValueError(f"unknown shift {unknown[0]!r}: choose from {', '.join(name for name in every if name != UNSHIFTED)}")
    return {name: user for name, user in every.items() if not wanted or name in wanted or name == UNSHIFTED}


def opinions(named: Sequence[str], first: SimulatorTag, settings: Settings) -> list[str]:
    """The second opinions that are asked for, by default every scripted user but the first. Raises as `appraiser_of`, before hours of dialogues."""
    asked = list(named) or [f"{SCRIPTED}:{name}" for name in DIFFICULTIES if not is_same_appraiser(ScriptedAppraiser(name).tag, first)]
    for one in asked:
        if is_appraiser(one):
            if is_same_appraiser(appraiser_of(one, settings).appraiser.tag, first):
                raise ValueError(f"--second-opinion {one}: this is the first one too; name another appraiser")
        elif not Path(one).exists():
            raise BadFile(f"{one}: neither an appraiser (scripted[:DIFFICULTY], llm[:DIFFICULTY]) nor transcripts appraised by another")
        else:
            refuse_as_second(f"--second-opinion {one}", (dialogue for _, dialogue in _transcripts(Path(one))), [first])
    return asked


def candidate_as_spoken_to(policy: str, params: Path, kind: str | None, difficulty: str | None) -> tuple[PolicyCandidate, Settings]:
    """`VARIANT=POLICY`, or POLICY: a folder with the name of an overlay is spoken to as that overlay says.

    `kind` of user and `difficulty` (None: those of the overlay) say with whom it talks.
    """
    variant, _, where = policy.rpartition("=")
    name = Path(where).name
    if not variant and (params.parent / "params" / f"{name}.yaml").is_file():
        variant = name
    settings = as_evaluated(with_simulator(load_settings(params, variant or None), kind, difficulty))
    return candidate(where, settings), settings


def held_dialogues(who: PolicyCandidate, settings: Settings, plan: Plan) -> tuple[dict[str, Path], dict[str, str]]:
    """The transcript of every shift, held now where there is none; and why a shift has none, where too many dialogues failed."""
    jobs = jobs_of(plan.people, who.name, settings.seed, plan.repeats or settings.evaluation.repeats)
    tag = plan.users[UNSHIFTED].tag
    user = VERSION if tag.kind == SCRIPTED else tag.model_dump()
    identity = digest_of(
        {"of": fingerprint(settings, plan.personas, who.location, who.folder()), "user": user, "jobs": [job.dialogue_id for job in jobs]}
    )
    folder = plan.folder / f"{who.name.replace('/', '_')}-{identity}"
    files = {shift: folder / f"{shift}.jsonl" for shift in plan.users}
    todo = [shift for shift, path in files.items() if not path.is_file()]
    missing: dict[str, str] = {}
    if not todo:
        return files, missing
    with who.open_conversation(settings, min(settings.evaluation.concurrency, len(jobs))) as talk:
        progress = DialogueProgress(len(jobs) * len(todo), costs=talk.costs)
        progress.say(f"{who.name}: {len(jobs)} dialogues with each of {len(todo)} kinds of users ({len(files) - len(todo)} done before)")
        with_users = {shift: [Job(job.dialogue_id, job.persona, job.seed, plan.users[shift]) for job in jobs] for shift in todo}
        talk.can_hold(job for with_user in with_users.values() for job in with_user)  # before hours of dialogues
        for shift, with_user in with_users.items():
            try:
                hold_and_write(talk, with_user, files[shift], identity, settings.rollout.max_failure_rate, progress)
            except TooManyFailures as error:
                missing[shift] = str(error)
    return {shift: path for shift, path in files.items() if shift not in missing}, missing


def opinion_of(named: str, held: Mapping[str, Sequence[Dialogue]], people: Sequence[Persona], settings: Settings) -> SecondOpinion:
    """How far another appraiser, or transcripts that one has appraised, put the unshifted dialogues in the same order."""
    tag = next(one.simulator for dialogues in held.values() for one in dialogues)
    first = f"{tag.kind}:{tag.difficulty}"
    name, emotions = _asked(named, held, people, settings) if is_appraiser(named) else (named, _recorded(Path(named), held))
    return second_opinion((first, name), held, emotions, Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed))


def _asked(
    named: str, held: Mapping[str, Sequence[Dialogue]], people: Sequence[Persona], settings: Settings
) -> tuple[str, dict[str, dict[str, int]]]:
    persona_of = {persona.persona_id: persona for persona in people}
    asked = appraiser_of(named, settings)

    async def emotions(appraiser: AppraiserKind) -> dict[str, dict[str, int]]:
        return {policy: await final_emotions(appraiser, dialogues, persona_of) for policy, dialogues in held.items()}

    return asked.appraiser.name, asked.run(emotions)


def _recorded(place: Path, held: Mapping[str, Sequence[Dialogue]]) -> dict[str, dict[str, int]]:
    """The final emotions in a transcript file, or in all of a folder, by policy and dialogue: of the same words, for all shifts share ids.

    Raises BadFile for a dialogue with two emotions."""
    emotions: dict[object, int] = {}
    for file, one in _transcripts(place):
        if one.emotion_final is not None and emotions.setdefault(_said(one), one.emotion_final) != one.emotion_final:
            raise BadFile(f"{file}: {one.dialogue_id} ends otherwise in another file of {place}; name one file")
    return {
        policy: {one.dialogue_id: emotions[_said(one)] for one in dialogues if _said(one) in emotions} for policy, dialogues in held.items()
    }


def _transcripts(place: Path) -> Iterator[tuple[Path, Dialogue]]:
    """Of a file, or of all in a folder."""
    for file in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]:
        for one in load_transcripts(file):
            yield file, one


def _said(one: Dialogue) -> tuple[str, tuple[tuple[str, str], ...]]:
    return one.dialogue_id, tuple((turn.user, turn.assistant) for turn in one.turns)
