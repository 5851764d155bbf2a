"""Colocation configurations reach the pods they select."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import ObjectMeta
from strato.api.shapes import LabelSelector
from strato.api.volcano.config import ColocationConfiguration, ColocationConfigurationSpec, MemoryQos
from strato.controllers.colocation import CONFIG, CONFIG_NAME, choose, wanted_annotations
from tests.controllers.world import World, play

ENABLED = ("colocation-config-controller",)


def config(name: str, created: str, selector: LabelSelector | None) -> ColocationConfiguration:
    return ColocationConfiguration(
        metadata=ObjectMeta(name=name, creation_timestamp=created),
        spec=ColocationConfigurationSpec(selector=selector, memory_qos=MemoryQos(high_ratio=80)),
    )


A = LabelSelector(match_labels={"app": "a"})
EVERYTHING = LabelSelector()


@pytest.mark.parametrize(
    ("configurations", "wanted"),
    [
        pytest.param([], None, id="there is none"),
        pytest.param([config("one", "2026-01-01T00:00:00Z", None)], None, id="no selector selects nothing"),
        pytest.param([config("one", "2026-01-01T00:00:00Z", EVERYTHING)], "one", id="an empty one selects all"),
        pytest.param(
            [config("old", "2026-01-01T00:00:00Z", A), config("new", "2026-01-02T00:00:00Z", EVERYTHING)],
            "new",
            id="the newest wins",
        ),
    ],
)
def test_choose(configurations: list[ColocationConfiguration], wanted: str | None) -> None:
    chosen = choose(Pod(metadata=ObjectMeta(name="p", labels={"app": "a"})), configurations)
    assert (chosen.metadata.name if chosen is not None else None) == wanted


ONE = config("one", "2026-01-01T00:00:00Z", EVERYTHING)
TEXT = '{"memoryQos":{"highRatio":80,"lowRatio":0,"minRatio":0}}'


@pytest.mark.parametrize(
    ("present", "chosen", "wanted"),
    [
        pytest.param({}, None, None, id="nothing to do"),
        pytest.param({}, ONE, {CONFIG_NAME: "one", CONFIG: TEXT}, id="new"),
        pytest.param({CONFIG_NAME: "one", CONFIG: TEXT.replace(",", ", ")}, ONE, None, id="the same in other words"),
        pytest.param({CONFIG_NAME: "x", CONFIG: "?"}, ONE, {CONFIG_NAME: "one", CONFIG: TEXT}, id="another one"),
        pytest.param({CONFIG_NAME: "x", CONFIG: TEXT}, None, {CONFIG_NAME: None, CONFIG: "{}"}, id="reset"),
        pytest.param({CONFIG: "{}"}, None, None, id="reset before"),
    ],
)
def test_wanted_annotations(
    present: dict[str, str], chosen: ColocationConfiguration | None, wanted: dict[str, str | None] | None
) -> None:
    assert wanted_annotations(Pod(metadata=ObjectMeta(name="p", annotations=present)), chosen) == wanted


def body(selector: dict[str, Any], high: int) -> dict[str, Any]:
    kind = catalog.COLOCATIONCONFIGURATION
    spec = {"selector": selector, "memoryQos": {"highRatio": high}}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "c"}, "spec": spec}


def pod(name: str, app: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}}, "spec": spec}


def test_pods_follow_the_configuration() -> None:
    async def ratios(world: World) -> dict[str, int | None]:
        await world.settle(3)
        texts = {name: p.metadata.annotation(CONFIG) for name, p in (await world.pods()).items()}
        return {n: json.loads(t or "{}").get("memoryQos", {}).get("highRatio") for n, t in texts.items()}

    async def scenario(world: World) -> None:
        for name, app in (("p", "a"), ("q", "b")):
            await world.cluster.create(catalog.POD, pod(name, app), "default")
        await world.cluster.create(catalog.COLOCATIONCONFIGURATION, body({"matchLabels": {"app": "a"}}, 80), "default")
        assert await ratios(world) == {"p": 80, "q": None}
        change = {"spec": {"selector": {"matchLabels": {"app": "b"}}}}
        await world.cluster.patch(catalog.COLOCATIONCONFIGURATION, "c", "default", change)
        assert await ratios(world) == {"p": None, "q": 80}
        await world.cluster.patch(catalog.POD, "p", "default", {"metadata": {"labels": {"app": "b"}}})
        assert await ratios(world) == {"p": 80, "q": 80}
        await world.cluster.delete(catalog.COLOCATIONCONFIGURATION, "c", "default")
        assert await ratios(world) == {"p": None, "q": None}
        assert (await world.pods())["p"].metadata.annotation(CONFIG) == "{}"

    play(scenario, enabled=ENABLED)
