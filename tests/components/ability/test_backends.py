"""Benchmarks of a served model, over real HTTP, against the same model computed here."""

from __future__ import annotations

import json
import logging
import shutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from completions_server import CompletionsServer, completions_server
from scripted_server import KEY, parameters
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlver.components.ability import backends
from rlver.components.ability.backends import BenchmarkError, Served, log_likelihood
from rlver.components.ability.general import run_tasks
from rlver.components.ability.noninferiority import NotComparable, compare_general
from rlver.components.endpoint.chat import EndpointError

TASKS = ["rlver_tiny_likelihood", "rlver_tiny_choice", "rlver_math500:sample"]


def served(server: CompletionsServer, key: str | None = KEY, **changes: Any) -> Served:
    return Served(changes.pop("name", server.name), parameters(server.url, **changes), lambda: key)


def measure(model: Path, tasks: list[str], **more: Any) -> dict[str, Any]:
    return run_tasks(str(model), tasks, 6, 4, 0.05, 7, **more)


@pytest.mark.long
def test_a_served_model_has_the_scores_of_the_same_model_computed_here(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else-0123456789")
    here = measure(tiny_model, TASKS)
    with completions_server(tiny_model) as server:
        there = measure(tiny_model, TASKS, backend="local-completions", served=served(server))
    for name in TASKS:
        ours, theirs = here["tasks"][name], there["tasks"][name]
        assert [item["score"] for item in theirs["items"]] == pytest.approx([item["score"] for item in ours["items"]], abs=1e-4)
        assert [item["doc"] for item in theirs["items"]] == [item["doc"] for item in ours["items"]]
    assert (here["backend"], there["backend"]) == ("hf", "local-completions")
    assert any(len(body["prompt"]) == 4 for body in server.bodies), "questions go in batches"
    assert set(server.authorizations) == {f"Bearer {KEY}"}, "the endpoint's key and no other"
    with pytest.raises(NotComparable, match="backend hf, tuned with local-completions"):
        compare_general(here, there, 0.05)


def test_a_server_that_is_busy_for_a_moment_is_asked_again_and_the_key_is_not_logged(tiny_model: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with completions_server(tiny_model, failures=2) as server:
        found = measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server, attempts=3))
    assert found["tasks"]["rlver_tiny_choice"]["n"] == 6
    assert KEY not in caplog.text and KEY not in json.dumps(found)


def test_an_answer_may_be_as_long_as_the_batch_it_is_of(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backends, "MOST_BYTES", 0)
    with completions_server(tiny_model, bytes_a_token=500) as server:
        assert (
            measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server))["tasks"]["rlver_tiny_choice"][
                "n"
            ]
            == 6
        )
        server.bytes_a_token = 5000
        with pytest.raises(EndpointError, match="the body has more than"):
            measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server))


def test_the_attempts_are_bounded_and_the_complaint_holds_no_key(tiny_model: Path):
    with completions_server(tiny_model, failures=99) as server, pytest.raises(EndpointError, match="HTTP 503: busy") as error:
        measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server, attempts=2))
    assert KEY not in str(error.value) and len(server.bodies) == 2


def test_the_key_does_not_follow_to_another_address(tiny_model: Path):
    with (
        completions_server(tiny_model) as other,
        completions_server(tiny_model, behaviour="elsewhere", elsewhere=other.url) as server,
        pytest.raises(EndpointError, match="HTTP 307"),
    ):
        measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server))
    assert other.authorizations == []


@pytest.mark.parametrize(
    ("behaviour", "name", "message"),
    [("no_echo", None, "gives 1 log-probabilities for 3 tokens"), ("well", "another", "unknown model 'another'; the server has")],
)
def test_a_server_that_cannot_do_it_is_refused_before_the_model_is_loaded(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, name: str | None, message: str
):
    monkeypatch.setattr("rlver.components.ability.general.load_backend", lambda *_: pytest.fail("loaded"))
    with completions_server(tiny_model, behaviour=behaviour) as server, pytest.raises((BenchmarkError, EndpointError), match=message):
        measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=served(server, name=name or server.name))


def test_nobody_there_is_one_line(tiny_model: Path):
    nobody = Served("m", parameters("http://127.0.0.1:9/v1", attempts=1), lambda: None)
    with pytest.raises(EndpointError, match=r"no connection .*is the server running"):
        measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions", served=nobody)
    with pytest.raises(BenchmarkError, match=r"set benchmark\.base_url"):
        measure(tiny_model, ["rlver_tiny_choice"], backend="local-completions")


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_that_is_not_installed_is_refused_with_what_to_do(tiny_model: Path):
    with pytest.raises(BenchmarkError, match="vLLM is not installed here"):
        measure(tiny_model, ["rlver_tiny_choice"], backend="vllm")


def test_a_log_likelihood_is_the_sum_after_the_context():
    choice = {"logprobs": {"token_logprobs": [None, -1.0, -2.0, -0.5], "top_logprobs": [None, {"a": -0.2}, {"b": -2.0}, {"c": -0.5}]}}
    assert log_likelihood(choice, [5, 6, 7], 1) == (-3.0, False)
    assert log_likelihood(choice, [5, 6, 7], 2) == (-2.0, True)
    choice["logprobs"]["token_logprobs"][2] = float("nan")
    with pytest.raises(BenchmarkError, match="not finite"):
        log_likelihood(choice, [5, 6, 7], 1)
    with pytest.raises(BenchmarkError, match="gives 0 log-probabilities"):
        log_likelihood({"logprobs": None}, [5, 6, 7], 1)


def with_a_first_token(model: Path, folder: Path) -> Path:
    """The model with a tokenizer that puts <|endoftext|> before every text."""
    shutil.copytree(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(model)
    first = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", first)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        bos_token="<|endoftext|>",
        eos_token="<|im_end|>",
        chat_template=tokenizer.chat_template,
    ).save_pretrained(folder)
    return folder


def test_special_tokens_are_those_of_the_harness_own_backend(tiny_model: Path, tmp_path: Path):
    model = with_a_first_token(tiny_model, tmp_path / "model")
    there = backends.ServedLM(Served("m", parameters("http://127.0.0.1:9/v1"), lambda: None), str(model), 4)
    here = backends.load_backend("hf", str(model), 4, None, 7)
    (first,) = there.tok_encode("<|endoftext|>", add_special_tokens=False)
    assert there.tok_encode("Hi.") == here.tok_encode("Hi.") == [first, *there.tok_encode("Hi.", add_special_tokens=False)]
    for text in ("Hi.", "<|endoftext|>Hi.", "<|im_start|>user\nHi."):
        for special in (None, True, False):
            assert there.tok_encode(text, add_special_tokens=special) == here.tok_encode(text, add_special_tokens=special)
    assert there.tok_encode("<|endoftext|>Hi.").count(first) == 1, "a chat template has put it there already"


@pytest.mark.parametrize("more", [-1, 0, 1, 2, 600])
def test_every_token_of_a_long_text_is_scored_once(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, more: int):
    """The window of 511 tokens holds the one before its first, too."""
    there = backends.ServedLM(Served("m", parameters("http://127.0.0.1:9/v1"), lambda: None), str(tiny_model), 4)
    prompts: list[list[int]] = []

    def answers(_: Served, body: dict[str, Any]) -> dict[str, Any]:
        prompts.extend(body["prompt"])
        said = [{"token_logprobs": [-1.0] * (len(one) + 1), "top_logprobs": [{"a": -0.5}] * (len(one) + 1)} for one in body["prompt"]]
        return {"choices": [{"index": index, "logprobs": one} for index, one in enumerate(said)]}

    monkeypatch.setattr(backends, "ask", answers)
    text = "".join(chr(97 + number % 26) for number in range(there.max_length + more))
    assert there.loglikelihood_rolling([SimpleNamespace(args=(text,))]) == [-len(text)]
    assert max(map(len, prompts)) <= there.max_length == 511


@pytest.mark.parametrize("backend", ["hf", "local-completions"])
def test_a_stop_of_the_task_ends_the_answer_and_not_the_thought(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, backend: str):
    """Both fakes end at the first stop that they are given. `</think>` is a special token here, which decoding leaves out."""
    asked = []

    def written(stops: list[str]) -> str:
        reply = "<think>Twice three.\n\nThat is six.</think>\n\nSix.\n\nQuestion: and now?<|im_end|>"
        return reply[: min((place for stop in stops if (place := reply.find(stop)) >= 0), default=None)]

    def generates(self: Any, context: Any, max_length: int, stop: list[str], **_: Any) -> Any:
        return torch.cat([context, self.tokenizer(written(stop), add_special_tokens=False, return_tensors="pt").input_ids], dim=1)

    monkeypatch.setattr(backends.HFLM, "_model_generate", generates)
    monkeypatch.setattr(backends, "ask", lambda _, body: asked.append(body) or {"choices": [{"index": 0, "text": written(body["stop"])}]})
    model = backends.load_backend(backend, str(tiny_model), 1, Served("m", parameters("http://127.0.0.1:9/v1"), lambda: None), 7)
    request = SimpleNamespace(args=("Two times three?", {"until": ["\n\n"], "max_gen_toks": 64}))
    assert model.generate_until([request], disable_tqdm=True) == ["Six."]
    assert all(body["skip_special_tokens"] is False for body in asked)


def test_a_missing_choice_is_an_error_and_their_order_is_none():
    assert [one["index"] for one in backends._choices({"choices": [{"index": 1}, {"index": 0}]}, 2)] == [0, 1]
    for wrong in ({"choices": [{"index": 0}]}, {"choices": [{"index": 0}, {"index": 0}]}, {"choices": None}, []):
        with pytest.raises(BenchmarkError, match="for 2 prompts"):
            backends._choices(wrong, 2)
