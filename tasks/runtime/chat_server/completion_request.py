"""What a client may ask for, and how it is told that it may not: the forms of OpenAI's chat completions.

A field that would change the answer and is not done here is refused by its name, never passed over: a client that asks for JSON, tools or
a penalty must know that it does not get them. Their neutral values are taken, because many clients send those.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rlver.components.domain.printable import whole_characters

MOST_STOPS, MOST_STOP = 4, 200  # sequences, and characters of one
_SHOWN = 100  # characters of a client's own words that it hears again


class Refused(Exception):
    """An answer that is an error: the HTTP status, and what OpenAI's form says of it."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.retry_after_s = status, message, code, param, retry_after_s

    @property
    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def unknown_model(name: str, there: str) -> Refused:
    return Refused(404, f"The model {name[:_SHOWN]!r} does not exist; this server has {there!r}.", code="model_not_found", param="model")


Text = Annotated[str, AfterValidator(whole_characters)]
_Nothing = Annotated[list[Any], Field(max_length=0)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _TextPart(_Strict):
    type: Literal["text"]
    text: Text


class _ChatMessage(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[_TextPart]
    name: None = None
    # of an answer that is sent back as it came
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_calls: _Nothing = None
    annotations: _Nothing = None

    @property
    def as_sent(self) -> dict[str, str]:
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class _StreamOptions(_Strict):
    include_usage: bool = False
    include_obfuscation: bool = False


class _PlainText(_Strict):
    type: Literal["text"]


Stop = Annotated[Text, Field(min_length=1, max_length=MOST_STOP)]


def _null_is(default: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


def _as_list(value: Any) -> Any:
    return [] if value is None else [value] if isinstance(value, str) else value


class CompletionRequest(_Strict):
    """One request for a reply, as the body of a POST says it. `seed` is None where the client gave none."""

    model: str
    messages: list[_ChatMessage] = Field(min_length=1)
    temperature: Annotated[float, Field(ge=0, le=2), _null_is(1.0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1), _null_is(1.0)] = 1.0
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[list[Stop], Field(max_length=MOST_STOPS), BeforeValidator(_as_list)] = []
    stream: Annotated[bool, _null_is(False)] = False
    stream_options: _StreamOptions | None = None
    n: Literal[1] | None = None
    user: Any = None  # who asks, and what for: nothing is kept
    metadata: Any = None
    safety_identifier: Any = None
    store: Literal[False] | None = None
    # neutral values only
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None
    logprobs: Literal[False] | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    response_format: _PlainText | None = None
    tools: _Nothing = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None

    @property
    def most_tokens(self) -> int | None:
        """None where the client gave no number."""
        return min((most for most in (self.max_completion_tokens, self.max_tokens) if most is not None), default=None)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


_NEUTRAL = {"n", "store", "presence_penalty", "frequency_penalty", "logprobs", "logit_bias", "response_format", "tools", "tool_choice"}


def read_request(body: bytes) -> CompletionRequest:
    """The request in the body of a POST. Raises Refused."""
    try:
        said = json.loads(body.decode("utf-8"), parse_constant=_refuse_number)
    except UnicodeDecodeError:
        raise Refused(400, "The body is not UTF-8.", code="invalid_json") from None
    except (ValueError, RecursionError):
        raise Refused(400, "The body is not JSON.", code="invalid_json") from None
    try:
        return CompletionRequest.model_validate(said)
    except ValidationError as error:
        raise _fault(error) from None


def _fault(error: ValidationError) -> Refused:
    """The first fault, in our own words but for the name of the field, which the client chose."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    path = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "constrained-", "list["))]
    param = whole_characters(".".join(path))[:_SHOWN] or None
    if first["type"] == "extra_forbidden":
        return Refused(400, f"{param!r} is not a field that this server knows.", code="unknown_parameter", param=param)
    if path and path[0] in _NEUTRAL:
        return Refused(400, f"{path[0]} is not supported here; leave it out.", code="unsupported_parameter", param=path[0])
    return Refused(400, f"{param or 'the body'}: {first['msg']}", code="invalid_value", param=param)


def _refuse_number(_: str) -> NoReturn:
    raise ValueError("no number of JSON")
