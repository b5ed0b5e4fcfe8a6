"""The page's server: its files and a few questions, each answered with what a person may know.

A page that is open to a network asks for a key, which stands in the address that the terminal shows.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from rlver.tasks.runtime.guard import CLOSES, NotLetIn, RequestGuard, same
from rlver.tasks.studies.blind.answer_file import NotSaved
from rlver.tasks.studies.blind.answers import MOST_MESSAGE, MOST_NAME, MOST_REASON, Text
from rlver.tasks.studies.blind.comparing import Comparing, NoSuchPlace
from rlver.tasks.studies.blind.talking import NoSuchTalk, Talking

FILES = {"/": "page.html", "/page.css": "page.css"} | {
    f"/{name}.js": f"{name}.js" for name in ("page", "asking", "judging", "comparing", "talking")
}
NOT_SAVED = "Not saved: the server could not write it down. Save it again; if that does not help, tell who invited you. The rest is safe."
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
MOST_BODY = 32_768  # bytes
COOKIE = "rlver_blind"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def known_name(name: str) -> str:
    """One spelling of a person's name. Raises ValueError for none."""
    name = " ".join(unicodedata.normalize("NFC", name).split()).casefold()
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable():
        raise ValueError(f"a name has 1 to {MOST_NAME} characters that can be seen")
    return name


Name = Annotated[Text, Field(max_length=4 * MOST_NAME), AfterValidator(known_name)]
Identity = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _PageRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rater: Name


class _Judgement(_PageRequest):
    answer_id: Identity
    choice: Literal["left", "right", "tie"]
    confidence: int = Field(ge=1, le=3)
    reason: Annotated[Text, Field(max_length=MOST_REASON), AfterValidator(str.strip)]


class _OfPair(_Judgement):
    place: int = Field(ge=0)
    pair: str | None = Field(None, max_length=12)
    seconds: float | None = Field(ge=0, lt=1e6)


class _OfTalk(_Judgement):
    talk: Identity


class _Message(_PageRequest):
    talk: Identity | None
    message_id: Identity
    text: Annotated[Text, AfterValidator(str.strip), Field(min_length=1, max_length=MOST_MESSAGE)]


_Kind = TypeVar("_Kind", bound=BaseModel)


class _Json(JSONResponse):
    """In ASCII, which has half of a character too."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


class _NoJson(ValueError):
    """The body of a request is not what the page sends."""


class _Stranger(ValueError):
    """A name that is not among those who were asked."""


_STATUS = {_NoJson: 422, _Stranger: 403, NoSuchPlace: 409, NoSuchTalk: 409}


class Page:
    """`raters`: who was asked; None: anybody. `cards`: situations to talk about."""

    def __init__(self, comparing: Comparing | None, talking: Talking | None, raters: Sequence[str] | None, cards: Sequence[str]) -> None:
        self._comparing, self._talking, self._cards = comparing, talking, list(cards)
        self._raters = None if raters is None else {known_name(rater) for rater in raters}

    def app(self, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None) -> Starlette:
        routes = [Route(path, _file(name)) for path, name in FILES.items()]
        routes.append(Route("/api/start", _answering(self._start)))
        if self._comparing:
            routes += [Route("/api/pair", _answering(self._pair)), Route("/api/answer", _answering(self._answer), methods=["POST"])]
        if self._talking:
            routes += [
                Route("/api/talk", _answering(self._talk)),
                Route("/api/message", _answering(self._message), methods=["POST"]),
                Route("/api/verdict", _answering(self._verdict), methods=["POST"]),
                Route("/api/leave", _answering(self._leave), methods=["POST"]),
            ]
        return Starlette(routes=routes, lifespan=lifespan)

    async def _start(self, request: Request) -> Any:
        asked = request.query_params.get("rater")
        if asked is not None:
            self._known(_PageRequest(rater=asked).rater)
        return {"compare": self._comparing is not None, "talk": self._talking is not None, "cards": self._cards}

    async def _pair(self, request: Request) -> Any:
        """The pair at `place`, or without one the first that waits; where none waits, the progress alone."""
        assert self._comparing
        rater = self._rater_of(request)
        asked = request.query_params.get("place")
        if asked is None:
            place = self._comparing.progress(rater)["next"]
            return self._comparing.progress(rater) if place is None else self._comparing.view(rater, place)
        if not re.fullmatch("[0-9]{1,9}", asked):
            raise NoSuchPlace("a place is a number")
        return self._comparing.view(rater, int(asked))

    async def _answer(self, request: Request) -> Any:
        assert self._comparing
        said = await _heard(_OfPair, request)
        return self._comparing.choose(**dict(said) | {"rater": self._known(said.rater)})

    async def _talk(self, request: Request) -> Any:
        assert self._talking
        return self._talking.state(self._rater_of(request))

    async def _message(self, request: Request) -> Any:
        assert self._talking
        said = await _heard(_Message, request)
        return await self._talking.speak(self._known(said.rater), said.talk, said.message_id, said.text)

    async def _verdict(self, request: Request) -> Any:
        assert self._talking
        said = await _heard(_OfTalk, request)
        return self._talking.judge(self._known(said.rater), said.talk, said.answer_id, said.choice, said.confidence, said.reason)

    async def _leave(self, request: Request) -> Any:
        assert self._talking
        return self._talking.leave(self._known((await _heard(_PageRequest, request)).rater))

    def _rater_of(self, request: Request) -> str:
        return self._known(_PageRequest(rater=request.query_params.get("rater", "")).rater)

    def _known(self, rater: str) -> str:
        if self._raters is not None and rater not in self._raters:
            raise _Stranger("this name is not on the list: write it as you were told")
        return rater


async def _heard(kind: type[_Kind], request: Request) -> _Kind:
    """What the page says. Not read by pydantic alone: it refuses half a character, which a text that a browser cut can end with."""
    try:
        said = json.loads((await request.body()).decode())
    except (ValueError, RecursionError) as error:
        raise _NoJson("this is not what the page sends: JSON in UTF-8 is expected") from error
    return kind.model_validate(said)


def _answering(answer: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """JSON, or one line about what was wrong."""

    async def respond(request: Request) -> Response:
        try:
            return _Json(await answer(request))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])[:60]
            return _Json({"error": f"{where}: {first['msg']}"}, 422)
        except (_NoJson, _Stranger, NoSuchPlace, NoSuchTalk) as error:
            return _Json({"error": str(error)}, _STATUS[type(error)])
        except NotSaved:  # why stands in the terminal: it names the file, and that the policies
            return _Json({"error": NOT_SAVED}, 507)

    return respond


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("rlver.tasks.studies.blind").joinpath(name).read_bytes()

    async def respond(_: Request) -> Response:
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]])

    return respond


def page_guard(app: ASGIApp, hosts: frozenset[str], key: str | None) -> RequestGuard:
    """Lets through what comes from our own page. `key`: None on loopback; it stays in a cookie once the address with it was opened."""

    def check_key(scope: Scope, headers: Headers) -> Sequence[tuple[str, str]]:
        if key is None:
            return ()
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if scope["path"] == "/" and same(given, key):
            port = headers["host"].rpartition(":")[2]  # cookies are sent to all ports: another `rlver blind` there has its own
            return (("set-cookie", f"{COOKIE}_{port}={key}; HttpOnly; SameSite=Strict; Path=/"),)
        if not any(same(value, key) for value in _cookies(headers)):
            raise NotLetIn(403, "This address needs its key: open the whole address that the terminal shows.", "key")
        return ()

    return RequestGuard(app, hosts, MOST_BODY, _HEADERS, check_key, _not_let_in)


def _not_let_in(refusal: NotLetIn) -> Response:
    return PlainTextResponse(refusal.message, refusal.status, CLOSES)


def _cookies(headers: Headers) -> Iterable[str]:
    """The values of every cookie that may be ours, whatever stands around it: what other servers of this host set is sent here too."""
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = cookie.strip().partition("=")
        if name.startswith(COOKIE):
            yield value
