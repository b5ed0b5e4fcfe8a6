"""`rlver serve MODEL` as a process of its own, and a small random Llama for it to serve."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from announced import ROOT, announced
from micro import micro_tokenizer

NAME = "llama"
KEY = "a-key-of-32-characters-or-so-123"


def save_llama(folder: Path, positions: int = 1536) -> Path:
    """Random weights that are large enough for the next token to be no toss-up."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rlver.components.policy.load import save_policy

    tokenizer = micro_tokenizer()
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    model: Any = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=positions, **sizes, **ends))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15)
    save_policy(model, tokenizer, folder)
    return folder


@contextmanager
def served(project: Path, model: Path, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, which ends in /v1. Killed at the end."""
    (project / "dvc.yaml").write_text("stages: {}\n")
    if not (project / "params.yaml").exists():
        (project / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    named = arguments if "--name" in arguments else ("--name", NAME, *arguments)
    served = announced(project, r"at (http://\S+/v1)", "serve", str(model), *named, **{"OMP_NUM_THREADS": "1"} | environment)
    with served as found:
        yield found


def body(text: str = "My sister left.", **other: Any) -> dict[str, Any]:
    return {"model": NAME, "messages": [{"role": "user", "content": text}], "max_tokens": 12, "seed": 4, **other}


def post(url: str, sent: Any, **headers: str | bytes) -> httpx.Response:
    content = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    told = {b"content-type": b"application/json"}
    told |= {name.replace("_", "-").encode(): value.encode() if isinstance(value, str) else value for name, value in headers.items()}
    return httpx.post(f"{url}/chat/completions", content=content, headers=told, timeout=120, trust_env=False)


def streamed(url: str, sent: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a reply, the last of which must be [DONE]."""
    with httpx.stream("POST", f"{url}/chat/completions", json={**sent, "stream": True}, timeout=120, trust_env=False) as response:
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
