"""What a pod's lent resources, memory QoS and bursts come to in control groups of both versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.volcano.levels import ResourceNames
from strato.agent.volcano.podresources import (
    MemoryRatios,
    burst_files,
    lent_files,
    memory_files,
    memory_ratios,
    wants_burst,
)
from strato.api.core.container import Container
from strato.errors import InvalidInput

NAMES = ResourceNames()
CPU, MEMORY = NAMES.cpu, NAMES.memory


def container(name: str, requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> Container:
    body = {"name": name, "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return msgspec.convert(body, Container)


def files(containers: Sequence[Container], *, unified: bool, level: int = -1) -> dict[str, str]:
    return {
        f"{one.container or 'pod'} {one.name}": one.text
        for one in lent_files(containers, level, NAMES, unified=unified)
    }


BOTH = [
    container("a", {CPU: "2000", MEMORY: "1Gi"}, {CPU: "3000", MEMORY: "1Gi"}),
    container("b", {CPU: "5"}, {CPU: "5", MEMORY: "1048576"}),
]
OPEN = [BOTH[0], container("c")]


@pytest.mark.parametrize(
    ("containers", "unified", "want"),
    [
        pytest.param(
            BOTH,
            False,
            {
                "a cpu.shares": "2048",
                "a cpu.cfs_quota_us": "300000",
                "a memory.limit_in_bytes": str(1 << 30),
                "b cpu.shares": "5",
                "b cpu.cfs_quota_us": "1000",
                "b memory.limit_in_bytes": "1048576",
                "pod cpu.shares": "2053",
                "pod cpu.cfs_quota_us": "300500",
                "pod memory.limit_in_bytes": str((1 << 30) + (1 << 20)),
            },
            id="version 1",
        ),
        pytest.param(
            BOTH,
            True,
            {
                "a cpu.weight": "200",
                "a cpu.max": "300000 100000",
                "a memory.max": str(1 << 30),
                "b cpu.weight": "1",
                "b cpu.max": "1000 100000",
                "b memory.max": "1048576",
                "pod cpu.weight": "200",
                "pod cpu.max": "300500 100000",
                "pod memory.max": str((1 << 30) + (1 << 20)),
            },
            id="version 2",
        ),
        pytest.param(
            OPEN,
            True,
            {
                "a cpu.weight": "200",
                "a cpu.max": "300000 100000",
                "a memory.max": str(1 << 30),
                "pod cpu.weight": "200",
            },
            id="one container without a limit: the pod has none",
        ),
        pytest.param(
            [container("a", {CPU: "0"}, {CPU: "0", MEMORY: "0"})],
            True,
            {
                "a cpu.weight": "1",
                "a cpu.max": "max 100000",
                "a memory.max": "max",
                "pod cpu.weight": "100",
                "pod cpu.max": "max 100000",
                "pod memory.max": "max",
            },
            id="nothing is no limit, version 2",
        ),
        pytest.param(
            [container("a", {CPU: "0"}, {CPU: "0", MEMORY: "0"})], False, {"pod cpu.shares": "2"}, id="version 1: none"
        ),
        pytest.param([container("a", {"cpu": "1"}, {"cpu": "2"})], True, {}, id="nothing lent, nothing written"),
        pytest.param([container("a", {CPU: "10000000"})], False, {"a cpu.shares": "262144", "pod cpu.shares": "262144"},
                     id="the most shares"),
        pytest.param([container("a", {CPU: "10000000"})], True, {"a cpu.weight": "10000", "pod cpu.weight": "10000"},
                     id="the most weight"),
    ],
)  # fmt: skip
def test_lent_resources_become_limits(containers: list[Container], unified: bool, want: dict[str, str]) -> None:
    assert files(containers, unified=unified) == want


def test_pods_of_the_highest_levels_do_not_borrow() -> None:
    assert files(BOTH, unified=True, level=2) == {}
    assert files(BOTH, unified=True, level=1) == files(BOTH, unified=True, level=-1)


AMOUNTS = st.dictionaries(st.sampled_from([CPU, MEMORY]), st.integers(0, 10**12).map(str))


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4), st.booleans())
def test_what_is_written_is_what_kernels_take(rows: list[tuple[Any, Any]], unified: bool) -> None:
    containers = [container(str(index), *row) for index, row in enumerate(rows)]
    for name, text in files(containers, unified=unified).items():
        kind = name.split()[1]
        number = text.split()[0]
        if number == "max":
            assert unified
        elif kind == "cpu.shares":
            assert 2 <= int(number) <= 262_144
        elif kind == "cpu.weight":
            assert 1 <= int(number) <= 10_000
        elif kind in ("cpu.max", "cpu.cfs_quota_us"):
            assert int(number) >= 1000
        else:
            assert int(number) > 0


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", None),
        ("{}", MemoryRatios()),
        ('{"memoryQos": {}}', MemoryRatios()),
        ('{"memoryQos": {"highRatio": 80, "lowRatio": 50, "minRatio": 25}}', MemoryRatios(high=80, low=50, least=25)),
    ],
)
def test_memory_ratios_are_read(text: str, want: MemoryRatios | None) -> None:
    assert memory_ratios(text) == want


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "colocation-config"),
        ("[]", "Expected `object`"),
        ('{"memoryQos": {"highRatio": "80"}}', "Expected `int`"),
        ('{"memoryQos": {"highRatio": 101, "minRatio": -1}}', "memoryQos.highRatio: 101 must be at least 0"),
        ("[" * 10_000, ""),
        (" " * 70_000, "70000 characters"),
    ],
)
def test_memory_ratios_that_are_none_are_said(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        memory_ratios(text)
    assert problem in str(refused.value)


def test_memory_is_promised_by_request_and_slowed_by_limit() -> None:
    ratios = MemoryRatios(high=80, low=50, least=25)
    rows = [
        container("own", {"memory": "1000"}, {"memory": "2000"}),
        container("lent", {MEMORY: "400", "memory": "9"}, {MEMORY: "800"}),
        container("open", {"memory": "100"}),
    ]
    found = {
        f"{one.container} {one.name.removeprefix('memory.')}": one.text for one in memory_files(rows, -1, ratios, NAMES)
    }
    assert found == {
        "own high": "1600", "own low": "500", "own min": "250",
        "lent high": "640", "lent low": "200", "lent min": "100",
        "open high": "max", "open low": "50", "open min": "25",
    }  # fmt: skip
    high = [one.text for one in memory_files(rows[:2], 2, MemoryRatios(), NAMES) if one.name == "memory.high"]
    assert high == ["max", "max"]
    assert memory_files(rows[1:2], 2, ratios, NAMES)[1].text == "4", "level 2 does not borrow: its own memory counts"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, None),
        ({"volcano.sh/enable-quota-burst": "false"}, None),
        ({"volcano.sh/enable-quota-burst": "true"}, 0),
        ({"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": "2000"}, 2000),
        ({"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": "-1"}, None),
        ({"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": "0"}, None),
        ({"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": "2ms"}, None),
    ],
)
def test_bursts_are_asked_for_by_annotation(annotations: dict[str, str], want: int | None) -> None:
    assert wants_burst(annotations) == want


@pytest.mark.parametrize("unified", [True, False])
def test_no_burst_exceeds_its_quota(unified: bool) -> None:
    name = "cpu.max.burst" if unified else "cpu.cfs_burst_us"
    quotas = {"a": 50_000, "b": 200_000, "c": None}
    found = burst_files(100_000, quotas, 250_000, unified=unified)
    assert [tuple(one) for one in found] == [("", name, "150000"), ("a", name, "50000"), ("b", name, "100000")]
    assert [one.text for one in burst_files(0, quotas, None, unified=unified)] == ["50000", "200000"]
    assert burst_files(0, {"c": None}, None, unified=unified) == []
