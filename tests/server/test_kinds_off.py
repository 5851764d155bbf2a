"""Kinds of ours that are switched off: their definitions go, with nothing of anybody's."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from strato.api import catalog, crds
from strato.api.trainingkinds import kinds_of
from strato.cli.apiserver import Api, open_api
from strato.cli.home import Home
from strato.clock import SystemClock
from strato.errors import NotFound
from strato.metrics import Registry
from strato.server import bootstrap
from strato.server.seed import KindInUse

OFF = kinds_of(["TFJob", "TrainJob"])
TFJOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "none"}]}}},
        }
    },
}


async def opened(directory: Path, off: frozenset[Any] = frozenset()) -> Api:
    return await open_api(
        Home(directory),
        SystemClock(),
        Random(1),
        Registry(),
        host="127.0.0.1",
        port=0,
        data_dir=directory / "data",
        off=off,
    )


async def definitions(api: Api) -> set[str]:
    page = await api.client(bootstrap.ADMIN).list(catalog.CUSTOMRESOURCEDEFINITION)
    return {item["metadata"]["name"] for item in page.items}


async def test_a_kind_can_be_switched_off_and_on_again(tmp_path: Path) -> None:
    gone = {kind.resource for kind in OFF}
    every = {body["metadata"]["name"] for body in crds.manifests()}
    for off in (frozenset(), OFF, OFF, frozenset()):
        api = await opened(tmp_path, off)
        try:
            assert await definitions(api) == (every - gone if off else every)
            cluster = api.client(bootstrap.ADMIN)
            if off:
                with pytest.raises(NotFound):
                    await cluster.create(catalog.TFJOB, TFJOB, "default", dry_run=True)
            else:
                await cluster.create(catalog.TFJOB, TFJOB, "default", dry_run=True)
        finally:
            await api.close()


async def test_a_kind_with_objects_is_not_switched_off(tmp_path: Path) -> None:
    api = await opened(tmp_path)
    await api.client(bootstrap.ADMIN).create(catalog.TFJOB, TFJOB, "default")
    await api.close()
    with pytest.raises(KindInUse, match=r"1 tfjobs\.kubeflow\.org.*kubectl delete tfjobs\.kubeflow\.org -A --all"):
        await opened(tmp_path, OFF)


async def test_a_definition_of_somebody_else_stays(tmp_path: Path) -> None:
    """Kubeflow's own operator may be tried out on the embedded cluster."""
    theirs = crds.manifest(catalog.TFJOB)
    del theirs["metadata"]["annotations"]
    api = await opened(tmp_path, OFF)
    try:
        await api.client(bootstrap.ADMIN).create(catalog.CUSTOMRESOURCEDEFINITION, theirs)
        await api.server.store.wait_durable()  # kinds are served once their definitions are durable
        await api.client(bootstrap.ADMIN).create(catalog.TFJOB, TFJOB, "default")
    finally:
        await api.close()
    api = await opened(tmp_path, OFF)
    try:
        assert await api.client(bootstrap.ADMIN).get(catalog.TFJOB, "train", "default")
    finally:
        await api.close()
