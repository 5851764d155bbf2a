"""deviceshare: cards shared by memory, whole cards, and virtual GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.scheduler.plugins import vgpu
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

PRE = "volcano.sh/"


def plugin(*switches: str, **arguments: Any) -> dict[str, Any]:
    on = {f"deviceshare.{switch}Enable": True for switch in switches}
    return {"name": "deviceshare", "arguments": on | {f"deviceshare.{k}": v for k, v in arguments.items()}}


def pod(
    name: str, group: str = "", node: str = "", notes: dict[str, str] | None = None, **limits: int
) -> dict[str, Any]:
    where = {"phase": "Running", "nodeName": node} if node else {}
    amounts = {PRE + k.replace("_", "-"): str(v) for k, v in limits.items()}
    made = worlds.pod(name, group, resources=amounts, annotations=notes or {}, **where)
    made["spec"]["containers"][0]["resources"]["limits"] = amounts
    return made


def shared(*more: dict[str, Any], sick: str = "") -> list[dict[str, Any]]:
    made = worlds.node("n", cpu="99", memory="99Gi", **{PRE + "gpu-memory": 400, PRE + "gpu-number": 4})
    made["metadata"]["annotations"] = {PRE + "gpu-unhealthy-ids": sick}
    return [made, *more]


NO_MEMORY, NO_NUMBER = "GpuShare no enough gpu memory on node", "GpuNumber no enough gpu number on node"


def held(name: str, index: str, **limits: int) -> dict[str, Any]:
    return pod(name, node="n", notes={PRE + "gpu-index": index}, **limits)


SHARED = [
    pytest.param("GPUSharing", {"gpu_memory": 60}, [], "", "0", id="the first card"),
    pytest.param("GPUSharing", {"gpu_memory": 60}, [held("a", "0", gpu_memory=50)], "", "1", id="the first with room"),
    pytest.param("GPUSharing", {"gpu_memory": 50}, [held("a", "0", gpu_memory=50)], "", "0", id="exactly full"),
    pytest.param("GPUSharing", {"gpu_memory": 50}, [], "0, 1", "2", id="unhealthy cards are not used"),
    pytest.param("GPUSharing", {"gpu_memory": 101}, [], "", NO_MEMORY, id="one card must have it"),
    pytest.param("GPUNumber", {"gpu_number": 2}, [held("a", "0", gpu_number=1)], "", "1,2", id="idle cards"),
    pytest.param("GPUNumber", {"gpu_number": 3}, [held("a", "0,2", gpu_number=2)], "", NO_NUMBER, id="too few"),
]


@pytest.mark.parametrize(("switch", "limits", "others", "sick", "expected"), SHARED)
def test_shared_cards(switch: str, limits: dict[str, int], others: list[Any], sick: str, expected: str) -> None:
    objects = shared(*others, worlds.queue(), worlds.group("g", 1), pod("p", "g", **limits), sick=sick)
    world = worlds.world(*objects)
    ssn = asking.session(world, plugin(switch))
    refused = asking.refusals(ssn, "p")
    assert refused == ({} if expected[0].isdecimal() else {"n": (expected, True)})
    plan = worlds.cycle(world, asking.config(plugin(switch)))
    assert [b.task.bind_annotations() for b in plan.binds] == (
        [] if refused else [{PRE + "gpu-index": expected, PRE + "predicate-time": "1700000000000000000"}]
    )


def test_cards_fill_within_a_cycle_and_finished_pods_free_theirs() -> None:
    pods = [pod(f"p{i}", "g", gpu_memory=60) for i in range(6)]
    done = held("done", "0", gpu_memory=100) | {"status": {"phase": "Succeeded"}}
    world = worlds.world(*shared(done, worlds.queue(), worlds.group("g", 0), *pods))
    plan = worlds.cycle(world, asking.config(plugin("GPUSharing"), {"name": "gang"}))
    given = [(b.task.bind_annotations() or {})[PRE + "gpu-index"] for b in plan.binds]
    assert given == ["0", "1", "2", "3"]


def cards(*entries: str, **more: Any) -> dict[str, Any]:
    amounts = {
        PRE + "vgpu-number": 40,
        PRE + "vgpu-memory": 99999,
        PRE + "vgpu-cores": 400,
        PRE + "vgpu-memory-percentage": 400,
    }
    made = worlds.node("n", cpu="99", memory="99Gi", **{**amounts, **more})
    made["metadata"]["annotations"] = {PRE + "node-vgpu-register": ":".join(entries)}
    return made


def card(uuid: str, kind: str = "NVIDIA-A100", count: int = 10, mode: str = "hami-core", health: str = "true") -> str:
    return f"{uuid},{count},1000,{kind},{health},{mode}"


def user(name: str, *pieces: tuple[str, int, int], notes: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    text = "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in pieces)
    made = pod(name, more.pop("group", ""), node="n", notes={PRE + "vgpu-ids-new": text, **(notes or {})})
    made["metadata"]["labels"] = more.pop("labels", {})
    return made


TWO = cards(card("a"), card("b"))
NONE = ""
VIRTUAL = [
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory": 300}, [], {}, {}, "b,NVIDIA-A100,300,0:", id="the last card"),
    pytest.param(TWO, {"vgpu_memory": 300, "vgpu_cores": 20}, [], {}, {}, "b,NVIDIA-A100,300,20:", id="one by default"),
    pytest.param(TWO, {"vgpu_number": 1}, [], {}, {}, "b,NVIDIA-A100,1000,0:", id="all memory by default"),
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory_percentage": 25}, [], {}, {}, "b,NVIDIA-A100,250,0:", id="part"),
    pytest.param(TWO, {"vgpu_number": 2, "vgpu_memory": 1}, [], {}, {}, "b,NVIDIA-A100,1,0:a,NVIDIA-A100,1,0:",
                 id="two cards"),
    pytest.param(TWO, {"vgpu_number": 3, "vgpu_memory": 1}, [], {}, {}, NONE, id="more than there are"),
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory": 501}, [user("u", ("b", 500, 0))], {}, {},
                 "a,NVIDIA-A100,501,0:", id="free memory counts"),
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory": 1, "vgpu_cores": 51}, [user("u", ("b", 5, 50))], {}, {},
                 "a,NVIDIA-A100,1,51:", id="free cores count"),
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory": 1, "vgpu_cores": 100}, [user("u", ("b", 5, 0))], {}, {},
                 "a,NVIDIA-A100,1,100:", id="a whole card must be unused"),
    pytest.param(TWO, {"vgpu_number": 1, "vgpu_memory": 1}, [user("u", ("b", 5, 100))], {}, {},
                 "a,NVIDIA-A100,1,0:", id="a card given whole takes nobody"),
    pytest.param(cards(card("a"), card("b", count=1)), {"vgpu_memory": 1}, [user("u", ("b", 5, 0))], {}, {},
                 "a,NVIDIA-A100,1,0:", id="split at most so often"),
    pytest.param(cards(card("a"), card("b", health="false")), {"vgpu_memory": 1}, [], {}, {}, "a,NVIDIA-A100,1,0:",
                 id="unhealthy"),
    pytest.param(cards(card("a"), card("b", kind="AMD")), {"vgpu_memory": 1}, [], {}, {}, "a,NVIDIA-A100,1,0:",
                 id="another maker"),
    pytest.param(cards(card("a", "NVIDIA-T4"), card("b")), {"vgpu_memory": 1}, [],
                 {"nvidia.com/use-gputype": "t4,v100"}, {}, "a,NVIDIA-T4,1,0:", id="type asked for"),
    pytest.param(cards(card("a", "NVIDIA-T4"), card("b")), {"vgpu_memory": 1}, [],
                 {"nvidia.com/nouse-gputype": "a100"}, {}, "a,NVIDIA-T4,1,0:", id="type avoided"),
    pytest.param(TWO, {"vgpu_memory": 1}, [], {PRE + "vgpu-use-gpuuuid": "a"}, {}, "a,NVIDIA-A100,1,0:", id="use card"),
    pytest.param(TWO, {"vgpu_memory": 1}, [], {PRE + "vgpu-nouse-gpuuuid": "b"}, {}, "a,NVIDIA-A100,1,0:", id="avoid"),
    pytest.param(TWO, {"vgpu_memory": 1}, [], {PRE + "vgpu-mode": "mig"}, {}, NONE, id="another mode"),
    pytest.param(TWO, {"vgpu_memory": 1}, [user("u", ("b", 5, 0), group="g")],
                 {PRE + "vgpu-podgroup-policy": "spread"}, {}, "a,NVIDIA-A100,1,0:", id="apart from its group"),
    pytest.param(TWO, {"vgpu_memory": 1}, [user("u", ("a", 5, 0))], {}, {"SchedulePolicy": "binpack"},
                 "a,NVIDIA-A100,1,0:", id="binpack fills"),
    pytest.param(TWO, {"vgpu_memory": 1}, [user("u", ("b", 5, 0))], {}, {"SchedulePolicy": "spread"},
                 "a,NVIDIA-A100,1,0:", id="spread empties"),
    pytest.param(TWO, {"vgpu_memory": 1}, [user("u", ("b", 5, 0), labels={"app": "x"})], {},
                 {"GPUExclusiveRules": [{"app": "x"}]}, "a,NVIDIA-A100,1,0:", id="exclusive"),
    pytest.param(TWO, {"vgpu_memory": 1}, [user("u", ("b", 5, 0), labels={"app": "y"})], {},
                 {"GPUExclusiveRules": [{"app": "x"}]}, "b,NVIDIA-A100,1,0:", id="exclusive to others"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "limits", "others", "notes", "arguments", "expected"), VIRTUAL)
def test_virtual_gpus(
    node: Any, limits: dict[str, int], others: list[Any], notes: dict[str, str], arguments: Any, expected: str
) -> None:
    mine = pod("p", "g", notes=notes, **limits)
    mine["metadata"]["labels"] = {"app": "x"}
    world = worlds.world(node, worlds.queue(), worlds.group("g", 0), *others, mine)
    plan = worlds.cycle(world, asking.config(plugin("VGPU", **arguments)))
    given = [b.task.bind_annotations() or {} for b in plan.binds]
    assert [a[vgpu.IDS] for a in given] == ([expected] if expected else [])
    if given:
        assert given[0][PRE + "vgpu-node"] == "n"
        assert given[0][PRE + "devices-to-allocate"] == expected
        assert given[0][PRE + "bind-phase"] == "allocating"
        assert given[0][PRE + "vgpu-time"] == given[0][PRE + "bind-time"] == "1700000000"


@pytest.mark.parametrize(("asked", "points"), [(100, 50), (125, 53)], ids=["a half", "52 and a half, rounded up"])
def test_binpack_scores_the_memory_used_after(asked: int, points: int) -> None:
    world = worlds.world(TWO, user("u", ("a", 400, 0)), pod("p", vgpu_memory=asked))
    ssn = asking.session(world, plugin("VGPU", SchedulePolicy="binpack", ScheduleWeight=3))
    assert asking.scores(ssn, "p") == {"n": 3.0 * points}


def test_a_node_without_all_resources_has_no_cards() -> None:
    world = worlds.world(cards(card("a"), **{PRE + "vgpu-cores": 0}), pod("p", vgpu_memory=1))
    assert list(asking.refusals(asking.session(world, plugin("VGPU")), "p")) == ["n"]


def test_parts_are_written_as_they_are_read() -> None:
    pieces = [[vgpu.Piece("a", "T", 1, 2), vgpu.Piece("b", "T", 3, 4)], [], [vgpu.Piece("c", "U", 5, 6)]]
    assert vgpu.write_pieces(pieces) == "a,T,1,2:b,T,3,4:;;c,U,5,6:"
    assert vgpu.read_pieces(vgpu.write_pieces(pieces)) == pieces


CONTRADICTIONS = [
    (plugin("GPUSharing", "GPUNumber"), "deviceshare.GPUNumberEnable"),
    (plugin("GPUSharing", "VGPU"), "deviceshare.VGPUEnable"),
    (plugin("AscendHAMiVNPU"), "deviceshare.AscendHAMiVNPUEnable"),
    (plugin(SchedulePolicy="both"), "deviceshare.SchedulePolicy"),
]


@pytest.mark.parametrize(("bad", "where"), CONTRADICTIONS, ids=[where for _, where in CONTRADICTIONS])
def test_what_cannot_be_switched_on(bad: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        asking.config(bad)
    assert [p.where for p in caught.value.problems] == [f"tiers[0].plugins[0].arguments.{where}"]
