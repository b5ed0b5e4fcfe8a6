"""The flow `evaluate`: the Sentient-Benchmark of a model on demand, with a real model and a real Prefect server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from micro import micro_model, micro_tokenizer
from small_project import make_project

from rlver.components.policy.load import save_policy
from rlver.components.rollout.transcripts import load_transcripts


def test_a_model_is_evaluated_scored_and_shown(toy: Path, tracking_uri: str, prefect_server: None) -> None:
    from prefect.artifacts import Artifact

    from rlver.flows.evaluate import evaluate
    from rlver.tasks.runtime.options import TEST_PERSONAS

    shutil.rmtree(toy / "params")
    make_project(toy)
    (toy / TEST_PERSONAS).parent.mkdir(parents=True)
    (toy / "test.jsonl").rename(toy / TEST_PERSONAS)
    save_policy(micro_model(scale=2.0), micro_tokenizer(), toy / "models" / "m")
    state = evaluate("models/m", repeats=1, limit=2, return_state=True)
    assert state.is_completed() and (state.message or "").startswith("models/m: "), state.message
    (out,) = (toy / "evaluations").glob("models-m-vanilla-*.jsonl")
    assert len(load_transcripts(out)) == 2
    assert json.loads(out.with_suffix(".json").read_text())["n"] == 2
    strange = evaluate("models/m", repeats=1, limit=2, variant="nobodys", return_state=True)
    assert strange.is_failed() and "nobodys" in (strange.message or ""), "it is spoken to as its variant says"
    shown = Artifact.get("evaluation")
    assert shown is not None and shown.description == "models/m with vanilla users" and "emotion" in str(shown.data)
