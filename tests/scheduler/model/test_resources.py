"""Which resources take part in scheduling."""

from __future__ import annotations

import pytest

from strato.scheduler.model.resources import counts


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("cpu", True),
        ("pods", True),
        ("ephemeral-storage", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi-disk", True),
        ("nvidia.com/gpu", True),
        ("volcano.sh/gpu-memory", True),
        ("example.kubernetes.io/thing", True),
        ("count/pods", False),
        ("requests.cpu", False),
        ("limits.memory", False),
        ("requests.nvidia.com/gpu", False),
        ("requests.hugepages-2Mi", False),
        ("storage", False),
    ],
)
def test_nodes_have_it_and_quotas_only_count_it(name: str, want: bool) -> None:
    assert counts(name) is want
