"""Training with LoRA over a server that speaks with what it was sent, read by peft and safetensors: all weights, or the adapters alone.

The server is not vLLM: that it does the same is for `make live` to show, on a machine that has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from ruamel.yaml import YAML
from safetensors.torch import load_file
from scripted_vllm import Answer, Body, ScriptedVllm, sampled, serving
from small_project import make_base, make_project, train_arguments, weights

from rlver.components.policy.load import load_policy
from rlver.components.policy.weights import FILE
from rlver.components.training.curves import CurveFile
from rlver.tasks.stages import train


class Speaks:
    """Samples with the base and what came last."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {}

    def take(self, folder: str, version: str) -> Answer:
        model, _ = load_policy(Path("models/base"))
        model.load_state_dict(load_file(Path(folder) / FILE), strict=False)
        self.models[version] = model.eval()
        return 200, {"results": [version]}

    def __call__(self, body: Body, vllm: ScriptedVllm) -> Answer:
        with vllm.lock:
            if vllm.version not in self.models:
                self.models[vllm.version] = PeftModel.from_pretrained(
                    load_policy(Path("models/base"))[0], vllm.adapters[body["model"]]
                ).eval()
        wanted, said, logprobs = body["sampling_params"], list[int](), list[float]()
        draws = torch.Generator().manual_seed(wanted["seed"])
        with torch.no_grad():
            while len(said) < wanted["max_tokens"] and (not said or said[-1] not in wanted["stop_token_ids"]):
                logits = self.models[vllm.version](torch.tensor([[*body["token_ids"], *said]])).logits[0, -1]
                likely = (logits / wanted["temperature"]).log_softmax(-1)
                said.append(int(likely.exp().multinomial(1, generator=draws)))
                logprobs.append(float(likely[said[-1]]))
        return sampled(said, logprobs, [vllm.version], "stop" if said[-1] in wanted["stop_token_ids"] else "length")


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedVllm]:
    """In a project with a base of its own, which it serves."""
    make_project(tmp_path, lora_rank=2, steps=3)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path)
    speaks = Speaks()
    with serving(ScriptedVllm(speaks, take=speaks.take)) as running:
        monkeypatch.setenv("RLVER_POLICY_SERVER_URL", running.url)
        yield running


@pytest.mark.long
@pytest.mark.parametrize("push", ["merged", "adapters"])
def test_what_is_sampled_is_what_the_trainer_would_have_said(push: str, vllm: ScriptedVllm, tmp_path: Path) -> None:
    values = YAML(typ="safe").load((tmp_path / "params.yaml").read_text(encoding="utf-8"))
    values["rollout"] |= {"sampler": "vllm", "push": push, "concurrency": 4}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    assert train.main(train_arguments("sent")) == 0
    rows = CurveFile(tmp_path / "logs" / "sent" / "train").rows()
    assert [row["step"] for row in rows] == [1, 2, 3] and all(row["logprob_gap"] < 1e-5 for row in rows)
    assert not torch.equal(weights(tmp_path / "models" / "sent"), weights(tmp_path / "models" / "base")), "later steps had other weights"
    (folder,) = (tmp_path / "scratch" / "sent").glob("sent-*/weights")
    held = {path.name for path in folder.iterdir()}
    if push == "adapters":
        assert list(vllm.adapters.values()) == [str(folder)] and FILE not in held
    else:
        assert not vllm.adapters and held == {FILE}
