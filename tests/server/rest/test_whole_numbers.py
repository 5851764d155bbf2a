"""Whole numbers that are written with a fraction, in the parts of custom objects that no schema describes too."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.volcano.batch import Job
from strato.client.cluster import PatchType
from strato.errors import BadRequest
from tests.controllers.world import World, play, vcjob


def ported(name: str, port: float) -> dict[str, Any]:
    job = vcjob(name)
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["ports"] = [{"containerPort": port}]
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **job}


def ports(job: dict[str, Any]) -> str:
    return str(job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"])


@pytest.mark.parametrize("way", ["create", "apply"])
def test_a_job_with_a_port_of_80_0_is_read(way: str) -> None:
    """It was stored so, read by nobody, and waited for ever."""

    async def scenario(world: World) -> None:
        if way == "create":
            for name in ("a", "j"):  # the second by what was remembered of the first
                await world.cluster.create(catalog.VCJOB, ported(name, 80.0), "default")
        else:
            applied: Any = {"patch_type": PatchType.APPLY, "field_manager": "m"}
            await world.cluster.patch(catalog.VCJOB, "j", "default", ported("j", 80.0), **applied)
        assert ports(await world.cluster.get(catalog.VCJOB, "j", "default")) == "[{'containerPort': 80}]"
        assert (await world.cluster.get(Job, "j", "default")).spec.tasks

    play(scenario, enabled=("queue-controller",))


@pytest.mark.parametrize("kind", [PatchType.MERGE, PatchType.JSON])
def test_a_patch_with_a_port_of_80_0_is_written_as_80(kind: PatchType) -> None:
    async def scenario(world: World) -> None:
        template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "t"}}
        await world.cluster.create(catalog.JOBTEMPLATE, {**template, "spec": ported("t", 443)["spec"]}, "default")
        spec = ported("t", 80.0)["spec"]
        patch: Any = {"spec": spec}
        if kind is PatchType.JSON:
            patch = [{"op": "replace", "path": "/spec", "value": spec}]
        written = await world.cluster.patch(catalog.JOBTEMPLATE, "t", "default", patch, patch_type=kind)
        assert ports(written) == "[{'containerPort': 80}]"

    play(scenario, enabled=("queue-controller",))


def test_a_built_in_kind_refuses_it_as_it_does() -> None:
    async def scenario(world: World) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        pod |= {"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80.0}]}]}}
        with pytest.raises(BadRequest, match=r"cannot unmarshal number 80\.0"):
            await world.cluster.create(catalog.POD, pod, "default")

    play(scenario, enabled=("queue-controller",))
