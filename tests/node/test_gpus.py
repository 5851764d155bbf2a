"""NVIDIA GPUs: what a machine shows of them, what is offered, and who gets which."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.core import Pod
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.gpudriver import driver, look
from strato.node.sandbox.gpupool import GpuOffer, GpuPool, Grant, slices, variables
from strato.node.sandbox.gpus import MEMORY, NUMBER, WHOLE, Gpu, GpuSources, capacity, find, labels

DEVICES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps")


def record(minor: int, model: str = "NVIDIA H200") -> str:
    return (
        f"Model: \t\t {model}\nIRQ:   \t\t 27\nGPU UUID: \t GPU-{minor}\nVideo BIOS: \t 96.00\n"
        f"Bus Type: \t PCIe\nBus Location: \t 0000:0{minor}:00.0\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n"
    )


def smi(*uuids: str, mig: str = "Disabled") -> str:
    return "".join(f"{i}, {uuid}, NVIDIA H200, 143771, {mig}\n" for i, uuid in enumerate(uuids))


FULL = [Gpu(0, "GPU-0", "NVIDIA H200", 143771), Gpu(1, "GPU-1", "NVIDIA H200", 143771)]
SIGHTINGS: list[Any] = [
    pytest.param(GpuSources(), [], (), id="a machine without GPUs"),
    pytest.param(
        GpuSources(DEVICES, (record(0), record(1)), smi("GPU-1", "GPU-0")), FULL, (), id="all three agree, in any order"
    ),
    pytest.param(GpuSources(DEVICES, (), smi("GPU-0", "GPU-1")), FULL, (), id="the driver's record is hidden"),
    pytest.param(GpuSources(DEVICES), [Gpu(0), Gpu(1)], (), id="device files alone"),
    pytest.param(
        GpuSources(DEVICES, (record(0), record(1)), smi_problem="NVML: driver mismatch"),
        [Gpu(0, "GPU-0", "NVIDIA H200"), Gpu(1, "GPU-1", "NVIDIA H200")],
        ("memory of GPUs is not known: NVML: driver mismatch",),
        id="nvidia-smi fails",
    ),
    pytest.param(
        GpuSources(("nvidia0",), (record(0), record(1)), smi("GPU-0", "GPU-1")),
        FULL[:1],
        ("GPU GPU-1 is not offered: the driver knows it, but /dev/nvidia1 is not there",),
        id="a card without its device file",
    ),
    pytest.param(
        GpuSources(DEVICES, (record(0),), smi("GPU-0")),
        FULL[:1],
        ("/dev/nvidia1 is not offered: the driver knows no such GPU",),
        id="a device file nobody is behind",
    ),
    pytest.param(
        GpuSources(DEVICES, (record(0), record(1)), smi("GPU-1")),
        FULL[1:],
        ("GPU GPU-0 is not offered: nvidia-smi does not name it",),
        id="a card that fell off the bus",
    ),
    pytest.param(
        GpuSources(DEVICES, (), smi("GPU-0")),
        [],
        ("no GPU is offered: nvidia-smi names 1, there are 2 device files",),
        id="nothing says which is which",
    ),
    pytest.param(
        GpuSources(("nvidia0",), (record(0),), smi("GPU-0", mig="Enabled")),
        [],
        ("GPU GPU-0 is not offered: it is divided (MIG)",),
        id="a divided card",
    ),
    pytest.param(
        GpuSources(("nvidia0",), (record(0),), "0, GPU-0, NVIDIA GB10, [N/A], [N/A]\nnonsense\n"),
        [Gpu(0, "GPU-0", "NVIDIA GB10")],
        (),
        id="memory that is not told",
    ),
]


@pytest.mark.parametrize(("seen", "want", "warnings"), SIGHTINGS)
def test_a_card_is_offered_when_all_agree_on_it(seen: GpuSources, want: list[Gpu], warnings: tuple[str, ...]) -> None:
    found = find(seen)
    assert list(found.gpus) == want
    assert len(found.warnings) == len(warnings)
    assert all(part in text for part, text in zip(warnings, found.warnings, strict=True))


def test_capacity_and_labels_are_those_of_the_device_plugins() -> None:
    assert capacity(FULL, shared=False) == {WHOLE: "2"}
    assert capacity(FULL, shared=True) == {MEMORY: "287542", NUMBER: "2"}
    assert labels(FULL) == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "143771",
    }
    assert labels([Gpu(0)]) == {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "1"}
    assert capacity([], shared=True) == labels([]) == {}


def pod(uid: str, *containers: dict[str, str], inits: tuple[dict[str, Any], ...] = (), **annotations: str) -> Pod:
    """Build a pod; containers are their limits, init containers may have a restartPolicy beside them."""

    def built(name: str, limits: dict[str, Any]) -> dict[str, Any]:
        policy = {"restartPolicy": "Always"} if limits.get("sidecar") else {}
        amounts = {key: value for key, value in limits.items() if key != "sidecar"}
        return {"name": name, "resources": {"limits": amounts, "requests": amounts}, **policy}

    spec = {
        "containers": [built(f"c{i}", limits) for i, limits in enumerate(containers)],
        "initContainers": [built(f"i{i}", limits) for i, limits in enumerate(inits)],
    }
    notes = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return msgspec.convert({"metadata": {"name": uid, "uid": uid, "annotations": notes}, "spec": spec}, Pod)


def test_containers_that_run_together_share_no_card() -> None:
    one = {WHOLE: "1"}
    spec = pod("p", one, {}, {WHOLE: "2"}, inits=({WHOLE: "3"}, {**one, "sidecar": True}, one)).spec
    assert slices(spec, WHOLE) == {
        "i0": range(3),
        "i1": range(1),
        "i2": range(1, 2),
        "c0": range(1, 2),
        "c1": range(2, 2),
        "c2": range(2, 4),
    }


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4), st.booleans()), max_size=40))
def test_no_card_has_two_pods(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever pods come, go and come back from disk: a card is one pod's, and a pod has what it asked for or waits."""
    cards = [Gpu(n, f"GPU-{n}") for n in range(5)]
    pool, held = GpuPool(cards), dict[str, tuple[str, ...]]()
    for number, count, leaves in steps:
        uid = f"p{number}"
        if leaves:
            pool.release(uid)
            held.pop(uid, None)
        elif uid not in held:
            free = len(cards) - sum(map(len, held.values()))
            try:
                held[uid] = pool.take(pod(uid, {WHOLE: str(count)}))
                assert len(held[uid]) == count
            except ConfigProblem:
                assert count > free
        assert pool.take(pod(uid, {WHOLE: str(len(held.get(uid, ())))})) == held.get(uid, ())
        names = [name for those in held.values() for name in those]
        assert len(names) == len(set(names))
        again = GpuPool(cards)
        for other, those in held.items():
            again.keep(other, those)
        assert again.free() == pool.free() == len(cards) - len(names)


def test_a_pod_keeps_cards_that_went_away_and_is_told_when_it_starts_again() -> None:
    asks = pod("p", {WHOLE: "1"})
    pool = GpuPool(FULL[1:])
    pool.keep("p", ["GPU-0"])
    assert pool.take(asks) == ("GPU-0",)
    with pytest.raises(ConfigProblem, match="GPU GPU-0, which this pod has, is not there any more"):
        pool.grant(asks, asks.spec.containers[0])


SHARED: list[Any] = [
    pytest.param({MEMORY: "1000"}, {"gpu_index": "1"}, FULL[1:], 1000, "", id="memory of one card"),
    pytest.param({NUMBER: "2"}, {"gpu_index": "0,1"}, FULL, 0, "", id="cards by number"),
    pytest.param({NUMBER: "2"}, {"gpu_index": "0"}, [], 0, "fewer cards", id="fewer cards than asked for"),
    pytest.param({MEMORY: "1000"}, {}, [], 0, "GPUSharingEnable", id="a scheduler without deviceshare"),
    pytest.param({MEMORY: "1000"}, {"gpu_index": "2"}, [], 0, r"\[0, 2\)", id="a card that is not there"),
    pytest.param({MEMORY: "1000"}, {"gpu_index": "x"}, [], 0, "'x'", id="no number"),
]


@pytest.mark.parametrize(("limits", "notes", "gpus", "memory", "problem"), SHARED)
def test_shared_cards_are_the_scheduler_s_choice(
    limits: dict[str, str], notes: dict[str, str], gpus: list[Gpu], memory: int, problem: str
) -> None:
    asks = pod("p", limits, **notes)
    pool = GpuPool(FULL, GpuOffer.SHARED)
    if problem:
        with pytest.raises(ConfigProblem, match=problem):
            pool.grant(asks, asks.spec.containers[0])
    else:
        assert pool.grant(asks, asks.spec.containers[0]) == Grant(tuple(gpus), memory, shared=True)


def test_whole_cards_are_not_taken_where_they_are_shared_and_the_other_way_round() -> None:
    with pytest.raises(ConfigProblem, match="1 wanted, 0 of this machine's 2 are free"):
        GpuPool(FULL, GpuOffer.SHARED).take(pod("p", {WHOLE: "1"}))
    asks = pod("p", {MEMORY: "1"}, gpu_index="0")
    with pytest.raises(ConfigProblem, match="--gpus shared"):
        GpuPool(FULL).grant(asks, asks.spec.containers[0])


VARIABLES: list[Any] = [
    pytest.param(
        Grant((FULL[1],)), True, {"NVIDIA_VISIBLE_DEVICES": "GPU-1", "CUDA_VISIBLE_DEVICES": "GPU-1"}, id="by UUID"
    ),
    pytest.param(Grant(), True, {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}, id="none"),
    pytest.param(
        Grant((Gpu(3),)), True, {"NVIDIA_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, id="the only one it sees"
    ),
    pytest.param(
        Grant((Gpu(3),)),
        False,
        {"NVIDIA_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        id="by number among all",
    ),
    pytest.param(
        Grant((FULL[1],), 1000, shared=True),
        True,
        {
            "NVIDIA_VISIBLE_DEVICES": "1",
            "CUDA_VISIBLE_DEVICES": "GPU-1",
            "VOLCANO_GPU_ALLOCATED": "1000",
            "VOLCANO_GPU_TOTAL": "143771",
            "VOLCANO_GPU_MEMORY_TOTAL": "143771",
        },
        id="memory, as Volcano's device plugin says it",
    ),
    pytest.param(
        Grant(tuple(FULL), shared=True),
        True,
        {
            "NVIDIA_VISIBLE_DEVICES": "0,1",
            "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "VOLCANO_GPU_ALLOCATED": "2",
        },
        id="cards by number, as Volcano's device plugin says it",
    ),
]


@pytest.mark.parametrize(("grant", "fenced", "want"), VARIABLES)
def test_containers_are_told_their_cards(grant: Grant, fenced: bool, want: dict[str, str]) -> None:
    everything = FULL if not grant.gpus or grant.gpus[0].uuid else [Gpu(0), Gpu(3)]
    assert variables(grant, everything, fenced=fenced) == want


def machine(root: Path, *, smi_says: str = "", status: int = 0, folder: str = "usr/local/nvidia/lib64") -> str:
    """Make the files of a machine with two GPUs; return its root with a slash."""
    for minor in (0, 1):
        (root / f"proc/driver/nvidia/gpus/0000:0{minor}:00.0").mkdir(parents=True)
        (root / f"proc/driver/nvidia/gpus/0000:0{minor}:00.0/information").write_text(record(minor))
    (root / "dev").mkdir()
    for name in (*DEVICES, "null"):
        (root / "dev" / name).write_text(name)
    (root / folder).mkdir(parents=True)
    (root / folder / "libcuda.so.580").write_text("driver")
    (root / folder / "libcuda.so.1").symlink_to("libcuda.so.580")
    (root / folder / "libc.so.6").write_text("not the driver's")
    (root / "usr/bin").mkdir(parents=True)
    program = root / "usr/bin/nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{smi_says or smi('GPU-0', 'GPU-1')}END\nexit {status}\n")
    program.chmod(0o755)
    return f"{root}/"


def test_the_machine_s_files_and_nvidia_smi_are_read(tmp_path: Path) -> None:
    root = machine(tmp_path)
    found = find(asyncio.run(look(driver(root).smi, root)))
    assert (list(found.gpus), found.warnings) == (FULL, ())


def test_what_nvidia_smi_complains_of_is_told(tmp_path: Path) -> None:
    root = machine(tmp_path, smi_says="Failed to initialize NVML:\nDriver/library version mismatch\n", status=18)
    found = find(asyncio.run(look(driver(root).smi, root)))
    assert [gpu.name for gpu in found.gpus] == ["GPU-0", "GPU-1"]
    assert "Failed to initialize NVML: Driver/library version mismatch" in found.warnings[0]


def test_nvidia_smi_is_not_asked_on_a_machine_without_gpus(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    assert asyncio.run(look("/no/such/program", f"{tmp_path}/")) == GpuSources()


@pytest.mark.parametrize(
    ("folder", "on_host"),
    [
        pytest.param("usr/local/nvidia/lib64", True, id="a folder of the driver's own"),
        pytest.param(f"usr/lib/{os.uname().machine}-linux-gnu", False, id="among the system's libraries"),
    ],
)
def test_images_get_the_driver_s_libraries_and_no_others(tmp_path: Path, folder: str, on_host: bool) -> None:
    where = driver(machine(tmp_path, folder=folder))
    shown = {mount.target: mount.source for mount in where.mounts()}
    real = f"{tmp_path}/{folder}/libcuda.so.580"
    assert shown == {
        "/usr/local/nvidia/lib64/libcuda.so.1": real,
        "/usr/local/nvidia/lib64/libcuda.so.580": real,
        "/usr/local/nvidia/bin/nvidia-smi": f"{tmp_path}/usr/bin/nvidia-smi",
    }
    assert where.library_path(own_root=True) == "/usr/local/nvidia/lib64"
    assert where.library_path(own_root=False) == (f"{tmp_path}/{folder}" if on_host else "")
