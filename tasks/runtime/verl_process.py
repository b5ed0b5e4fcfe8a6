"""verl's trainer as a child of the stage `train`: started, followed, and ended with all that it started, its Ray too.

It runs in an environment of its own (`train.verl_python`) and keeps its checkpoints in the stage's scratch folder, so the same command goes on from
the last whole one. Its last one becomes an ordinary policy folder by verl's own merger.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil

from rlver.components.domain.files import write_jsonl, write_text_atomically
from rlver.components.personas.schema import validate_file
from rlver.components.policy.load import check_policy
from rlver.components.policy.weights import put_in_place
from rlver.components.settings.settings import Settings
from rlver.components.training import verl_engine
from rlver.components.training.curriculum import hold_out, persona_order
from rlver.components.training.curves import CurveFile
from rlver.components.training.section import TrainSettings, UpdateParameters
from rlver.components.training.verl_engine import Places
from rlver.components.training.watch import TrainingDiverged, TrainingLimits
from rlver.tasks.runtime import environment, processes, servers

INSTALL = "python3.11 -m venv .venv-verl && .venv-verl/bin/pip install 'verl[vllm]' 'rlver[verl]'"
LAST_LINES, SEARCHED_LINES = 15, 500  # of verl's output: shown after a failure, and where its cause is looked for
END_S = 10.0  # for what outlives verl, after a signal


def lacking(train: TrainSettings, root: Path) -> str | None:
    """What this machine lacks for verl, in one line; None where it has all, or verl does not train. The driver counts its GPUs: our torch may see none."""
    if train.engine != "verl":
        return None
    if version(root / train.verl_python) is None:
        return f"train.engine: verl needs verl and rlver in train.verl_python = {train.verl_python}; make it: {INSTALL}"
    name = f"{train.verl_recipe}/{train.algorithm}.yaml"
    if not (root / name).is_file():
        return f"train.engine: verl needs its recipe {name}; copy recipes/verl from the repository, or correct train.verl_recipe"
    if (there := environment.gpus()) < train.verl_gpus:
        return f"train.engine: verl needs {train.verl_gpus} GPUs (train.verl_gpus), and this machine has {there}"
    return None


def identity(train: TrainSettings) -> dict[str, str | None]:
    """What counts of verl's environment for what a training is; nothing where verl does not train."""
    return {"verl": version(Path(train.verl_python))} if train.engine == "verl" else {}


def version(python: Path) -> str | None:
    """Of verl in this environment; None where it, or rlver, is not there."""
    program = "from importlib.metadata import version; version('rlver'); print(version('verl'))"
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run((str(python), "-c", program), capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return None


def train(settings: Settings, variant: str, personas: Path, base: Path, out: Path, work: Path) -> None:
    """Train with verl and leave the policy at `out`, the curves in `work`/curves. `work` belongs to this training alone.

    Raises RuntimeError where verl ends early, TrainingDiverged, KeyboardInterrupt; the same call then goes on.
    """
    parameters, places, root = settings.train, Places(base.resolve(), work.resolve() / "verl"), Path.cwd()
    update = UpdateParameters(parameters, settings.reward, settings.policy, settings.simulator.max_turns, settings.seed)
    tokenizer, ppo = check_policy(base), parameters.algorithm == "ppo"
    learning, watched = hold_out(validate_file(personas), parameters.evaluation_personas, settings.seed)
    persona_order(learning, 1, parameters.personas_per_step, settings.seed)  # raises ValueError where they are too few
    for path, people in ((places.learning, learning), (places.watched, watched)):
        write_jsonl(path, [one.model_dump(mode="json") for one in people])
    loops = verl_engine.agent_loops(root / "params.yaml", variant, parameters.difficulties[0], settings.simulator.difficulty)
    write_text_atomically(places.loops, loops)
    done = verl_engine.go_on_from(places.checkpoints, ppo)
    follower = Follower(settings, places.metrics, CurveFile(work / "curves" / "train"), CurveFile(work / "curves" / "evaluation"))
    follower.begin(done)
    if done and done not in [row["step"] for row in follower.steps.rows()]:
        print(f"verl ended before it told the numbers of step {done}: the curves lack them", flush=True)
    python = root / parameters.verl_python
    if done < parameters.steps:
        print(f"verl {version(python)} trains from step {done}; what it says is in {places.folder / 'verl.log'}", flush=True)
        recipe = ("--config-path", str((root / parameters.verl_recipe).resolve()), "--config-name", parameters.algorithm)
        told = verl_engine.overrides(update, variant, places, begins=done == 0)
        with _ray(parameters.verl_nodes) as (extra, rays):
            _run((str(python), "-m", "verl.trainer.main_ppo", *recipe, *told, *rays), places.folder / "verl.log", extra, follower)
        follower.read()
    newest = verl_engine.newest_whole(places.checkpoints, ppo)
    if (done := verl_engine.step_of(newest) if newest else 0) < parameters.steps or newest is None:
        raise RuntimeError(f"training stopped at step {done} of {parameters.steps}; run the same command again")
    part = out.resolve().with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        merger = ("merge", "--backend", "fsdp", "--local_dir", str(newest / "actor"), "--target_dir", str(part))
        _run((str(python), "-m", "verl.model_merger", *merger), places.folder / "merger.log", {}, None)
        tokenizer.save_pretrained(part)
        check_policy(part)
        put_in_place(part, out.resolve())
    finally:
        shutil.rmtree(part, ignore_errors=True)


@dataclass
class Follower:
    """Puts the lines of verl's metrics into our curves as they come, and ends a training that has gone wrong."""

    settings: Settings
    metrics: Path
    steps: CurveFile
    checks: CurveFile
    _read: int = 0  # bytes

    def begin(self, done: int) -> None:
        """Steps after `done` will be done again. verl begins a new file of metrics each time."""
        self.metrics.unlink(missing_ok=True)
        self._read = 0
        for curve in (self.steps, self.checks):
            curve.keep_until(done)

    def read(self) -> None:
        """Raises TrainingDiverged."""
        if not self.metrics.is_file():
            return
        with self.metrics.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        for line in whole.decode("utf-8", errors="replace").splitlines():
            self._record(line)

    def _record(self, line: str) -> None:
        step, trained, checked = verl_engine.rows_of(line, self.settings.policy, self.settings.reward.format_gate)
        train = self.settings.train
        if checked:
            self.checks.record(step, checked)
            if (emotion := checked.get("emotion_mean")) is not None:
                print(f"held-out personas at step {step}: emotion {emotion:.1f}", flush=True)
        if trained:
            self.steps.record(step, trained)
            print(f"step {step}/{train.steps}  {verl_engine.gauges(trained)}", flush=True)
            limits = TrainingLimits(train.min_entropy, train.max_repeat_rate, train.max_cut_off_rate, math.inf)
            if problem := limits.broken(trained):
                raise TrainingDiverged(f"step {step}: {problem}")


@contextmanager
def _ray(nodes: int) -> Iterator[tuple[Mapping[str, str], Sequence[str]]]:
    """(variables, overrides) for a Ray of verl's own on this machine, with a key and a folder that goes with it; on more nodes, the one that runs."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_COLOR_PREFIX": "0"}
    if nodes > 1:
        yield quiet, ("+ray_kwargs.ray_init.address=auto",)
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rlver-ray-", ignore_cleanup_errors=True))
        told = {"address": "local", "include_dashboard": "false", "_temp_dir": f"'{folder}'"}
        key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        yield quiet | key, [f"+ray_kwargs.ray_init.{name}={value}" for name, value in told.items()]


def _run(command: Sequence[str], log: Path, extra: Mapping[str, str], follower: Follower | None) -> None:
    """Run one of verl's programs to its end; nothing of it is left, however it ends. Raises RuntimeError in one line, after its last lines."""
    mark = uuid4().hex
    surroundings = environment.for_child({**extra, "RLVER_RUN": mark, "PYTHONPATH": ""})
    with_parent = (command[0], "-c", processes.WITH_ITS_PARENT, str(os.getpid()), *command[1:])
    last: deque[str] = deque(maxlen=SEARCHED_LINES)
    with log.open("a", encoding="utf-8") as output:

        def on_line(line: str) -> None:
            print(line, file=output, flush=True)
            last.append(line)
            if follower is not None:
                follower.read()

        try:
            status = processes.run(with_parent, Path.cwd(), surroundings, on_line)
        finally:
            _end_all(mark)
    if status:
        print(*list(last)[-LAST_LINES:], sep="\n", file=sys.stderr, flush=True)
        said = servers.cause("\n".join(last))
        raise RuntimeError(f"{command[2]} ended with status {status}: {said}; log: {log}; run the same command again to go on")


def _end_all(mark: str) -> None:
    """End every process that carries the mark: workers of Ray have sessions of their own."""
    left = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("RLVER_RUN") == mark:
                process.terminate()
                left.append(process)
    _, stubborn = psutil.wait_procs(left, timeout=END_S)
    for process in stubborn:
        with suppress(psutil.Error):
            process.kill()
