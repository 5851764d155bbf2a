"""Which resources take part in scheduling."""

from __future__ import annotations

import pytest

from strato.api.quantity import resource_text
from strato.scheduler.model.resources import counts, to_quantity, to_text


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


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 8000, "8"),
        ("cpu", 100050, "100.05"),
        ("cpu", 1500, "1.5"),
        ("cpu", 500, "500m"),
        ("cpu", 0, "0"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 10207258214, "9.51Gi"),
        ("memory", 67108864, "64Mi"),
        ("memory", 100, "100"),
        ("ephemeral-storage", 1 << 40, "1Ti"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 2000, "2"),
        ("attachable-volumes-csi-disk", 3, "3"),
    ],
)
def test_amounts_are_written_as_people_do(name: str, amount: int, text: str) -> None:
    assert to_text(name, amount) == text
    wire = to_quantity(name, amount)
    assert resource_text(name, wire) == text
    assert resource_text(f"requests.{name}", wire) == text
