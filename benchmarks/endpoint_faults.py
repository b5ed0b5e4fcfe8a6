"""200 dialogues with an endpoint that fails three times in ten: `python -m benchmarks.endpoint_faults [--dialogues 200] [--turns 4]`.

Faults are 429, 500, no answer at all, a cut or malformed body, another language, nothing, no score. Three runs: without faults, with them,
and with them but killed (kill -9) halfway and started again. Counted is at the server. Exit status 1 when a bar is not held: all dialogues
finish, none is scored from a bad answer, at most twice the calls, and nothing that was answered before the kill is asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.async_rollouts import PARAMETERS, parameters, policy
from benchmarks.llm_server import counts, key_of, running
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.transcript import Dialogue
from rlver.components.endpoint.opening import EndpointRun, stored_answers
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.replay.verification import first_difference
from rlver.components.rollout.episode import Job
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings
from rlver.components.users.llm.simulator import LLMSimulator
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.connections import Connection
from rlver.tasks.runtime.conversing import hold_and_write
from rlver.tasks.runtime.environment import ServerAddress
from rlver.tasks.runtime.progress import DialogueProgress

REPOSITORY = Path(__file__).parents[1]
MAX_FAILURE_RATE = 0.05
QUICK: dict[str, Any] = {"concurrency": 32, "answer_timeout_s": 4.0, "attempts": 8, "backoff_first_s": 0.1, "backoff_most_s": 1.0}


def jobs(dialogues: int) -> list[Job]:
    people = compose_personas(load_library(), 7, 200, 8)[0]
    return [Job(f"d{number}", people[number % len(people)], 7 + number // len(people)) for number in range(dialogues)]


def hold(url: str, folder: Path, dialogues: int, turns: int, concurrency: int | None, model: Path | None) -> None:
    """What `converse` does: answers and transcripts in `folder`. Dialogues at once, if not as many as calls in QUICK."""
    settings = load_settings(REPOSITORY / "params.yaml", "base")
    at_once, numbers = (QUICK["concurrency"], QUICK) if concurrency is None else (concurrency, {})
    supporter = policy(model, settings, at_once)
    server = ServerAddress(url, "URL", "KEY", lambda: None)
    connection = Connection(
        parameters(settings, url, **numbers), server, ["user-model"], folder / "answers.db", False, EndpointRun("bench")
    )
    user = LLMSimulator(connection, "vanilla", PARAMETERS, settings.simulator.emotion_start)
    rules = EmotionRules(max_turns=turns)
    talk = Conversation(user, supporter, rules, at_once, connection)
    progress = DialogueProgress(dialogues, costs=talk.costs)
    hold_and_write(talk, jobs(dialogues), folder / "out.jsonl", "bench", MAX_FAILURE_RATE, progress)


def in_a_child(url: str, folder: Path, dialogues: int, turns: int, *more: str) -> subprocess.Popen[bytes]:
    arguments = ("--child", url, str(folder), "--dialogues", str(dialogues), "--turns", str(turns), *more)
    return subprocess.Popen((sys.executable, "-m", "benchmarks.endpoint_faults", *arguments), cwd=REPOSITORY)


@dataclass(frozen=True)
class Outcome:
    """`asked_again`: of what was answered and stored before the kill."""

    calls: int
    faulty: Mapping[str, int]
    dialogues: list[Dialogue]
    from_bad_answers: int
    stored_at_kill: int = 0
    asked_again: int = 0


def run(faults: float, dialogues: int, turns: int, kill_after_calls: int | None = None) -> Outcome:
    """One experiment in folders and processes of its own."""
    with running("--faults", str(faults)) as url, tempfile.TemporaryDirectory() as name:
        folder, stored, before = Path(name), set[str](), dict[str, int]()
        if kill_after_calls is not None:
            child = in_a_child(url, folder, dialogues, turns)
            while counts(url)["calls"] < kill_after_calls and child.poll() is None:
                time.sleep(0.1)
            child.kill()
            child.wait()
            stored, before = _stored(folder / "answers.db"), _settled(url)
        if in_a_child(url, folder, dialogues, turns).wait():
            raise RuntimeError("the dialogues did not finish")
        found, held = counts(url), load_transcripts(folder / "out.jsonl", EmotionRules(max_turns=turns))
        again = sum(found["asked"][key] > before[key] for key in stored)
        return Outcome(found["calls"], found["faulty"], held, _from_bad_answers(held, folder, dialogues), len(stored), again)


def _settled(url: str) -> dict[str, int]:
    """How often each question was asked, once the server has read what was on its way when the child was killed."""
    calls = -1
    while (now := counts(url))["calls"] != calls:
        calls = now["calls"]
        time.sleep(1.0)
    asked: dict[str, int] = now["asked"]
    return asked


def _stored(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        requests = [json.loads(row[0]) for row in connection.execute("SELECT request FROM answers")]
    return {key_of(request["messages"], request["seed"]) for request in requests}


def _from_bad_answers(held: list[Dialogue], folder: Path, dialogues: int) -> int:
    """Dialogues with a text that no good answer has, or that are not what the stored answers give."""
    people = {job.persona.persona_id: job.persona for job in jobs(dialogues)}
    with stored_answers(folder / "answers.db", EndpointRun("check")) as endpoint:
        user = LLMSimulator(endpoint, "vanilla", PARAMETERS, EmotionRules().start)
        return sum(
            not _is_good(dialogue) or first_difference(dialogue, people, lambda tag, is_appraiser: user) is not None for dialogue in held
        )


def _is_good(dialogue: Dialogue) -> bool:
    felt = all(turn.appraisal and turn.appraisal.content.startswith("They asked how my week was") for turn in dialogue.turns)
    return felt and all(turn.user.startswith("ugh, same as ever.") for turn in dialogue.turns[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=200)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--faults", type=float, default=0.3)
    parser.add_argument("--concurrency", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        hold(options.child[0], Path(options.child[1]), options.dialogues, options.turns, options.concurrency, options.model)
        return 0
    size = (options.dialogues, options.turns)
    plain = run(0.0, *size)
    faulty = run(options.faults, *size)
    killed = run(options.faults, *size, kill_after_calls=faulty.calls // 2)
    bad = 0
    for name, outcome in (("without faults", plain), ("with faults", faulty), ("with faults, killed halfway", killed)):
        failed = sum(dialogue.error is not None for dialogue in outcome.dialogues)
        print(
            f"{name}: {len(outcome.dialogues)} dialogues finished, {failed} of them unscorable, {outcome.from_bad_answers} from bad answers;"
            f" {outcome.calls} calls = {outcome.calls / plain.calls:.2f} x without faults, {sum(outcome.faulty.values())} faults"
            f" {dict(sorted(outcome.faulty.items()))}"
        )
        bad += len(outcome.dialogues) != options.dialogues or bool(outcome.from_bad_answers) or outcome.calls > 2 * plain.calls
    print(f"stored at the kill: {killed.stored_at_kill} answers; of these asked again: {killed.asked_again}")
    return int(bad > 0 or killed.asked_again > 0 or not killed.stored_at_kill)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
