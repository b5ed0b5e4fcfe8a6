"""What computes a benchmark: transformers in this process, vLLM in this process, or a server with OpenAI's /completions.

lm-eval's own client follows the address that a server names, sends OPENAI_API_KEY to whatever is asked and logs what it answers. So here
the harness makes the requests and the scores, and the project's endpoint asks: its key goes to its own origin only, and is never logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.model import TemplateLM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import chunks, has_bos_prefix, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from transformers import AutoConfig, AutoTokenizer, LogitsProcessorList

from rlver.components.domain.printable import whole_characters
from rlver.components.endpoint.bodies import MOST_BYTES, UnusableBody, parse_json
from rlver.components.endpoint.chat import EndpointUnavailable, Hiccup, Key
from rlver.components.endpoint.client import open_http
from rlver.components.endpoint.opening import check_endpoint
from rlver.components.endpoint.parameters import EndpointParameters
from rlver.components.policy.load import load_model

THINK_END = "</think>"
_PROBE = [1, 2, 3]  # tokens that every vocabulary has
_SEED = 1234
_MOST_LOGPROB = 1e300  # either side of 0: their sum is a number too
_TOKEN_BYTES = 1024  # JSON of one token of an answer, with its log-probability and the likeliest others; most have a tenth of it
_USUAL_LENGTH = 2048  # of a context that config.json does not say


class BenchmarkError(ValueError):
    """A benchmark that cannot be run as asked; one readable line."""


@dataclass(frozen=True)
class Served:
    """A model behind /completions. `name` is the server's name for it; `key` returns the API key, or None where the server needs none."""

    name: str
    parameters: EndpointParameters
    key: Callable[[], str | None]


def check_backend(backend: str, served: Served | None) -> None:
    """What can be known before anything is loaded. Raises BenchmarkError, or EndpointError for a server that cannot be asked.

    The server is asked for its models, and once for the log-probabilities of three tokens: servers that leave out `echo` would be scored
    on tokens that they made up.
    """
    if backend == "vllm" and find_spec("vllm") is None:
        raise BenchmarkError(
            "benchmark.backend is vllm, and vLLM is not installed here: install it, or serve the model and set benchmark.backend: "
            "local-completions"
        )
    if backend != "local-completions":
        return
    if served is None:
        raise BenchmarkError("benchmark.backend is local-completions, and no server is named: set benchmark.base_url")
    asyncio.run(check_endpoint(served.parameters, served.key, [served.name]))
    body = {"model": served.name, "prompt": [_PROBE], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 0, "echo": True}
    log_likelihood(_choices(ask(served, body), 1)[0], _PROBE, 1)


def load_backend(backend: str, model: str, batch_size: int, served: Served | None, seed: int) -> TemplateLM:
    """The harness' language model, ready to be asked. `model` is a local folder: of a served model it gives the tokenizer."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    if backend == "local-completions" and served is not None:
        return ServedLM(served, model, batch_size)
    if backend == "vllm":
        from lm_eval.models.vllm_causallms import VLLM  # it loads vLLM

        return VLLM(pretrained=model, dtype="auto", batch_size="auto", seed=seed, think_end_token=THINK_END)
    loaded, tokenizer = load_model(model, "auto" if torch.cuda.is_available() else torch.float32)  # the harness itself would unpickle
    language_model = _FiniteLM(pretrained=loaded, tokenizer=tokenizer, batch_size=batch_size)
    # What vanishes when the reply is decoded must be cut off by its id; ordinary text must be cut off as text.
    language_model.think_end_token = tokenizer.convert_tokens_to_ids(THINK_END) if _vanishes(tokenizer) else THINK_END
    return language_model


def _vanishes(tokenizer: Any) -> bool:
    """Whether decoding leaves </think> out. `all_special_tokens` does not say so: it lacks those that only tokenizer.json calls special."""
    token = tokenizer.get_added_vocab().get(THINK_END)
    return token is not None and THINK_END not in tokenizer.decode([token], skip_special_tokens=True)


class _FiniteLM(HFLM):  # type: ignore[misc]
    """The harness' model, which never lets logits that are no numbers become a choice or an answer, nor a task's stop end a thought."""

    def _model_call(self, *inputs: Any, **options: Any) -> torch.Tensor:
        return _finite(super()._model_call(*inputs, **options))

    def _model_generate(self, *inputs: Any, **options: Any) -> torch.Tensor:
        """Up to the end token, as with vLLM: at the task's own stops the harness cuts later, behind the thought."""
        checked = LogitsProcessorList([lambda _, logits_BV: _finite(logits_BV)])
        end = self.tok_decode([self.eot_token_id], skip_special_tokens=False)
        answer: torch.Tensor = super()._model_generate(*inputs, logits_processor=checked, **{**options, "stop": [end]})
        return answer


def _finite(logits: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(logits.amax(dim=-1)).all():  # a NaN is the greatest; a single -inf only rules a token out
        raise BenchmarkError("the model's logits are not finite; its weights are broken, or its training diverged: take another copy")
    return logits


class ServedLM(TemplateLM):  # type: ignore[misc]
    """A language model of the harness behind /completions, asked in batches, with prompts as tokens."""

    def __init__(self, served: Served, model: str, batch_size: int) -> None:
        super().__init__()
        self._served = served
        self._batch_size = batch_size
        self.tokenizer = AutoTokenizer.from_pretrained(Path(model), trust_remote_code=False)
        config = AutoConfig.from_pretrained(Path(model), trust_remote_code=False)
        self.max_length = int(getattr(config, "max_position_embeddings", _USUAL_LENGTH)) - 1  # one token is always asked for
        self._hides_thoughts = _vanishes(self.tokenizer)

    @property
    def eot_token_id(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        return int(self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else self.tokenizer.eos_token_id)

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """As the harness's own backends: what nobody decides, the tokenizer does, but never twice."""
        if add_special_tokens is None and has_bos_prefix(string, self.tokenizer.decode(self.prefix_token_id)):
            add_special_tokens = False
        special = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
        ids: list[int] = self.tokenizer(string, **special).input_ids
        return ids

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return str(self.tokenizer.chat_template) if chat_template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    def _loglikelihood_tokens(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
        """Of each (texts, context, continuation), the likelihood of the continuation; what is too long loses its beginning."""
        found = []
        for batch in chunks(requests, self._batch_size):
            prompts = [(before + after)[-self.max_length :] for _, before, after in batch]
            contexts = [max(1, len(prompt) - len(after)) for prompt, (_, _, after) in zip(prompts, batch, strict=True)]
            body = {"prompt": prompts, "max_tokens": 1, "logprobs": 1, "echo": True}
            found += [log_likelihood(*one) for one in zip(self._asked(body), prompts, contexts, strict=True)]
        return found

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """Of each whole text, every token once, in windows as long as the context."""
        found = []
        for request in requests:
            (text,) = request.args
            windows = get_rolling_token_windows(self.tok_encode(text), self.prefix_token_id, self.max_length - 1, 1)  # beside the prefix
            pairs = [(None, *make_disjoint_window(window)) for window in windows]
            found.append(math.fsum(value for value, _ in self._loglikelihood_tokens(pairs)))
        return found

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Each on its own options, one question at a time where they differ."""
        return [
            text
            for options, group in groupby((one.args for one in requests), key=lambda args: args[1])
            for text in self._written(options, group)
        ]

    def _written(self, options: Mapping[str, Any], group: Any) -> Generator[str, None, None]:
        sampling = {name: value for name, value in options.items() if name not in {"until", "do_sample", "max_gen_toks"}}
        end = self.tokenizer.eos_token  # the server gets no other stop: it would end a thought, too
        stops = [*([until] if isinstance(until := options.get("until") or [], str) else until), end]
        most = int(options.get("max_gen_toks", self.max_length // 2))
        shown = {"skip_special_tokens": False} if self._hides_thoughts else {}  # vLLM's; else </think> vanishes and the thoughts stay
        for batch in chunks(group, self._batch_size):
            prompts = [self.tok_encode(text)[most - self.max_length :] for text, _ in batch]
            for choice in self._asked({"prompt": prompts, "max_tokens": most, "stop": [end], **shown, **sampling}):
                if not isinstance(choice.get("text"), str):
                    raise BenchmarkError("the server's /completions gives no text")
                yield postprocess_generated_text(whole_characters(choice["text"]), stop=stops, think_end_token=THINK_END)

    def _asked(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return _choices(ask(self._served, {"model": self._served.name, "temperature": 0, "seed": _SEED, **body}), len(body["prompt"]))


def log_likelihood(choice: Mapping[str, Any], tokens: Sequence[int], context: int) -> tuple[float, bool]:
    """The log-probability of all tokens after the first `context`, and whether each was the likeliest. Raises BenchmarkError."""
    said = choice.get("logprobs")
    lists = [said.get(name) if isinstance(said, dict) else None for name in ("token_logprobs", "top_logprobs")]
    chosen, likeliest = (one if isinstance(one, list) else [] for one in lists)
    if len(chosen) <= len(tokens) or len(likeliest) != len(chosen):  # the prompt's, and that of the token asked for
        raise BenchmarkError(
            f"the server's /completions gives {len(chosen)} log-probabilities for {len(tokens)} tokens of a prompt and one more: it must "
            "know echo, logprobs and prompts as tokens, as vLLM does"
        )
    values, tops = chosen[context : len(tokens)], likeliest[context : len(tokens)]
    if not all(top is None or isinstance(top, dict) for top in tops):
        raise BenchmarkError("the server's top_logprobs are no mapping of tokens to numbers: is the endpoint OpenAI-compatible?")
    others = [list(top.values()) for top in tops if top]
    if not all(type(value) in (int, float) and abs(value) <= _MOST_LOGPROB for some in (values, *others) for value in some):
        raise BenchmarkError("the server's log-probabilities are not finite numbers: is the model broken?")
    return math.fsum(values), all(value >= max(top.values()) for value, top in zip(values, tops, strict=True) if top)


def ask(served: Served, body: Mapping[str, Any]) -> Any:
    """The JSON that /completions answers, after the bounded attempts of the endpoint's parameters. Raises EndpointError."""
    numbers = served.parameters
    wait_s = numbers.backoff_first_s
    for attempt in range(1, numbers.attempts + 1):
        try:
            return asyncio.run(_ask_once(served, json.dumps(body).encode(), _most_bytes(body)))
        except Hiccup as hiccup:
            if attempt == numbers.attempts or (hiccup.pause_s or 0) > numbers.retry_after_most_s:
                raise EndpointUnavailable(f"{numbers.base_url.rstrip('/')}: {hiccup.what}; {hiccup.advice}") from None
            time.sleep(hiccup.pause_s or wait_s)
            wait_s = min(2 * wait_s, numbers.backoff_most_s)
    raise AssertionError("attempts is 1 or more")


def _most_bytes(body: Mapping[str, Any]) -> int:
    """How long the answer may be: it says each token of the prompts again, and those that are written."""
    tokens: int = sum(len(prompt) + body["max_tokens"] for prompt in body["prompt"])
    return MOST_BYTES + _TOKEN_BYTES * tokens


async def _ask_once(served: Served, body: bytes, most_bytes: int) -> Any:
    secret = Key(served.key, served.parameters.key_variable)
    async with open_http(served.parameters, secret, {}) as http:
        response = await http.send("POST", "completions", body, most_bytes)
        if response.status_code != 200:
            raise http.fault(response, served.name)
    try:
        return parse_json(response.content)
    except UnusableBody as error:
        raise Hiccup("malformed", f"a malformed answer ({error})", "is it an OpenAI-compatible endpoint?") from None


def _choices(answer: Any, count: int) -> list[dict[str, Any]]:
    """The answer's choices in the order of the prompts. Raises BenchmarkError unless there is one for each."""
    listed = answer.get("choices") if isinstance(answer, dict) else None
    choices = [
        choice
        for choice in (listed if isinstance(listed, list) else ())
        if isinstance(choice, dict) and isinstance(choice.get("index"), int)
    ]
    if sorted(choice["index"] for choice in choices) != list(range(count)):
        raise BenchmarkError(f"the server's /completions gives {len(choices)} choices for {count} prompts; set benchmark.batch_size: 1")
    return sorted(choices, key=lambda choice: int(choice["index"]))
