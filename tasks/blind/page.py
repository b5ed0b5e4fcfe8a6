"""The page's server: three files and a few questions, each answered with what a person may know."""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from components.evaluation.blind.answers import MOST_MESSAGE, MOST_NAME, MOST_REASON
from tasks.blind.answer_file import NotSaved
from tasks.blind.comparing import Comparing, NoSuchPlace
from tasks.blind.talking import NoSuchTalk, Talking

FILES = {"/": "page.html", "/page.css": "page.css"} | {
    f"/{name}.js": f"{name}.js" for name in ("page", "asking", "judging", "comparing", "talking")
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def known_name(name: str) -> str:
    """One spelling of a person's name. Raises ValueError for none."""
    name = " ".join(unicodedata.normalize("NFC", name).split()).casefold()
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable():
        raise ValueError(f"a name has 1 to {MOST_NAME} characters")
    return name


Name = Annotated[str, Field(max_length=4 * MOST_NAME), AfterValidator(known_name)]
Identity = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rater: Name


class _Judgement(_Asked):
    answer_id: Identity
    choice: Literal["left", "right", "tie"]
    confidence: int = Field(ge=1, le=3)
    reason: str = Field(max_length=MOST_REASON)


class _OfPair(_Judgement):
    place: int = Field(ge=0)
    seconds: float | None = Field(ge=0, lt=1e6)


class _OfTalk(_Judgement):
    talk: Identity


class _Message(_Asked):
    talk: Identity | None
    message_id: Identity
    text: str = Field(min_length=1, max_length=MOST_MESSAGE)


class _Stranger(ValueError):
    """A name that is not among those who were asked."""


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
            self._known(_Asked(rater=asked).rater)
        return {"compare": self._comparing is not None, "talk": self._talking is not None, "cards": self._cards}

    async def _pair(self, request: Request) -> Any:
        """The pair at `place`, or without one the first that waits; where none waits, the progress alone."""
        assert self._comparing
        rater = self._rater_of(request)
        asked = request.query_params.get("place")
        if asked is None:
            place = self._comparing.progress(rater)["next"]
            return self._comparing.progress(rater) if place is None else self._comparing.view(rater, place)
        if not asked.isdecimal():
            raise NoSuchPlace("a place is a number")
        return self._comparing.view(rater, int(asked))

    async def _answer(self, request: Request) -> Any:
        assert self._comparing
        said = _OfPair.model_validate_json(await request.body())
        return self._comparing.choose(
            self._known(said.rater), said.place, said.answer_id, said.choice, said.confidence, said.reason.strip(), said.seconds
        )

    async def _talk(self, request: Request) -> Any:
        assert self._talking
        return self._talking.state(self._rater_of(request))

    async def _message(self, request: Request) -> Any:
        assert self._talking
        said = _Message.model_validate_json(await request.body())
        return await self._talking.speak(self._known(said.rater), said.talk, said.message_id, said.text.strip())

    async def _verdict(self, request: Request) -> Any:
        assert self._talking
        said = _OfTalk.model_validate_json(await request.body())
        return self._talking.judge(self._known(said.rater), said.talk, said.answer_id, said.choice, said.confidence, said.reason.strip())

    async def _leave(self, request: Request) -> Any:
        assert self._talking
        return self._talking.leave(self._known(_Asked.model_validate_json(await request.body()).rater))

    def _rater_of(self, request: Request) -> str:
        return self._known(_Asked(rater=request.query_params.get("rater", "")).rater)

    def _known(self, rater: str) -> str:
        if self._raters is not None and rater not in self._raters:
            raise _Stranger("this name is not on the list: write it as you were told")
        return rater


def _answering(answer: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """JSON, or one line about what was wrong."""

    async def respond(request: Request) -> Response:
        try:
            return JSONResponse(await answer(request))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)
        except (NoSuchPlace, NoSuchTalk) as error:
            return JSONResponse({"error": str(error)}, 409)
        except _Stranger as error:
            return JSONResponse({"error": str(error)}, 403)
        except NotSaved:
            return JSONResponse({"error": "not saved: the disk of the server takes nothing more; tell who invited you"}, 507)

    return respond


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("tasks.blind").joinpath(name).read_bytes()

    async def respond(_: Request) -> Response:
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]])

    return respond
