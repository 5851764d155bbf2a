"""VerticalPodAutoscalerCheckpoints: convert histograms to objects and back. Pure."""

from __future__ import annotations

from typing import Any

from strato.advice.histogram import Checkpoint, Histogram
from strato.advice.use import Aggregation, UseHistograms
from strato.api.verticalautoscaling import (
    CHECKPOINT_VERSION,
    CheckpointStatus,
    HistogramCheckpoint,
    VerticalPodAutoscaler,
)
from strato.clock import format_time, parse_time

Json = dict[str, Any]


def name_of(autoscaler: str, container: str) -> str:
    """Return the name of the checkpoint of a container."""
    return f"{autoscaler}-{container}"


def body_of(autoscaler: VerticalPodAutoscaler, container: str, use: UseHistograms, now: float) -> Json:
    """Return the checkpoint of a container; it is owned by the autoscaler and deleted with it."""
    meta = autoscaler.metadata
    owner = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {
            "name": name_of(meta.name, container),
            "namespace": meta.namespace,
            "ownerReferences": [owner],
        },
        "spec": {"vpaObjectName": meta.name, "containerName": container},
        "status": {
            "version": CHECKPOINT_VERSION,
            "lastUpdateTime": format_time(now),
            "cpuHistogram": _saved(use.cpu),
            "memoryHistogram": _saved(use.memory),
            "firstSampleStart": format_time(use.first_sample),
            "lastSampleStart": format_time(use.last_sample),
            "totalSamplesCount": use.samples,
        },
    }


def _saved(histogram: Histogram) -> Json:
    saved = histogram.save()
    weights = {str(bucket): weight for bucket, weight in saved.bucket_weights.items()}
    reference = {"referenceTimestamp": format_time(saved.reference)} if weights else {}
    return {"bucketWeights": weights, "totalWeight": saved.total_weight, **reference}


def use_of(status: CheckpointStatus) -> UseHistograms:
    """Return the histograms of a checkpoint.

    Raises:
        ValueError: The checkpoint has another version, or a text in it cannot be parsed.
        InvalidCheckpoint: The content of a histogram is impossible.
    """
    if status.version != CHECKPOINT_VERSION:
        raise ValueError(f"version {status.version!r}; known is {CHECKPOINT_VERSION}")
    use = UseHistograms(Aggregation())
    for histogram, saved in ((use.cpu, status.cpu_histogram), (use.memory, status.memory_histogram)):
        _load(histogram, saved)
    if status.first_sample_start and status.last_sample_start and status.total_samples_count > 0:
        use.first_sample, use.last_sample = parse_time(status.first_sample_start), parse_time(status.last_sample_start)
        use.samples = status.total_samples_count
    return use


def _load(histogram: Histogram, saved: HistogramCheckpoint) -> None:
    reference = parse_time(saved.reference_timestamp) if saved.reference_timestamp else histogram.reference
    histogram.load(Checkpoint(saved.total_weight, saved.bucket_weights, reference))
