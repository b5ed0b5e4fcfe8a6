"""A policy behind MLflow's model interface: chat messages in, a chat completion out. MLflow runs this file where the model is served.

It is code beside the weights, never a pickle. The thought of a thinking policy stays here: whoever asks gets the reply only, and earlier
thoughts are not part of the context, because the messages of a request cannot hold them.
"""

from __future__ import annotations

import threading
from typing import Any

import mlflow
import torch
from transformers import GenerationConfig

from rlver.components.domain.thinking import split_thought, system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy


class DialoguePolicy(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]
    """Samples one reply a request, with the parameters of the variant unless the request names its own."""

    _skip_type_hint_validation = True  # the signature is given

    def load_context(self, context: Any) -> None:
        self.model, self.tokenizer = load_policy(context.artifacts["policy"])
        self.model.eval()
        self.model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # the base's may have penalties; scoring has none
        self.config = context.model_config
        self._one_at_a_time = threading.Lock()  # torch has one random state

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # hints would be taken for the signature
        """One chat completion for one request, a list of them for several (the rows of a data frame)."""
        rows = model_input.to_dict("records") if hasattr(model_input, "to_dict") else model_input
        rows = [rows] if isinstance(rows, dict) else list(rows)
        completions = [self._completion({**row, **(params or {})}) for row in rows]
        return completions[0] if len(completions) == 1 else completions

    def _completion(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": str(message["role"]), "content": str(message["content"])} for message in request["messages"]]
        tokens, finished = self._sample(self._context_ids(messages), request)
        said = split_thought(self.tokenizer.decode(tokens), self.config["thinking"])
        message = {"role": "assistant", "content": said.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if finished else "length"}
        return {"object": "chat.completion", "model": self.config["name"], "choices": [choice]}

    def _context_ids(self, messages: list[dict[str, str]]) -> list[int]:
        """The conversation as it was in training. Raises ValueError unless user and assistant take turns and the user speaks last."""
        given = "\n".join(message["content"] for message in messages if message["role"] == "system")
        talk = [message for message in messages if message["role"] != "system"]
        if [message["role"] for message in talk] != ["user", *["assistant", "user"] * (len(talk) // 2)]:
            raise ValueError(f"user and assistant must take turns, the user first and last, got {[message['role'] for message in talk]}")
        chat = ChatFormat(self.tokenizer, given or system_prompt(self.config["thinking"], self.config.get("language", "en")))
        ids = chat.start(talk[0]["content"])
        for reply, user in zip(talk[1::2], talk[2::2], strict=True):
            spoken = self.tokenizer(reply["content"], add_special_tokens=False)["input_ids"]
            ids += [*spoken, chat.end_of_turn, *chat.user_turn(user["content"])]
        return ids

    def _sample(self, context: list[int], request: dict[str, Any]) -> tuple[list[int], bool]:
        """(sampled tokens without the end of the turn, whether the policy ended it itself)."""
        most = int(_given(request, "max_tokens", self.config["max_reply_tokens"]))
        if len(context) + most > self.config["max_context_tokens"]:
            raise ValueError(
                f"the conversation has {len(context)} tokens; with a reply of {most} at most {self.config['max_context_tokens']} fit"
            )
        temperature = float(_given(request, "temperature", self.config["temperature"]))
        drawn = (
            {"do_sample": True, "temperature": temperature, "top_p": self.config["top_p"], "top_k": 0}
            if temperature > 0
            else {"do_sample": False}
        )
        ids = torch.tensor([context], device=self.model.device)
        end = self.tokenizer.eos_token_id
        with self._one_at_a_time, torch.inference_mode():
            torch.manual_seed(int(_given(request, "seed", self.config["seed"])))
            whole = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, eos_token_id=end, pad_token_id=end, **drawn
            )
        tokens = whole[0, len(context) :].tolist()
        return [token for token in tokens if token != end], end in tokens


def _given(request: dict[str, Any], name: str, otherwise: Any) -> Any:
    """A value of the request; a data frame has NaN where a request says nothing."""
    value = request.get(name)
    return otherwise if value is None or value != value else value


mlflow.models.set_model(DialoguePolicy())
