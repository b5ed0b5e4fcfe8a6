"""The walk over the chosen stages: one task run each, started as soon as what it needs has ended, at most `jobs` at once.

A policy is scored before the next one is trained, so that a walk that is interrupted leaves finished policies behind.

Only a stage's own work is done in threads. The order, DVC's questions and what goes to MLflow stay in the flow's thread, one after the
other. A stage that fails or is cancelled is a returned state, not an exception, so that a foreseeable failure is one line.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import State, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectConcurrentFuture
from prefect.states import Completed, Failed

from rlver.flows.slots import gpu_slot
from rlver.tasks.graph import dvc
from rlver.tasks.graph import lock as integrity
from rlver.tasks.runtime.processes import LOOK_EVERY_S, Stop
from rlver.tasks.tracking import results
from rlver.tasks.tracking.provenance import Provenance

PAPER_REPORT = "paper_report"  # the stage, and its group
TEMPORARY = "TemporaryFailure"
RESTORED = "an earlier run with the same inputs was restored from DVC's cache"
RETRY_DELAYS_S = [5.0, 60.0]


def _worth_a_retry(_task: object, _task_run: object, state: State[Any]) -> bool:
    """Only what the world broke (killed, unreachable, another DVC at work): the same input fails the same way again."""
    return state.name == TEMPORARY


@dataclass(frozen=True)
class Sharing:
    """How stages share the machine: so many at once, so many GPUs to take turns on, and the hours after which one is stopped."""

    jobs: int = 1
    gpus: int = 0
    limit_h: float | None = None


@task(
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=len(RETRY_DELAYS_S),
    retry_delay_seconds=RETRY_DELAYS_S,
    retry_condition_fn=_worth_a_retry,
)
def bring_up_to_date(root: Path, stage: str, reasons: Sequence[str], sharing: Sharing, stop: Stop, run: str | None) -> State[str]:
    """Run one stage if DVC has a reason to, on a GPU when it is its turn, within its MLflow run if that is known."""
    logger = get_run_logger()
    stop.raise_if_asked()  # Ctrl-C came while this waited to try again
    if not reasons:
        return Completed(name="Cached", message="nothing that this stage depends on has changed")
    logger.info("%s", "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""))
    try:
        with gpu_slot(stage.rpartition(":")[2].partition("@")[0], sharing.gpus, stop):
            outcome = dvc.reproduce(root, stage, logger.info, jobs=sharing.jobs, stop=stop, limit_h=sharing.limit_h, run=run)
    except dvc.StageFailed as failure:
        return Failed(name=TEMPORARY if failure.temporary else "Failed", message=str(failure))
    if outcome == "restored":
        return Completed(name="Cached", message=RESTORED)
    return Completed(name="Completed" if outcome == "ran" else "Cached", message=outcome)


@dataclass
class Walked:
    """What came of the stages: those that ran, those that failed and why, those that could not run because of it."""

    ran: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)


def first_of(waiting: Sequence[dvc.Stage], unfinished: Set[str]) -> dvc.Stage | None:
    """Of the stages that need nothing `unfinished` the one that needs most stages, so is furthest along; of equals the plan's first."""
    ready = (step for step in waiting if not step.needs & unfinished)
    return max(ready, key=lambda step: len(step.needs), default=None)


class Walk:
    """One walk. `reasons`: what DVC says before anything has run; `keep_going`: a failure ends only what needs it."""

    def __init__(
        self,
        root: Path,
        chosen: Sequence[dvc.Stage],
        reasons: Mapping[str, list[str]],
        sharing: Sharing,
        keep_going: bool,
        provenance: Provenance,
    ) -> None:
        self._root, self._reasons, self._sharing, self._keep_going, self._provenance = root, reasons, sharing, keep_going, provenance
        self._chosen, self._waiting = chosen, list(chosen)
        self._running: dict[concurrent.futures.Future[State[Any]], dvc.Stage] = {}
        self._completed: dict[str, State[Any]] = {}
        self._touched = False  # a stage was run: `reasons` is old
        self._stop = Stop()
        self._walked = Walked()

    def take(self) -> Walked:
        """Take every stage that can be taken. Ctrl-C ends the stages that run, all at once, and passes on."""
        try:
            with self._stop.noticing():
                while (step := self._next()) or self._running:
                    self._stop.raise_if_asked()
                    if step:
                        self._begin(step)
                    else:
                        self._await_one()
        except BaseException:
            self._end_all()
            raise
        return self._walked

    def _next(self) -> dvc.Stage | None:
        """The stage to start now, if any. A stage may read what a stage outside `chosen` made, whatever its state."""
        if len(self._running) == self._sharing.jobs or (self._walked.failed and not self._keep_going):
            return None
        return first_of(self._waiting, {step.name for step in (*self._waiting, *self._running.values())})

    def _begin(self, step: dvc.Stage) -> None:
        """Start it, unless what it reads is gone, or is what a failed stage left behind: DVC takes outputs away before a run only."""
        self._waiting.remove(step)
        if self._walked.failed and (absent := [path for path in step.reads if self._is_unmade(path, step)]):
            get_run_logger().warning("%s: not run, because there is no finished %s", step.name, ", ".join(absent))
            self._walked.blocked.append(step.name)
            return
        try:
            reasons = (dvc.changed(self._root, [step.name]) if self._touched else self._reasons).get(step.name, [])
        except dvc.GraphError as error:
            self._note_failure(step, f"{step.name}: {error}")
            return
        within = None
        if reasons:
            self._touched = True
            within = self._provenance.begins(step.name)
        labels = [part for part in (step.group, step.variant) if part]
        run = bring_up_to_date.with_options(name=step.name, task_run_name=step.name, tags=labels)
        given, after = (self._root, step.name, reasons, self._sharing, self._stop, within), self._directly_before(step)
        if self._sharing.jobs == 1:
            self._note(step, run(*given, wait_for=after, return_state=True))
        else:
            future = run.submit(*given, wait_for=after, return_state=False)
            assert isinstance(future, PrefectConcurrentFuture)
            self._running[future.wrapped_future] = step

    def _is_unmade(self, path: str, reader: dvc.Stage) -> bool:
        """Whether it is not there, or a stage that failed or could not run was to write it, or the folder it is in, or something in it.

        The last does not stop the paper's report, which reads what has failed and leaves that out.
        """
        ended = {*self._walked.failed, *self._walked.blocked}
        left_over = [output for step in self._chosen if step.name in ended for output in step.writes]
        within = [] if reader.group == PAPER_REPORT else [output for output in left_over if Path(output).is_relative_to(path)]
        return bool(within) or not (self._root / path).exists() or any(Path(path).is_relative_to(output) for output in left_over)

    def _directly_before(self, step: dvc.Stage) -> list[State[Any]]:
        """The states of the stages that it needs and that no other one of them needs: the edges of the run's graph."""
        further = {name for need in self._chosen if need.name in step.needs for name in need.needs}
        return [self._completed[name] for name in sorted(step.needs - further) if name in self._completed]

    def _await_one(self) -> None:
        """Wait a while for one that runs to end."""
        done, _ = concurrent.futures.wait(self._running, timeout=LOOK_EVERY_S, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            self._note(self._running.pop(future), future.result())

    def _note(self, step: dvc.Stage, state: State[Any]) -> None:
        if not state.is_completed():
            self._note_failure(step, state.message or f"{step.name}: {state.name}")
            return
        self._completed[step.name] = state
        if (state.name != "Cached" or state.message == RESTORED) and (wrong := self._wrong_outputs(step)):
            self._note_failure(step, f"{step.name}: {wrong}")
            return
        results.forget_failure(self._root, step.name)
        if state.name == "Cached":
            get_run_logger().info("%s: up to date%s", step.name, self._provenance.of_cached(step.name))
        else:
            self._walked.ran.append(step.name)
            self._provenance.of_run(step.name)

    def _wrong_outputs(self, step: dvc.Stage) -> str:
        """Why the stage's outputs cannot be relied on, or nothing. What is not what dvc.lock says of it is gone then."""
        try:
            lock = dvc.locked(self._root)
        except dvc.GraphError as error:
            return str(error)
        wrong = integrity.mend(self._root, lock[step.name].outputs) if step.name in lock else []
        return f"DVC's cache was damaged and gave {', '.join(wrong)}; that is removed, so run again" if wrong else ""

    def _note_failure(self, step: dvc.Stage, reason: str) -> None:
        self._provenance.failed(step.name, reason)
        self._walked.failed[step.name] = reason
        if self._keep_going or any(Path(one.pipeline).parts[0] == results.FAILURES.parts[0] for one in self._chosen):
            results.write_failures(self._root, self._walked.failed, [one.name for one in self._chosen])

    def _end_all(self) -> None:
        """Interrupt what runs and wait for its end; a second Ctrl-C kills it."""
        while True:
            self._stop.asked += 1
            try:
                concurrent.futures.wait(self._running)
                return
            except KeyboardInterrupt:
                continue
