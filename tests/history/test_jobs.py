"""What the history takes from a TrainJob."""

from __future__ import annotations

import msgspec
import pytest

from strato.api.trainer import TrainJob
from strato.history.jobs import facts_of
from strato.history.rows import COMPLETED, FAILED


@pytest.mark.parametrize(("verdict", "phase"), [("Complete", COMPLETED), ("Failed", FAILED), ("Suspended", "")])
def test_facts_of_a_train_job(verdict: str, phase: str) -> None:
    condition = {"type": verdict, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    body = {
        "metadata": {
            "name": "ctr-20260101",
            "namespace": "ads",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"scheduling.volcano.sh/queue-name": "rec"},
        },
        "spec": {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 4}},
        "status": {"conditions": [condition]},
    }
    facts = facts_of(msgspec.convert(body, TrainJob))
    assert (facts.kind, facts.template) == ("trainer.kubeflow.org/v1alpha1/TrainJob", "ctr")
    assert (facts.queue, facts.min_available, facts.phase) == ("rec", 4, phase)
    assert facts.ended == (facts.submitted + 10 if phase else None)
