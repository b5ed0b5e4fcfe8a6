"""The Dockerfile of the pipeline without Docker: what it may copy, and its steps in an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest


def context(root: Path, to: Path) -> Path:
    """What .dockerignore lets through, links as links."""
    lines = (root / ".dockerignore").read_text().splitlines()
    assert "*" in lines, "all is left out but what is named"
    for name in (line[1:] for line in lines if line.startswith("!")):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, to / name)
    return to


def test_the_image_gets_all_that_the_package_is_made_of_and_no_secrets(repository_root: Path, tmp_path: Path) -> None:
    made = context(repository_root, tmp_path / "source")
    links = [path for path in made.glob("rlver/**/*") if path.is_symlink()]
    assert len(links) > 10 and not [link.name for link in links if not link.exists()]
    assert (made / "constraints.txt").is_file() and (made / "pyproject.toml").is_file()
    assert not {".env", ".git", ".venv", ".prefect", "data", "models"} & {path.name for path in made.iterdir()}


@pytest.mark.slow
def test_its_steps_make_a_program_that_lays_out_a_project_and_plans_it(repository_root: Path, tmp_path: Path) -> None:
    (wanted,) = re.findall(
        r"^RUN pip install --no-cache-dir -c /source/(\S+) '/source(\S+)'$", (repository_root / "Dockerfile").read_text(), re.M
    )
    source = context(repository_root, tmp_path / "source")
    venv.create(tmp_path / "venv", with_pip=True)
    work = tmp_path / "work"
    work.mkdir()
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}  # where packages are, as a build argument says
    values = {**pip, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def step(*command: str) -> str:
        done = subprocess.run(command, cwd=work, env=values, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    step("pip", "install", "--quiet", "-c", str(source / wanted[0]), f"{source}{wanted[1]}")
    assert step("rlver", "--version").startswith("rlver ")
    step("rlver", "init", ".")
    assert "train@grpo-think" in step("rlver", "run", "--dry-run")
