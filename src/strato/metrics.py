"""One registry of metrics per process part, rendered in the Prometheus text format.

Rooms create their metrics through a `Registry` they are handed, never at import, so that two schedulers
in one process (or a thousand simulations) do not share counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Registry", "Sample"]

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Sample(NamedTuple):
    """One value of a counter or gauge that its owner keeps itself."""

    name: str
    """Of a counter it ends with ``_total``."""
    labels: Mapping[str, str]
    value: float


class Registry:
    """Creates metrics once by name and renders them all."""

    def __init__(self) -> None:
        self._collector = CollectorRegistry(auto_describe=False)
        self._known: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Counter:
        """Return the counter of that name, made on first use; ``_total`` is appended when rendered."""
        metric = self._known.get(name)
        if metric is None:
            metric = self._known[name] = Counter(name, help_text, labels, registry=self._collector)
        assert isinstance(metric, Counter)
        return metric

    def gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Gauge:
        """Return the gauge of that name, made on first use."""
        metric = self._known.get(name)
        if metric is None:
            metric = self._known[name] = Gauge(name, help_text, labels, registry=self._collector)
        assert isinstance(metric, Gauge)
        return metric

    def histogram(
        self, name: str, help_text: str, labels: Sequence[str] = (), buckets: Sequence[float] | None = None
    ) -> Histogram:
        """Return the histogram of that name, made on first use; ``buckets`` are upper bounds."""
        metric = self._known.get(name)
        if metric is None:
            chosen = tuple(buckets) if buckets is not None else Histogram.DEFAULT_BUCKETS
            metric = Histogram(name, help_text, labels, registry=self._collector, buckets=chosen)
            self._known[name] = metric
        assert isinstance(metric, Histogram)
        return metric

    def collect(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Ask ``source`` for counters whenever metrics are rendered: for paths too hot for a locked counter."""
        self._collector.register(_Source(source, CounterMetricFamily))

    def collect_gauges(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Ask ``source`` for gauges whenever metrics are rendered: what nobody looks at costs nothing."""
        self._collector.register(_Source(source, GaugeMetricFamily))

    def watch_process(self) -> None:
        """Add what this process takes: processor time, memory, open files, its start."""
        ProcessCollector(registry=self._collector)

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._collector)


class _Source(Collector):
    """Adapts a function to the library's collector."""

    def __init__(
        self, source: Callable[[], Iterable[Sample]], family: type[CounterMetricFamily | GaugeMetricFamily]
    ) -> None:
        self._source = source
        self._family = family

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, labels, value in self._source():
            family = families.get(name)
            if family is None:
                family = families[name] = self._family(name, name.replace("_", " "), labels=list(labels))
            family.add_metric(list(labels.values()), value)
        return families.values()
