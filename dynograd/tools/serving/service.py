"""Names and versions of models that answer requests, and the limits of the requests: what stands behind HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dynograd.tools.serving.engines import Engine
from dynograd.transforms.autobatch.pools import Pool
from dynograd.transforms.autobatch.requests import Stream, positive
from dynograd.transforms.autobatch.tasks import batched

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from dynograd.export.exported_program import ExportedProgram

__all__ = ["Model", "Service"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = ("v2", "metrics", "healthz", "readyz", "docs", "openapi.json")


class Model(NamedTuple):
    """A version of a model of a `Service`."""

    name: str
    version: str
    engine: Pool | Engine
    decode: Callable[[Any], Any] | None
    encode: Callable[[Any, Any], Any] | None
    max_length: int | None
    inputs: tuple[tuple[str, str, list[int]], ...]
    outputs: tuple[tuple[str, str, list[int]], ...]

    @property
    def is_stream(self) -> bool:
        """Whether it answers value by value."""
        return isinstance(self.engine, Pool) and self.engine.is_stream

    def example(self, body: Any) -> object:
        """What the engine gets for a request's body.

        Raises:
            ValueError: the body is too long, or `decode` refuses it.
        """
        example = body if self.decode is None else self.decode(body)
        for part in example.values() if isinstance(example, dict) else (example,):
            has_length = isinstance(part, (str, bytes, list, tuple)) or getattr(part, "ndim", 0) > 0
            if self.max_length is not None and has_length and len(part) > self.max_length:
                raise ValueError(
                    f"{self.name}: the input has length {len(part)}, and at most {self.max_length} is taken."
                )
        return example

    def submit(self, body: Any, deadline: float | None) -> Future[Any]:
        """The future of the answer."""
        return self.engine.submit(self.example(body), deadline=deadline)

    def stream(self, body: Any, deadline: float | None) -> Stream:
        """The values of the answer as they come."""
        assert isinstance(self.engine, Pool)
        return self.engine.stream(self.example(body), deadline=deadline)

    def answer(self, value: Any, body: Any) -> object:
        """What goes out for an answer of the engine, or for a value of its stream, to a request's body."""
        return value if self.encode is None else self.encode(value, body)


class Service:
    """Models under names and versions, behind one HTTP server: `python -m dynograd.serve app.py` serves the `service` of `app.py`.

    Args:
        api_key: what clients send as `Authorization: Bearer KEY` or `X-API-Key: KEY`; None: all are let in. Health is open to all.
        max_body: the most bytes of a request.
        max_seconds: the deadline of requests that bring none.
    Raises:
        ValueError: a limit is no positive number.

    >>> service = dynograd.serving.Service()
    >>> model = service.add("double", lambda x: x * 2)
    >>> service.model("double").submit(4, None).result()
    8
    >>> service.close()
    True
    """

    def __init__(
        self, *, api_key: str | None = None, max_body: int = 1 << 20, max_seconds: float | None = None
    ) -> None:
        positive("Service", "max_body", max_body, int)
        positive("Service", "max_seconds", max_seconds)
        self.api_key, self.max_body, self.max_seconds = api_key, max_body, max_seconds
        self.models: dict[str, dict[str, Model]] = {}
        self.pages: dict[str, str] = {}
        self.closing = False

    def add(
        self,
        name: str,
        engine: Pool | Engine | Callable[[Any], Any],
        *,
        version: str = "1",
        decode: Callable[[Any], Any] | None = None,
        encode: Callable[[Any, Any], Any] | None = None,
        max_length: int | None = None,
        inputs: Sequence[tuple[str, str, list[int]]] = (),
        outputs: Sequence[tuple[str, str, list[int]]] = (),
    ) -> Model:
        """A model, or another version of one; the latest one added answers where no version is named.

        Args:
            name: letters, digits, `.`, `_`, `-`.
            engine: a `Batcher`, a `Caller`, a pool, or a function of one example, for which a pool is made.
            version: its version.
            decode: from a request's JSON, or its tensors, to what the engine gets; a ValueError is the client's mistake.
            encode: from an answer and the request's JSON, or tensors, to what is answered.
            max_length: the greatest length of an example (of each part, where it is a dict).
            inputs: for clients that ask: (name, datatype such as "INT64", shape with -1 where it varies).
            outputs: the same of the answer.
        Returns:
            The model.
        Raises:
            ValueError: the name cannot be one, or has that version already.
        """
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise ValueError(
                f"Service.add: expected a name of letters, digits, '.', '_', '-', none of {_TAKEN}, got {name!r}."
            )
        if not _NAME.fullmatch(version):
            raise ValueError(f"Service.add: expected a version such as '1' or '2024-05', got {version!r}.")
        positive("Service.add", "max_length", max_length, int)
        versions = self.models.setdefault(name, {})
        if version in versions:
            raise ValueError(f"Service.add: {name!r} has a version {version!r} already. Give another version.")
        if not isinstance(engine, (Pool, Engine)):
            engine = batched(engine, running=True)
        model = Model(name, version, engine, decode, encode, max_length, tuple(inputs), tuple(outputs))
        versions[version] = model
        return model

    def add_program(
        self,
        name: str,
        program: ExportedProgram | str | os.PathLike[str],
        *,
        version: str = "1",
        max_length: int | None = None,
        max_tokens: int = 8192,
        max_rows: int = 64,
        max_wait: float = 0.002,
        queue: int = 1024,
    ) -> Model:
        """An exported program as a model. Inputs and outputs have its names; JSON brings one as nested lists, several as an object.

        Where its one input is a ragged tensor (B, j, ...) and each output has a row for each of its rows, a request brings one row, and rows of
        all clients are answered in ragged batches. Else a request brings whole tensors; of a ragged input `x` the values and `x_offsets`.

        Args:
            name, version, max_length: as of `add`.
            program: a program, or the path of its file.
            max_tokens, max_rows, max_wait: of the `Batcher`, where it takes rows.
            queue: how many requests may wait.
        Returns:
            The model.
        Raises:
            ProgramError: the file holds no program, or it has complex numbers.
            ValueError: as of `add`.

        >>> scale = dynograd.export.export(lambda x: 2 * x, (dynograd.ones(3),), dynamic_shapes={"x": {0: "n"}})
        >>> with dynograd.serving.Service() as service:
        ...     model = service.add_program("scale", scale)
        ...     model.submit([1.0, 2.5], None).result(), model.inputs
        (tensor([2., 5.]), (TensorSpec(name='x', datatype='FP32', shape=[-1]),))
        """
        from dynograd.export.files import load_program
        from dynograd.tools.serving.batcher import Batcher
        from dynograd.tools.serving.engines import Caller
        from dynograd.tools.serving.programs import ServedProgram

        served = ServedProgram(load_program(program) if isinstance(program, (str, os.PathLike)) else program)
        engine: Engine
        if served.takes_rows:
            engine = Batcher(served, max_tokens=max_tokens, max_rows=max_rows, max_wait=max_wait, queue=queue)
        else:
            engine = Caller(served, queue=queue)
        return self.add(
            name,
            engine,
            version=version,
            decode=served.decode,
            max_length=max_length,
            inputs=served.inputs,
            outputs=served.outputs,
        )

    def page(self, path: str, html: str) -> None:
        """Shows a page of HTML.

        Args:
            path: such as "/".
            html: its text.
        """
        self.pages[path] = html

    def model(self, name: str, version: str | None = None) -> Model:
        """A model by its name.

        Args:
            name: as it was added.
            version: None: the one that was added last.
        Returns:
            The model.
        Raises:
            KeyError: there is none.
        """
        versions = self.models.get(name, {})
        if version is None and versions:
            version = next(reversed(versions))
        if version not in versions:
            have = ", ".join(f"{known} ({', '.join(of)})" for known, of in self.models.items()) or "none"
            raise KeyError(
                f"there is no model {name!r}{'' if version is None else f' of version {version!r}'}; there are: {have}"
            )
        return versions[version]

    @property
    def all_models(self) -> list[Model]:
        """Every version of every model."""
        return [model for versions in self.models.values() for model in versions.values()]

    def app(self) -> Starlette:
        """The ASGI application, for any ASGI server, or to be mounted in another one.

        Returns:
            A Starlette application.
        Raises:
            ModuleNotFoundError: the extra `serve` is not installed.
        """
        try:
            from dynograd.tools.web.http import application
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"dynograd.serving: HTTP needs {error.name}: pip install 'dynograd[serve]'.", name=error.name
            ) from None
        return application(self)

    def close(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes no new requests, and waits until those that were accepted are answered.

        Args:
            drain: False: cancel them.
            timeout: seconds to wait at most, for each model.
        Returns:
            Whether nothing is left.
        """
        self.closing = True
        return all([model.engine.close(drain, timeout) for model in self.all_models])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)
