"""Kinds of training jobs that ``strato up`` leaves out: what commands say of them, and whose they are then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strato.api import catalog, crds
from tests.e2e.test_training import tfjob
from tests.e2e.worlds import embedded, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]
NODES = ("--no-sandbox", "--hollow-nodes", "1")


def test_a_kind_that_is_off_is_unknown_until_somebody_else_brings_it(tmp_path: Path) -> None:
    with embedded(tmp_path / "home", *NODES, "--training-kinds", "*,-TFJob") as world:
        refused = world.kubectl_process("create", "-f", "-", stdin=json.dumps(tfjob("default")), check=False)
        assert 'no matches for kind "TFJob"' in refused.stderr
        assert "the kind is off" in world.strato("explain", "tfjob/t", check=False)
        assert "off: TFJob (" in world.strato("doctor", check=False)
        assert not world.items("pytorchjobs")

        # a job of an operator of somebody else: nobody of ours touches it, and its pods go with it all the same
        theirs = crds.manifest(catalog.TFJOB)
        del theirs["metadata"]["annotations"]
        world.apply(theirs)
        eventually(lambda: world.get("tfjobs") is not None, what="the kind is served")
        world.apply(tfjob("default"))
        job = world.get("tfjob", "t")
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "t", "uid": job["metadata"]["uid"]}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default", "ownerReferences": [owner]},
        }
        world.apply(body)
        world.kubectl("delete", "tfjob", "t")
        eventually(lambda: world.get("configmap", "c") is None, what="what the job owned goes with it")
        assert "status" not in job or not job["status"].get("conditions")
