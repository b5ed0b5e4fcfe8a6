"""Memory and connections of 256 dialogues at once with an LLM user: `python -m benchmarks.concurrent_memory [--model models/base]`.

What `converse` does runs in a process of its own, with a server in another; its peak memory is the kernel's figure for that process, all
libraries included, and connections are counted at the server. The policy is canned, or with `--model` a real one in the same process. Exit
status 1 above 1 GiB, or with more connections than `endpoint.concurrency` allows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.endpoint_faults import REPOSITORY, in_a_child
from benchmarks.llm_server import counts, running
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=256)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--model", type=Path, help="a policy's folder, in place of the canned one")
    options = parser.parse_args()
    limit = load_settings(REPOSITORY / "params.yaml").endpoint.concurrency
    model = ("--model", str(options.model.resolve())) if options.model else ()
    with running("--latency", "0.2", "2.0") as url, tempfile.TemporaryDirectory() as name:
        child = in_a_child(url, Path(name), options.dialogues, options.turns, "--concurrency", str(options.dialogues), *model)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise RuntimeError("the dialogues did not finish")
        held, connections = (
            load_transcripts(Path(name) / "out.jsonl"),
            counts(url)["most_connections"],
        )  # nobody else is connected before it has ended
    peak_mib = usage.ru_maxrss / 1024
    print(
        f"{len(held)} dialogues at once, {sum(len(dialogue.turns) for dialogue in held)} turns, policy {options.model or 'canned'}:"
        f" peak memory {peak_mib:.0f} MiB, at most {connections} connections (allowed: {limit})"
    )
    return int(peak_mib > 1024 or connections > limit)


if __name__ == "__main__":
    sys.exit(main())
