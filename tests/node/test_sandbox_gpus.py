"""Pods with GPUs as real processes: a machine whose device files and driver are plain files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.gpupool import GpuOffer
from strato.node.sandbox.gpus import MEMORY, NUMBER, WHOLE
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import GO_VOLUME, World, running, until
from tests.node.test_gpus import machine

LOOK = (
    "for f in /dev/nvidia*; do test -e $f && echo $(basename $f); done; "
    'echo "told $NVIDIA_VISIBLE_DEVICES/$CUDA_VISIBLE_DEVICES"; '
)
UNTIL_GO = "until [ -e /go/on ]; do sleep 0.02; done"


def asks(resource: str, count: str) -> dict[str, Any]:
    return {"resources": {"limits": {resource: count}, "requests": {resource: count}}}


def ready(world: World, name: str) -> bool:
    return world.api.phase(name) == "Running"


async def said(world: World, name: str) -> list[str]:
    """Return what a pod sees once it has said all of it; the deadline only bounds a failing test."""
    async with asyncio.timeout(120):
        while True:
            lines = (await world.log(name)).splitlines()
            if lines and lines[-1].startswith("told"):
                return lines
            await asyncio.sleep(0.01)


async def test_each_pod_has_gpus_of_its_own_across_restarts_of_the_node(tmp_path: Path) -> None:
    """Two GPUs, three pods that want one: the third starts when another ends, also when nobody watched it end."""
    root, api = machine(tmp_path / "machine"), FakeApi()
    go = GO_VOLUME(tmp_path)
    pod = {"volumes": go["volumes"], "container": {**asks(WHOLE, "1"), **go["container"]}}
    control = ["nvidia-uvm", "nvidiactl"]
    async with running(tmp_path / "node", api, gpu_root=root) as world:
        node = api.objects["/api/v1/nodes/here"]
        assert node["status"]["allocatable"][WHOLE] == "2"
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200"
        assert world.node.summary().gpus == ("NVIDIA H200", "NVIDIA H200")
        for name in ("a", "b"):
            world.sh(name, LOOK + UNTIL_GO, **pod)
            await until(lambda name=name: ready(world, name))  # type: ignore[misc] # bound by its default
        assert await said(world, "a") == ["nvidia-uvm", "nvidia0", "nvidiactl", "told GPU-0/GPU-0"]
        assert await said(world, "b") == ["nvidia-uvm", "nvidia1", "nvidiactl", "told GPU-1/GPU-1"]
        world.sh("none", LOOK)
        await world.finished("none")
        assert await said(world, "none") == ["told void/"]
    async with running(tmp_path / "node", api, gpu_root=root) as world:
        world.sh("c", LOOK, container=asks(WHOLE, "1"))
        await until(lambda: len(world.node._workers) == 3)
        told = ("FailedMount", f"{WHOLE}: 1 wanted, 0 of this machine's 2 are free")
        async with asyncio.timeout(120):
            while told not in await world.events():
                await asyncio.sleep(0.01)
    (tmp_path / "go" / "on").touch()
    async with running(tmp_path / "node", api, gpu_root=root) as world:
        for name in ("a", "b", "c"):
            assert (await world.finished(name))["phase"] == "Succeeded"
        lines = await said(world, "c")
        assert set(lines) & {"nvidia0", "nvidia1"} == {f"nvidia{lines[-1][-1]}"}
        assert [line for line in lines if line in control] == control
        assert world.node._machine.gpus.free() == 2
    async with running(tmp_path / "node", api, gpu_root=root, gpus=GpuOffer.NONE) as world:
        node = api.objects["/api/v1/nodes/here"]
        assert WHOLE not in node["status"]["allocatable"]
        assert not any(label.startswith("nvidia.com") for label in node["metadata"]["labels"])
        world.sh("d", LOOK)
        await world.finished("d")
        assert await said(world, "d") == ["told void/"]
    teardown(tmp_path / "node")


async def test_shared_cards_are_given_as_the_scheduler_chose(tmp_path: Path) -> None:
    root, api = machine(tmp_path / "machine"), FakeApi()
    async with running(tmp_path / "node", api, gpu_root=root, gpus=GpuOffer.SHARED) as world:
        offered = api.objects["/api/v1/nodes/here"]["status"]["allocatable"]
        assert (offered[MEMORY], offered[NUMBER], WHOLE in offered) == ("287542", "2", False)
        script = LOOK + 'echo "$VOLCANO_GPU_ALLOCATED of $VOLCANO_GPU_TOTAL"'
        for name in ("a", "b"):
            world.sh(name, script, container=asks(MEMORY, "1000"), annotations={"volcano.sh/gpu-index": "1"})
            await world.finished(name)
            text = await world.log(name)
            assert text.splitlines() == ["nvidia-uvm", "nvidia1", "nvidiactl", "told 1/GPU-1", "1000 of 143771"]
    teardown(tmp_path / "node")


async def test_an_image_finds_the_driver_s_libraries(tmp_path: Path) -> None:
    root, api, image = machine(tmp_path / "machine"), FakeApi(), tmp_path / "image"
    shared = [name for name in ("bin", "lib", "lib64") if os.path.isdir(f"/{name}")]
    for name in shared:
        (image / name).mkdir(parents=True)
    async with running(tmp_path / "node", api, gpu_root=root) as world:
        if world.node.summary().isolation == "plain":
            pytest.skip("images need namespaces, which this machine does not allow")
        world.node.images.import_image("tiny", image)
        script = 'cat $LD_LIBRARY_PATH/libcuda.so.1 /dev/nvidia0; echo; echo "$CUDA_VISIBLE_DEVICES"'
        container = {
            "name": "main",
            "image": "tiny",
            "command": ["sh", "-c", script],
            "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "mine"}],
            "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in shared],
            **asks(WHOLE, "1"),
        }
        volumes = [{"name": name, "hostPath": {"path": f"/{name}"}} for name in shared]
        api.create_pod("p", "here", containers=[container], volumes=volumes)
        await world.finished("p")
        assert await world.log("p") == "drivernvidia0\nmine\n"
    teardown(tmp_path / "node")
