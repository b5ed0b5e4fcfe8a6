"""Stage personas: scenario library or imported files -> train.jsonl, test.jsonl. Train and test are proven apart first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.files import write_json
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.personas import load_split, write_split
from rlver.tasks.runtime.stage import run_stage

IMPORTED = Path("imported")  # a dependency of the stage


def main(argv: Sequence[str] | None = None) -> int:
    """Write both splits or neither; an imported file takes the place of the generated split."""
    parser = argparse.ArgumentParser(prog="python -m rlver.tasks.stages.personas", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for train.jsonl and test.jsonl")
    parser.add_argument("--metrics", type=Path, required=True)
    parser.add_argument("--variant", help="whose overlays say which personas")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params, args.variant)
    wanted = settings.personas
    for name in (wanted.imported_train, wanted.imported_test):
        if name is not None and not Path(name).resolve().is_relative_to(IMPORTED.resolve()):
            raise ValueError(f"{name}: move it into {IMPORTED}/, which DVC watches, and name it there in {args.params}")
    train, test = compose_personas(load_library(), settings.seed, wanted.train, wanted.test)
    if wanted.imported_train is not None:
        train = load_split(Path(wanted.imported_train), "train")
    if wanted.imported_test is not None:
        test = load_split(Path(wanted.imported_test), "test", "sealed")
    write_json(args.metrics, write_split(args.out, train, test))
    return 0


if __name__ == "__main__":
    sys.exit(run_stage(main))
