"""One registry of metrics per process part, rendered in the Prometheus text format.

Rooms create their metrics through an injected `Registry`, never at import, so that two schedulers in one process (or a
thousand simulations) do not share counters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as _Sample

__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Histograms", "Registry", "Sample"]

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Sample(NamedTuple):
    """One value of a counter or gauge that a component keeps in a variable of its own."""

    name: str
    """A counter's name ends with ``_total``; without that it is rendered under exactly this name, without a type."""
    labels: Mapping[str, str]
    value: float


class _Plain(Counter):
    """A counter rendered under exactly its name, without ``_total``; readers see a value without a type."""

    _type = "unknown"

    def _child_samples(self) -> Iterable[_Sample]:
        return (_Sample("", {}, self._value.get(), None, self._value.get_exemplar()),)


class Histogram:
    """A histogram without a lock, for hot paths; only one thread may write."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, buckets: Sequence[float]) -> None:
        self._bounds = tuple(buckets)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def rendered(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts by upper bound, and the sum of all values."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True)), self._sum


class Histograms:
    """A `Histogram` for each combination of label values, made when it is first asked for.

    Args:
        buckets: Upper bounds, ascending.
    """

    __slots__ = ("_buckets", "_made")

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._made: dict[tuple[str, ...], Histogram] = {}

    def of(self, *values: str) -> Histogram:
        """Return the histogram of these label values, given in the order of the labels."""
        histogram = self._made.get(values)
        if histogram is None:
            histogram = self._made[values] = Histogram(self._buckets)
        return histogram

    def items(self) -> list[tuple[tuple[str, ...], Histogram]]:
        """Return all combinations of label values with their histograms."""
        return list(self._made.items())


class Registry:
    """Creates metrics once by name and renders them all."""

    def __init__(self) -> None:
        self._collector = CollectorRegistry(auto_describe=False)
        self._known: dict[str, Counter | Gauge] = {}

    def counter(self, name: str, help_text: str, labels: Sequence[str] = (), *, plain: bool = False) -> Counter:
        """Return the counter of that name, made on first use; ``_total`` is appended when rendered, unless plain."""
        metric = self._known.get(name)
        if metric is None:
            made = _Plain if plain else Counter
            metric = self._known[name] = made(name, help_text, labels, registry=self._collector)
        assert isinstance(metric, Counter)
        return metric

    def gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Gauge:
        """Return the gauge of that name, made on first use."""
        metric = self._known.get(name)
        if metric is None:
            metric = self._known[name] = Gauge(name, help_text, labels, registry=self._collector)
        assert isinstance(metric, Gauge)
        return metric

    def histogram(self, name: str, help_text: str, buckets: Sequence[float]) -> Histogram:
        """Return one `Histogram` without labels."""
        return self.histograms(name, help_text, (), buckets).of()

    def histograms_of(
        self, name: str, help_text: str, label: str, values: Sequence[str], buckets: Sequence[float]
    ) -> list[Histogram]:
        """Return one `Histogram` for each value of a label."""
        made = self.histograms(name, help_text, (label,), buckets)
        return [made.of(value) for value in values]

    def histograms(self, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histograms:
        """Return a `Histogram` for any values of some labels."""
        made = Histograms(buckets)

        def rendered() -> Iterable[Metric]:
            family = HistogramMetricFamily(name, help_text, labels=list(labels))
            for values, histogram in made.items():
                counts, total = histogram.rendered()
                family.add_metric(values, counts, total)
            return (family,)

        self._collector.register(_Families(rendered))
        return made

    def collect(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Call ``source`` for counters whenever metrics are rendered; for paths too hot for a counter with a lock."""
        self._collector.register(_Source(source, CounterMetricFamily))

    def collect_gauges(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Call ``source`` for gauges whenever metrics are rendered, so that they cost nothing between scrapes."""
        self._collector.register(_Source(source, GaugeMetricFamily))

    def watch_process(self) -> None:
        """Add metrics of this process: processor time, memory, open files, its start."""
        ProcessCollector(registry=self._collector)

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._collector)


class _Families(Collector):
    """Adapts a function that returns whole metric families to prometheus_client's collector."""

    def __init__(self, source: Callable[[], Iterable[Metric]]) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        return self._source()


class _Source(Collector):
    """Adapts a function that returns samples to prometheus_client's collector."""

    def __init__(
        self, source: Callable[[], Iterable[Sample]], family: type[CounterMetricFamily | GaugeMetricFamily]
    ) -> None:
        self._source = source
        self._family = family

    def collect(self) -> Iterable[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily] = {}
        for name, labels, value in self._source():
            family = families.get(name)
            if family is None:
                exact = self._family is CounterMetricFamily and not name.endswith("_total")
                made = UnknownMetricFamily if exact else self._family
                family = families[name] = made(name, name.replace("_", " "), labels=list(labels))
            family.add_metric(list(labels.values()), value)
        return families.values()
