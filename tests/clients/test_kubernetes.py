"""The official clients for Python."""

from __future__ import annotations

import pytest

from tests.clients.environments import run_program
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]


def test_the_official_client(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("kubernetes", "official.py", sandbox, namespace) == [
        "objects are created, read and patched",
        "a stale object is a conflict",
        "lists come in pages",
        "a deployment is created from YAML and watched until it is available",
        "the dynamic client applies, with conflicts and force",
        "it is scaled and deleted",
        "a pod runs",
        "its log is followed",
        "commands run in it, with streams and an exit code",
        "its port is forwarded",
        "its port answers through the proxy",
    ]
