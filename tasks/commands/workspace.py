"""`rlver init`: a folder in which an installed `rlver` runs the whole pipeline, without the checkout.

What is laid out are the checkout's own files: rlver/workspace/ has links to them, which the wheel holds as files. (Under other names, or DVC
would take them for a second project.) One thing differs. Code is no file of a workspace, so its graph depends on code.json instead
(tasks/runtime/installed.py).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import installed

TEMPLATES = installed.PACKAGE / "workspace"
FILES = {
    "params.yaml": "params.yaml",
    "params": "params",
    "pipeline.yaml": "dvc.yaml",
    "paper_pipeline.yaml": "paper/pipeline.yaml",
    "paper_runs.yaml": "paper/runs.yaml",
    "recipes_pipeline.yaml": "recipes/pipeline.yaml",
    "recipes_verl": "recipes/verl",
    "pretrained_pipeline.yaml": "pretrained/pipeline.yaml",
    "bigger_pipeline.yaml": "bigger/pipeline.yaml",
    "imported_readme": "imported/README.md",
    "prefect.yaml": "prefect.yaml",
    "dvc_config": ".dvc/config",
    "dvcignore": ".dvcignore",
    "gitignore": ".gitignore",
    "env_example": ".env.example",
}
_CODE_LINES = re.compile(r"^( *- )(?:components|tasks|flows)/\S+\n(?: *- (?:components|tasks|flows)/\S+\n)*", re.MULTILINE)
_CODE_PATH = re.compile(r"\b(?:components|tasks|flows)/[\w./-]+(?=\})")


def register(app: typer.Typer) -> None:
    app.command()(init)


def init(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.")]) -> None:
    """Lay out a workspace: parameters, graph and deployments. Then `cd DIR`, `rlver run`."""
    lay_out(folder)
    typer.echo(f"{folder}: a workspace of rlver {installed.version('rlver')}. Next: cd {folder}, then rlver run (--dry-run shows the plan)")


def is_environment(folder: Path) -> bool:
    """Whether Python packages are installed there, by venv, uv or conda; of the project it is no part."""
    return folder.name == ".venv" or any((folder / mark).exists() for mark in ("pyvenv.cfg", "conda-meta"))


def lay_out(folder: Path) -> None:
    """Write the files of a workspace. Raises ValueError if `folder` holds anything already; nothing is ever overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a new or an empty folder")
    inside = folder.iterdir() if folder.exists() else ()
    there = sorted(path.name for path in inside if path.name != ".git" and not is_environment(path))
    if there:
        raise ValueError(f"{folder} is not empty (it holds {', '.join(there[:3])}): name a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        if (TEMPLATES / name).is_dir():
            shutil.copytree(TEMPLATES / name, folder / path)
        else:
            (folder / path).write_text(without_code((TEMPLATES / name).read_text(encoding="utf-8")), encoding="utf-8")
    (folder / installed.CODE).write_text(installed.code(), encoding="utf-8")
    if not _in_git(folder):  # DVC would not open the folder
        with (folder / ".dvc" / "config").open("a", encoding="utf-8") as config:
            config.write("    no_scm = true\n")


def without_code(text: str) -> str:
    """The same file for a folder without the code."""
    text = _CODE_LINES.sub(rf"\g<1>{installed.CODE}\n", text)
    return _CODE_PATH.sub(str(installed.CODE), text)


def _in_git(folder: Path) -> bool:
    """Whether `folder` is in a git repository: a new one of its own, where git is there and no other holds it."""
    try:
        inside, ignored = (
            subprocess.run(("git", *asked), cwd=folder, capture_output=True, check=False).returncode == 0
            for asked in (("rev-parse", "--is-inside-work-tree"), ("check-ignore", "-q", "."))  # DVC passes over what git ignores
        )
        return (inside and not ignored) or subprocess.run(
            ("git", "init", "-q"), cwd=folder, capture_output=True, check=False
        ).returncode == 0
    except OSError:  # no git
        return False
