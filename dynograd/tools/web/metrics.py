"""What a service tells Prometheus: requests and their seconds by model and status, and what waits and runs, of all worker processes together."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from dynograd.transforms.autobatch.pools import Pool

if TYPE_CHECKING:
    from dynograd.tools.serving.service import Model, Service

__all__ = ["FOLDER", "Metrics"]

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client knows the folder where worker processes put their figures."""

_OF_MODEL = ["model", "version"]


class Metrics:
    """The metrics of one service."""

    def __init__(self, service: Service) -> None:
        self.service, self.registry = service, CollectorRegistry()
        self.folder = os.environ.get(FOLDER)
        more: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("dynograd_requests", "HTTP requests to models, by status", [*_OF_MODEL, "code"], **more)
        self.seconds = Histogram(
            "dynograd_request_seconds", "Seconds until a request had its answer", _OF_MODEL, **more
        )
        self.ended = Counter("dynograd_ended", "Requests by how they ended", [*_OF_MODEL, "how"], **more)
        self.calls = Counter("dynograd_batched_calls", "Rows, or calls of ops, that ran in batches", _OF_MODEL, **more)
        self.groups = Counter("dynograd_batches", "Batches, or groups of calls, that ran", _OF_MODEL, **more)
        more["multiprocess_mode"] = "livesum"
        self.waiting = Gauge("dynograd_waiting", "Requests that wait to be begun", _OF_MODEL, **more)
        self.under_way = Gauge("dynograd_under_way", "Requests that are computed", _OF_MODEL, **more)
        self._noted: dict[tuple[str, ...], tuple[Any, int]] = {}  # the figure of a queue, and what it is
        self._children: dict[tuple[str, str, int], tuple[Histogram, Counter]] = {}  # of a model and a status
        self._answers: dict[tuple[str, str, int], list[float]] = {}  # the seconds of those that are not counted yet
        self._changed: dict[tuple[str, str], Model] = {}
        self._is_due = False

    def answered(self, model: Model, code: int, seconds: float) -> None:
        """A request was answered with a status, after so many seconds."""
        self._answers.setdefault((model.name, model.version, code), []).append(seconds)
        self.changed(model)

    def changed(self, model: Model) -> None:
        """A request has come or gone: other workers may be asked for the figures of this one's queue. The event loop's next turn counts all of this one."""
        self._changed[model.name, model.version] = model
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._count_all)

    def _count_all(self) -> None:
        self._is_due = False
        for key, answers in self._answers.items():
            if key not in self._children:
                self._children[key] = (self.seconds.labels(*key[:2]), self.requests.labels(*key))
            histogram, counter = self._children[key]
            for seconds in answers:
                histogram.observe(seconds)
            counter.inc(len(answers))
        self._answers.clear()
        if self.folder is not None:
            for model in self._changed.values():
                self._note(model)
        self._changed.clear()

    def _note(self, model: Model) -> None:
        """Takes the figures of a model's queue as they are now."""
        labels, engine = (model.name, model.version), model.engine
        self._set(self.waiting, labels, len(engine.desk.waiting))
        self._set(self.under_way, labels, engine.desk.under_way)
        for how, count in list(engine.desk.counts.items()):
            self._set(self.ended, (*labels, how), count)
        calls, groups = (engine.calls, engine.groups) if isinstance(engine, Pool) else (engine.rows, engine.batches)
        self._set(self.calls, labels, calls)
        self._set(self.groups, labels, groups)

    def _set(self, metric: Counter | Gauge, labels: tuple[str, ...], value: int) -> None:
        """Brings a figure to a value (which of a counter only rises). To look a figure up, and to write it for other workers, costs microseconds."""
        key = (metric._name, *labels)
        figure, known = self._noted.get(key) or (metric.labels(*labels), None)
        if value != known:
            figure.inc(value - (known or 0))
            self._noted[key] = figure, value

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        self._count_all()
        for model in self.service.all_models:
            self._note(model)
        if self.folder is None:
            return generate_latest(self.registry)
        _forget_the_dead(Path(self.folder))
        everyone = CollectorRegistry()
        multiprocess.MultiProcessCollector(everyone, self.folder)
        return generate_latest(everyone)


def _forget_the_dead(folder: Path) -> None:
    """What a worker that was killed had waiting waits no more."""
    for file in folder.glob("gauge_live*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(process, str(folder))
