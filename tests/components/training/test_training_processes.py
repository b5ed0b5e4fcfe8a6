"""What the processes of one training hold comes together, as it was, in the order of their ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from report_run import make_dialogues

from rlver.components.rollout.episode import Rollout
from rlver.tasks.stages.train import ROLLOUTS


def rollouts() -> list[Rollout]:
    """Of lengths that differ, with log-probabilities that JSON has no words for."""
    said, failed = make_dialogues("x", 2, 0.5, 1)[0], make_dialogues("x", 1, 0.5, 1, failed=True)[0]
    spoken = Rollout(said, (1, 2), (3, 4), (True, False), (0, 0), (-0.1 / 3, float("-inf")), (False, True), None, (1,))
    return [spoken, Rollout(failed, (), (), (), (), (), (), 0, ())]


def test_a_rollout_is_the_same_after_its_way_as_json() -> None:
    assert ROLLOUTS.validate_json(ROLLOUTS.dump_json(rollouts())) == rollouts()
    (lost,) = ROLLOUTS.validate_json(ROLLOUTS.dump_json([Rollout(rollouts()[0].dialogue, (), (), (), (), (float("nan"),), (), None, ())]))
    assert str(lost.logprob_T) == "(nan,)"


PROGRAM = """
import sys
from pathlib import Path
import torch.distributed as dist
from test_training_processes import ROLLOUTS, rollouts
from rlver.components.training import processes

rank = int(sys.argv[1])
processes.join(rank, 2, Path(sys.argv[2]))
assert (processes.rank(), processes.count()) == (rank, 2)
mine = rollouts() if rank else rollouts()[:1]
assert processes.gathered(mine, ROLLOUTS) == rollouts()[:1] + rollouts()
assert processes.gathered([], ROLLOUTS) == []
parts = [None, None]
dist.all_gather_object(parts, ["of", rank])
assert parts == [["of", 0], ["of", 1]]
try:
    dist.all_gather_object(parts, object())
except TypeError:
    print("gathered")
"""


@pytest.mark.slow
def test_two_processes_hold_what_each_of_them_had_and_nothing_but_json_passes(tmp_path: Path, repository_root: Path) -> None:
    path = os.pathsep.join((str(repository_root), str(repository_root / "tests"), str(Path(__file__).parent)))
    both = [
        subprocess.Popen(
            (sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "meeting")),
            env={**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    assert [process.communicate(timeout=120)[0] for process in both] == ["gathered\n", "gathered\n"]
