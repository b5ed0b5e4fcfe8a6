"""What the documentation tells people to type."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def shell_blocks(text: str) -> list[str]:
    """Also those of a list, without their indent."""
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)]


def unnamed_blocks(text: str) -> list[str]:
    """Blocks of code whose language nobody wrote down: pictures, output, prompts."""
    fenced = re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for language, block in fenced if not language]


def section(path: Path, title: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(title)}\n", text, flags=re.MULTILINE)
    assert found, f"{path} has no section {title!r}"
    return re.split(rf"^#{{1,{len(found[1])}}} ", text[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def rlver_commands(path: Path) -> Iterator[list[str]]:
    """The words after `rlver` of every command in the shell blocks of a page; lines with a placeholder such as `[…]` are left out."""
    for block in [*shell_blocks(text := path.read_text(encoding="utf-8")), *unnamed_blocks(text)]:
        for line in block.replace("\\\n", " ").replace(" && ", "\n").replace("; ", "\n").splitlines():
            command = re.search(r"(?:^|\| )(?:\.venv/bin/)?rlver (.+)", line)
            if command and not re.search(r"[…\[\]]", command[1].partition("#")[0]):
                yield shlex.split(re.split(r" (?:[<>&|]|2>)", command[1])[0], comments=True)


def run_as_typed(blocks: list[str], folder: Path) -> str:
    """Run shell blocks one after the other in one shell, in a copy of the project without data; the output. The first failure ends it."""
    folder.mkdir()
    for name in ("params", "examples"):
        shutil.copytree(REPOSITORY / name, folder / name)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(REPOSITORY / name, folder)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    left_out = {"RLVER_POLICY_URL", "RLVER_POLICY_KEY", "RLVER_USER_URL", "RLVER_REPLAY", "RLVER_BUDGET"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        ["bash", "-emc", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(blocks)],
        cwd=folder,
        env={**environment, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=900,
        start_new_session=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
