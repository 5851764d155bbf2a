"""Warnings about valid objects: bodies that would deserve billions, and searches that look only where a conflict is.

What each warning says is compared with a real API server in `tests/server/rest/warningcases.py`.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.validation import warnings
from strato.api.validation.overlaps import overlapping_paths

MANY = 20_000


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


def with_ports(ports: list[dict[str, Any]]) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "ports": ports}])


def with_items(*paths: str) -> dict[str, Any]:
    return {"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": path} for path in paths]}}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(with_ports([{"containerPort": 1}] * MANY), 128, id="one port over and over"),
        pytest.param(
            with_ports(
                [{"containerPort": 1, "hostPort": 1, "hostIP": f"10.{n >> 8}.{n & 255}.1"} for n in range(MANY)]
            ),
            0,
            id="one port at many addresses",
        ),
        pytest.param(
            with_ports([{"containerPort": 1, "hostPort": n + 1} for n in range(MANY)]), 0, id="one port at many ports"
        ),
        pytest.param(
            pod(containers=[{"name": "c", "env": [{"name": "A", "value": "1"}] * MANY}]), 128, id="one variable"
        ),
        pytest.param(pod(volumes=[with_items(*["a"] * MANY)]), 128, id="one path over and over"),
        pytest.param(pod(volumes=[with_items("a/" * 200_000 + "b")]), 0, id="one deep path"),
        pytest.param(pod(volumes=[with_items(*(f"a/{n}" for n in range(MANY)), "a")]), 128, id="a file for a folder"),
        pytest.param(pod(hostAliases=[{"ip": "10.0.0.1"}] * MANY), 128, id="one alias"),
    ],
)
def test_no_body_makes_the_search_long(body: dict[str, Any], count: int) -> None:
    assert len(warnings.of_creation(catalog.POD, body)) == count


@pytest.mark.parametrize(("controls", "count"), [(True, 0), (False, 129), (None, 129)])
def test_pods_of_controllers_are_not_warned_about(controls: bool | None, count: int) -> None:
    body = pod(hostAliases=[{"ip": "10.0.0.1"}] * 200)
    body["metadata"] = {"name": "a.b", "ownerReferences": [{"controller": controls}]}
    assert len(warnings.of_creation(catalog.POD, body)) == count


PORTS = st.fixed_dictionaries(
    {"containerPort": st.integers(1, 2), "protocol": st.sampled_from(["TCP", "UDP"])},
    optional={"hostPort": st.integers(0, 2), "hostIP": st.sampled_from(["", "10.0.0.1", "10.0.0.2"])},
)


@given(st.lists(PORTS, max_size=8))
def test_conflicts_of_ports_are_those_of_all_pairs(ports: list[dict[str, Any]]) -> None:
    expected = []
    for later, port in enumerate(ports):
        for earlier, other in enumerate(ports[:later]):
            if (port["containerPort"], port["protocol"]) != (other["containerPort"], other["protocol"]):
                continue
            (ip, number), (its_ip, its_number) = (
                (one.get("hostIP", ""), one.get("hostPort", 0)) for one in (port, other)
            )
            if (ip, number) == (its_ip, its_number):
                what = "duplicate"
            elif not number or not its_number:
                what = "overlapping"
            elif number == its_number and (not ip) != (not its_ip):
                what = "dangerously ambiguous"
            else:
                continue
            at = "spec.containers[0].ports"
            expected.append(f"{at}[{later}]: {what} port definition with {at}[{earlier}]")
    found = [text for text in warnings.of_creation(catalog.POD, with_ports(ports)) if "definition with" in text]
    assert found == expected


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=3).map("/".join), max_size=7))
def test_overlaps_of_paths_are_those_of_all_pairs(paths: list[str]) -> None:
    expected = {
        f'"{later}" with "{earlier}"'
        for earlier, later in combinations([path for path in paths if path], 2)
        if f"{earlier}/".startswith(f"{later}/") or f"{later}/".startswith(f"{earlier}/")
    }
    found = {text.rpartition("overlapping paths: ")[2] for text in overlapping_paths([with_items(*paths)])}
    assert found == expected
