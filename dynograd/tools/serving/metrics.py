"""What a service tells Prometheus: requests and their seconds by model and status, and what waits and runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dynograd.tools.serving.batcher import Batcher

if TYPE_CHECKING:
    from dynograd.tools.serving.service import Service

__all__ = ["Metrics"]

_OF_MODEL = ["model", "version"]


class Metrics(Collector):
    """The metrics of one service."""

    def __init__(self, service: Service) -> None:
        self.service, self.registry = service, CollectorRegistry()
        self.requests = Counter(
            "dynograd_requests", "HTTP requests to models, by status", [*_OF_MODEL, "code"], registry=self.registry
        )
        self.seconds = Histogram(
            "dynograd_request_seconds", "Seconds until a request had its answer", _OF_MODEL, registry=self.registry
        )
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Figures of the queues, as they are now."""
        waiting = GaugeMetricFamily("dynograd_waiting", "Requests that wait to be begun", labels=_OF_MODEL)
        under_way = GaugeMetricFamily("dynograd_under_way", "Requests that are computed", labels=_OF_MODEL)
        ended = CounterMetricFamily("dynograd_ended", "Requests by how they ended", labels=[*_OF_MODEL, "how"])
        calls = CounterMetricFamily("dynograd_batched_calls", "Rows, or calls of ops, that ran in batches", labels=_OF_MODEL)
        groups = CounterMetricFamily("dynograd_batches", "Batches, or groups of calls, that ran", labels=_OF_MODEL)
        for model in self.service.all_models:
            labels, engine = [model.name, model.version], model.engine
            waiting.add_metric(labels, len(engine.desk.waiting))
            under_way.add_metric(labels, engine.desk.under_way)
            for how, count in engine.desk.counts.items():
                ended.add_metric([*labels, how], count)
            calls.add_metric(labels, engine.rows if isinstance(engine, Batcher) else engine.calls)
            groups.add_metric(labels, engine.batches if isinstance(engine, Batcher) else engine.groups)
        return iter((waiting, under_way, ended, calls, groups))

    def describe(self) -> Iterator[Metric]:
        """Models may come later: names are not checked ahead."""
        return iter(())

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)
