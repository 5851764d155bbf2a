"""Which clusters count as at rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from strato.api import catalog
from strato.api.kinds import Kind
from strato.server.api import ApiServer
from strato.testing.chaos.settled import unsettled


class _Bucket(dict[str, Any]):
    @property
    def objects(self) -> dict[str, Any]:
        return self


def server_with(objects: dict[Kind, list[dict[str, Any]]]) -> ApiServer:
    buckets = {
        kind.resource: _Bucket(
            {str(number): SimpleNamespace(body=msgspec.json.encode(body)) for number, body in enumerate(bodies)}
        )
        for kind, bodies in objects.items()
    }
    store = SimpleNamespace(bucket=lambda resource: buckets.get(resource, _Bucket()))
    return cast(ApiServer, SimpleNamespace(store=store))


def pending_job(phases: list[str], failed: int) -> ApiServer:
    """A job of four pods that needs three of them; some have failed, the others wait."""
    job = {
        "metadata": {"name": "j", "namespace": "default", "uid": "u"},
        "spec": {"minAvailable": 3, "tasks": [{"replicas": 4}]},
        "status": {
            "state": {"phase": "Pending"},
            "conditions": [{"status": phase} for phase in phases],
            "pending": 4 - failed,
            "failed": failed,
        },
    }
    pods = [
        {
            "metadata": {
                "name": f"j-{number}",
                "namespace": "default",
                "uid": f"p{number}",
                "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}],
            },
            "spec": {},
            "status": {"phase": "Failed" if number < failed else "Pending"},
        }
        for number in range(4)
    ]
    return server_with({catalog.VCJOB: [job], catalog.POD: pods})


RESUMED = ["Running", "Aborting", "Aborted", "Restarting", "Pending"]


@pytest.mark.parametrize(
    ("phases", "failed", "rests"),
    [
        pytest.param(RESUMED, 2, True, id="two failed pods were kept: the other two are no gang"),
        pytest.param(RESUMED, 1, False, id="the other three are one"),
        pytest.param(["Running", "Restarting", "Pending"], 2, False, id="a restart keeps no failed pods"),
        pytest.param(["Running", "Pending"], 2, True, id="two failed, and the others were of a node that is gone"),
    ],
)
def test_a_job_that_is_short_for_ever_may_wait(phases: list[str], failed: int, rests: bool) -> None:
    assert (unsettled(pending_job(phases, failed)) == []) is rests
