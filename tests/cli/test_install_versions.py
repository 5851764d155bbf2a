"""Which definitions an older cluster gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from strato.api.crds import manifests
from strato.cli import install
from strato.cli.crds import crds

RULES = "x-kubernetes-validations"


class OldCluster:
    """Takes every object; tells its version as Kubernetes does."""

    def __init__(self, minor: str) -> None:
        self._minor = minor
        self.applied: list[Mapping[str, Any]] = []

    async def raw(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/version")
        return json.dumps({"major": "1", "minor": self._minor}).encode()

    async def patch(self, kind: Any, name: str, namespace: str, body: Mapping[str, Any], **_: Any) -> None:
        self.applied.append(body)


@pytest.mark.parametrize(
    ("minor", "keeps"),
    [
        pytest.param("28", False, id="1.28 does not know the rules"),
        pytest.param("29+", False, id="a provider's 1.29 neither"),
        pytest.param("30", True, id="1.30 does"),
        pytest.param("36", True, id="newer ones do"),
    ],
)
def test_definitions_go_without_rules_where_they_would_be_refused(minor: str, keeps: bool) -> None:
    cluster = OldCluster(minor)
    asyncio.run(install._apply(cluster, manifests()))  # type: ignore[arg-type]  # what it calls is there
    assert (RULES in json.dumps(cluster.applied)) is keeps
    assert "openAPIV3Schema" in json.dumps(cluster.applied)


def test_the_definitions_are_printed_without_rules_on_request() -> None:
    runner = CliRunner()
    assert RULES in runner.invoke(crds, []).output
    assert RULES not in runner.invoke(crds, ["--without-rules"]).output
