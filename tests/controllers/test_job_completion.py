"""A job that admission has not seen is read as the one that admission would have made of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.admission import AdmissionRequest, Chain, ChainOptions
from strato.api import catalog
from strato.api.volcano.batch import Job
from strato.controllers.job.completion import completed
from strato.errors import Invalid
from tests.admission.reader import FakeWorld
from tests.controllers.world import World, play, task, vcjob

Json = dict[str, Any]

PARTS = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
SPECS: list[tuple[str, Json]] = [
    ("nothing but tasks", {"tasks": [{"replicas": 2}, {"name": "b", "replicas": 3, "minAvailable": 1}]}),
    (
        "one of two tasks",
        {"tasks": [{"name": "a", "replicas": 2, "minAvailable": 1, "maxRetry": 7}, {"name": "b", "replicas": 1}]},
    ),
    ("partitions", {"tasks": [{"name": "a", "replicas": 4, "partitionPolicy": PARTS}]}),
    ("mpi", {"tasks": [{"name": "master", "replicas": 1}], "plugins": {"mpi": ["--port=23"]}}),
    ("pytorch with svc", {"tasks": [{"name": "master"}], "plugins": {"pytorch": [], "svc": ["--inject-hosts-env"]}}),
    ("retries of zero", {"tasks": [{"name": "a", "replicas": 1, "maxRetry": 0}], "maxRetry": 0}),
    (
        "all there",
        {
            "tasks": [{"name": "a", "replicas": 2, "minAvailable": 1, "maxRetry": 7}],
            "minAvailable": 1,
            "queue": "q",
            "schedulerName": "s",
            "maxRetry": 1,
        },
    ),
]


@pytest.mark.parametrize("spec", [row[1] for row in SPECS], ids=[row[0] for row in SPECS])
def test_completion_is_what_admission_does(spec: Json) -> None:
    bare: Json = {"metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    read = completed(msgspec.convert(bare, Job))
    admitted = msgspec.json.decode(msgspec.json.encode(bare))
    Chain().mutate(AdmissionRequest("CREATE", catalog.VCJOB, "default", "x", admitted), FakeWorld())
    assert read == msgspec.convert(admitted, Job)
    assert completed(read) is read


def test_a_gang_of_nothing_is_meant_when_admission_has_seen_the_job() -> None:
    """An update may lower minAvailable to 0; a job that came without one has tasks without one too."""
    spec = {"tasks": [{"name": "a", "replicas": 2, "minAvailable": 2, "maxRetry": 3}], "queue": "q", "maxRetry": 3}
    job = msgspec.convert({"metadata": {"name": "x"}, "spec": {**spec, "schedulerName": "volcano"}}, Job)
    assert completed(job) is job


NO_WEBHOOK = ChainOptions(enabled=frozenset())


def test_a_bare_job_runs_to_completion_where_no_webhook_is() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("", 2, seconds=3), task("w", 1, seconds=3), plugins={"mpi": ["--master=w"]})
        del body["spec"]["schedulerName"], body["spec"]["queue"], body["spec"]["tasks"][0]["name"]
        stored = await world.cluster.create(catalog.VCJOB, body, "default")
        assert "minAvailable" not in stored["spec"]
        await world.until_phase("j", "Running")
        pods = await world.pods()
        assert sorted(pods) == ["j-default0-0", "j-default0-1", "j-w-0"]
        assert {pod.spec.scheduler_name for pod in pods.values()} == {"volcano"}
        assert dict((await world.job("j")).status.controlled_resources).keys() == {
            "plugin-mpi",
            "plugin-svc",
            "plugin-ssh",
        }
        await world.until_phase("j", "Completed")

    play(scenario, admission=NO_WEBHOOK)


def test_a_bad_job_is_refused_where_no_webhook_is() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(Invalid, match="'minAvailable' is greater than 'replicas' in task: w"):
            await world.cluster.create(catalog.VCJOB, vcjob("j", task("w", 1, minAvailable=2)), "default")

    play(scenario, admission=NO_WEBHOOK)
