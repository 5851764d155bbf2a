"""What is placed in a queue, and what counts towards the queue's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from strato.admission import AdmissionRequest
from strato.admission.queueplacement import NotPlaced, PlaceInQueue, SubmittedWork
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User
from strato.errors import Forbidden
from tests.admission.reader import FakeWorld

Json = dict[str, Any]


class Rules:
    """Places everything in one queue; its limits admit none but note what they are asked."""

    def __init__(self, queue: str = "") -> None:
        self.queue = queue
        self.counted: list[tuple[str, str]] = []

    def place(self, submission: SubmittedWork, queues: Sequence[Json]) -> str:
        return self.queue

    def admit(self, submission: SubmittedWork, queue: str, queues: Sequence[Json]) -> None:
        self.counted.append((submission.name, queue))
        if queue == "full":
            raise NotPlaced("it is full")


def placed(rules: Rules, kind: Kind, *, groups: tuple[str, ...] = (), queue: str = "", **owner: Any) -> Json:
    """Submit work called w, perhaps with an owner; return it."""
    metadata = {"name": "w", "ownerReferences": [{"kind": "Job", "name": "j", **owner}] if owner else []}
    obj: Json = {"metadata": metadata, "spec": {"queue": queue} if queue else {}}
    request = AdmissionRequest("CREATE", kind, "default", "w", obj, user=User("ann", groups))
    PlaceInQueue(rules, frozenset(("parts",)), rules)(request, FakeWorld())
    return obj


@pytest.mark.parametrize(
    ("kind", "given", "counted"),
    [
        pytest.param(catalog.VCJOB, {}, [("w", "q")], id="a job"),
        pytest.param(catalog.VCJOB, {"controller": False}, [("w", "q")], id="an owner that does not control it"),
        pytest.param(catalog.VCJOB, {"controller": True}, [], id="made by a controller, which is counted"),
        pytest.param(catalog.VCJOB, {"groups": ("parts",)}, [], id="trusted"),
        pytest.param(catalog.VCCRONJOB, {}, [], id="what makes work later"),
    ],
)
def test_work_counts_towards_the_limits_unless_its_controller_does(
    kind: Kind, given: Json, counted: list[tuple[str, str]]
) -> None:
    rules = Rules("q")
    placed(rules, kind, **given)
    assert rules.counted == counted


@pytest.mark.parametrize(("groups", "spec"), [((), {"queue": "q"}), (("parts",), {})])
def test_work_of_users_is_placed(groups: tuple[str, ...], spec: Json) -> None:
    assert placed(Rules("q"), catalog.VCJOB, groups=groups)["spec"] == spec


@pytest.mark.parametrize(("named", "goes_to"), [("", "default"), ("r", "r"), ("default", "default")])
def test_work_that_no_rule_places_counts_in_the_queue_it_names(named: str, goes_to: str) -> None:
    rules = Rules()
    obj = placed(rules, catalog.VCJOB, queue=named)
    assert rules.counted == [("w", goes_to)]
    assert obj["spec"] == ({"queue": named} if named else {})


def test_a_queue_at_its_limit_is_named() -> None:
    with pytest.raises(Forbidden, match="w of ann goes to no queue: it is full"):
        placed(Rules("full"), catalog.VCJOB)
