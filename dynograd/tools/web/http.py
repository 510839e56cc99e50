"""The routes of a service, on Starlette: JSON, streams of events, health, metrics, and the names of KServe's protocol 2."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dynograd.errors import DeadlineError, QueueFullError
from dynograd.tensor.tensor import Tensor
from dynograd.tools.web import openapi, protocol
from dynograd.tools.web.handover import Handover
from dynograd.tools.web.metrics import Metrics
from dynograd.tools.web.pauses import short_pauses
from dynograd.transforms.autobatch.requests import Attempt, Stream
from dynograd.version import __version__

if TYPE_CHECKING:
    from dynograd.tools.serving.service import Model, Service

__all__ = ["application"]

_Submitted = TypeVar("_Submitted", Future[Any], Stream)
_UNWATCHED = 0.05  # seconds of a request before it is watched whether its client goes away: most are answered sooner
_GONE = 499  # the client closed the connection; nobody reads this
_TOLD = 1000  # characters of an error that are told: some messages repeat what they were given
_CLIENTS_MISTAKES = (ValueError, TypeError, LookupError, OverflowError, RecursionError)  # of `decode` and of limits
_VERSIONS = ("", "/versions/{version}")
_LENGTH = "Inference-Header-Content-Length"


def application(service: Service) -> Starlette:
    """The ASGI application of a service; when it shuts down, what was accepted is answered first."""
    routes = _Routes(service)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with short_pauses():
            yield
            await asyncio.to_thread(service.close)

    return _Application(routes, lifespan)


class _Application(Starlette):
    """Requests to models go straight to them, past Starlette's middlewares and its table of routes."""

    def __init__(self, routes: _Routes, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]]) -> None:
        super().__init__(routes=routes.table(), lifespan=lifespan, exception_handlers={HTTPException: _refused})
        self._to_models = routes.to_models

    def build_middleware_stack(self) -> ASGIApp:
        stack = super().build_middleware_stack()
        return stack if self.user_middleware else _Straight(self._to_models, stack)


class _Straight:
    """What a POST to a model is answered by; other requests are left to `others`.

    Starlette costs a third of what the server does for a request of a small model: two middlewares, and a search through all routes.
    """

    def __init__(self, to_models: Sequence[Route], others: ASGIApp) -> None:
        self.to_models, self.others = [(route.path_regex, route.endpoint) for route in to_models], others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            for pattern, endpoint in self.to_models:
                if path := pattern.match(scope["path"]):
                    scope["path_params"] = path.groupdict()
                    await self.answer(endpoint, scope, receive, send)
                    return
        await self.others(scope, receive, send)

    async def answer(self, endpoint: Callable[..., Any], scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await endpoint(Request(scope, receive))
        except HTTPException as error:
            response = _failed(error)
        await response(scope, receive, send)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _failed(error)


def _plain(value: Any) -> object:
    """What JSON cannot say by itself: tensors and arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"an answer holds {type(value).__name__}, which JSON does not have; give the model an `encode`")


_encoded = json.JSONEncoder(default=_plain, allow_nan=False).encode


def _dumps(value: object) -> str:
    """The value as JSON, which is UTF-8; a number, which most answers are, past the encoder."""
    value = _plain(value) if isinstance(value, Tensor) else value
    return repr(value) if type(value) is float and math.isfinite(value) else _encoded(value)


class _Json(Response):
    """A reply of JSON. Starlette's own takes as long to make as the answer takes to be written down, for headers that are always these two."""

    def __init__(self, text: str, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code, self.body, self.background = code, text.encode(), None
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]
        for name, content in (headers or {}).items():
            self.headers[name] = content


def _reply(value: object, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return _Json(_dumps(value), code, headers)


class _Routes:
    def __init__(self, service: Service) -> None:
        self.service, self.metrics = service, Metrics(service)
        self.handover: Handover | None = None
        self.to_models = [
            Route(before + version + behind, answer, methods=["POST"])
            for before, behind, answer in (("/{name}", "", self.call), ("/v2/models/{name}", "/infer", self.infer))
            for version in _VERSIONS
        ]

    def table(self) -> list[Route]:
        """All routes."""
        routes = [*self.to_models]
        for version in _VERSIONS:
            routes += [
                Route("/v2/models/{name}" + version, self.described_model),
                Route("/v2/models/{name}" + version + "/ready", self.model_ready),
            ]
        health = {
            "/healthz": self.live,
            "/v2/health/live": self.live,
            "/readyz": self.ready,
            "/v2/health/ready": self.ready,
        }
        routes += [Route(path, answer) for path, answer in health.items()]
        routes += [Route(path, self._html(text)) for path, text in self.service.pages.items()]
        routes += [
            Route("/metrics", self.figures),
            Route("/openapi.json", self.described),
            Route("/docs", self.described_page),
            Route("/v2", self.server),
        ]
        return routes

    def _html(self, text: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            return HTMLResponse(text)

        return show

    # --- about the service -----------------------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        return _reply({"live": True})

    async def ready(self, request: Request) -> Response:
        ready = bool(self.service.models) and not self.service.closing
        return _reply({"ready": ready}, 200 if ready else 503)

    async def figures(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def described(self, request: Request) -> Response:
        return _reply(openapi.document(self.service))

    async def described_page(self, request: Request) -> Response:
        return HTMLResponse(openapi.page(self.service))

    async def server(self, request: Request) -> Response:
        self.check_key(request)
        return _reply({"name": "dynograd", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def described_model(self, request: Request) -> Response:
        self.check_key(request)
        model = self.model(request)
        tensors = {
            kind: [{"name": name, "datatype": datatype, "shape": shape} for name, datatype, shape in rows]
            for kind, rows in (("inputs", model.inputs), ("outputs", model.outputs))
        }
        versions = list(self.service.models[model.name])
        return _reply({"name": model.name, "versions": versions, "platform": "dynograd", **tensors})

    async def model_ready(self, request: Request) -> Response:
        self.check_key(request)
        model = self.model(request)
        return _reply({"name": model.name, "ready": not self.service.closing}, 503 if self.service.closing else 200)

    # --- models -----------------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> Response:
        """An example as JSON; the answer as JSON, or as events."""
        return await self.timed(request, self._call)

    async def infer(self, request: Request) -> Response:
        """Tensors by KServe's protocol."""
        return await self.timed(request, self._infer)

    async def _call(self, request: Request, model: Model) -> Response:
        body = _as_json(await self.body(request))
        if model.is_stream and _header(request, b"accept") != "application/json":
            stream = self.accepted(lambda: model.stream(body, self.deadline(request)))
            return StreamingResponse(_events(model, body, stream), media_type="text/event-stream")
        value = await self.value(request, model, body)
        return _reply(model.answer(value, body))

    async def _infer(self, request: Request, model: Model) -> Response:
        body = await self.body(request)
        length = _header(request, _LENGTH.lower().encode())
        try:
            header, example = protocol.read_request(body, None if length is None else int(length))
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the request cannot be read: {error}") from None
        answer = model.answer(await self.value(request, model, example), example)
        missing = protocol.missing_output(header, answer)
        if missing is not None:
            raise HTTPException(400, missing)
        reply, length_of_text = protocol.write_answer(header, model.name, model.version, answer)
        if length_of_text is None:
            return Response(reply, media_type="application/json")
        return Response(reply, headers={_LENGTH: str(length_of_text)}, media_type="application/octet-stream")

    async def value(self, request: Request, model: Model, body: Any) -> object:
        """The engine's answer; of a stream, the list of its values."""
        seconds = self.deadline(request)
        if model.is_stream:
            stream = self.accepted(lambda: model.stream(body, seconds))
            self.metrics.changed(model)
            return await _while_connected(request, seconds, stream.future, _list(stream))
        future = self.accepted(lambda: model.submit(body, seconds))
        self.metrics.changed(model)
        if self.handover is None or self.handover.loop is not asyncio.get_running_loop():
            self.handover = Handover(asyncio.get_running_loop())
        if not await self.handover.soon(future, _UNWATCHED if seconds is None else min(seconds, _UNWATCHED)):
            return await _while_connected(request, seconds, future, asyncio.wrap_future(future))
        return future.result()

    def accepted(self, submit: Callable[[], _Submitted]) -> _Submitted:
        """What `submit` returns; a ValueError is the client's mistake.

        Raises:
            HTTPException: 400, 429 or 503.
        """
        if self.service.closing:
            raise HTTPException(503, "the service is closing")
        try:
            return submit()
        except QueueFullError as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
        except _CLIENTS_MISTAKES as error:
            raise HTTPException(400, f"{type(error).__name__}: {error}") from None

    async def timed(self, request: Request, answer: Callable[[Request, Model], Awaitable[Response]]) -> Response:
        """The answer, counted; an error is told as JSON, with the status that fits."""
        self.check_key(request)
        model = self.model(request)
        begun, code, attempt = monotonic(), _GONE, Attempt()
        try:
            with attempt:
                response = await answer(request, model)
            if attempt.error is not None:
                response = _failed(attempt.error)
            code = response.status_code
            return response
        finally:
            self.metrics.answered(model, code, monotonic() - begun)

    # --- what a request says ----------------------------------------------------------------------------------------------------

    def check_key(self, request: Request) -> None:
        key = self.service.api_key
        if key is None:
            return
        bearer = _header(request, b"authorization") or ""
        offered = bearer[7:] if bearer.lower().startswith("bearer ") else _header(request, b"x-api-key") or ""
        if not hmac.compare_digest(offered.encode(), key.encode()):
            raise HTTPException(401, "send the API key as `Authorization: Bearer KEY`", {"WWW-Authenticate": "Bearer"})

    def model(self, request: Request) -> Model:
        try:
            return self.service.model(request.path_params["name"], request.path_params.get("version"))
        except KeyError as error:
            raise HTTPException(404, str(error.args[0])) from None

    def deadline(self, request: Request) -> float | None:
        text = _header(request, b"x-request-timeout")
        if text is None:
            return self.service.max_seconds
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise HTTPException(400, f"X-Request-Timeout: expected a positive number of seconds, got {text!r}")
        return seconds

    async def body(self, request: Request) -> bytes:
        most, parts, size, is_more = self.service.max_body, [], 0, True
        if _header(request, b"content-encoding") not in (None, "identity"):
            raise HTTPException(415, "the body is compressed; send it as it is")
        while is_more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size, is_more = size + len(parts[-1]), message.get("more_body", False)
            if size > most:
                raise HTTPException(413, f"the body has more than {most} bytes")
        return b"".join(parts)


def _header(request: Request, name: bytes) -> str | None:
    """A header by its name in small letters."""
    for key, value in request.scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


def _as_json(body: bytes) -> object:
    try:
        return protocol.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from None


def _failed(error: BaseException) -> Response:
    """The answer that tells an error."""
    if isinstance(error, HTTPException):
        return _reply({"error": error.detail[:_TOLD]}, error.status_code, error.headers)
    if isinstance(error, DeadlineError):
        return _reply({"error": str(error)}, 504)
    if isinstance(error, (CancelledError, ClientDisconnect)):
        return _reply({"error": "the request was cancelled"}, _GONE)
    return _reply({"error": _told(error)}, 500)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_TOLD]


async def _list(stream: Stream) -> list[object]:
    return [value async for value in stream]


async def _while_connected(
    request: Request, seconds: float | None, future: Future[Any], reading: Awaitable[object]
) -> object:
    """What `reading` gives; the request's future is cancelled when the client goes away, or its time is over."""
    answer, gone = asyncio.ensure_future(reading), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((answer, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not answer.done():
            raise ClientDisconnect
        if not answer.done():
            raise DeadlineError(f"the deadline of {seconds:g} s passed before the request was answered.")
        if answer.cancelled():
            raise CancelledError
        return answer.result()
    finally:
        gone.cancel()
        future.cancel()
        answer.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(model: Model, body: Any, stream: Stream) -> AsyncIterator[str]:
    """Values as server-sent events; then `end` with the return value, or `error`. A client that goes away stops the program."""
    attempt = Attempt()
    try:
        with attempt:
            async for value in stream:
                yield f"data: {_dumps(model.answer(value, body))}\n\n"
            yield f"event: end\ndata: {_dumps(stream.future.result())}\n\n"
        if attempt.error is not None:
            yield f"event: error\ndata: {_dumps({'error': _told(attempt.error)})}\n\n"
    finally:
        stream.cancel()
