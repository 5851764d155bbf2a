"""Stages that the cluster itself holds, where kwok's definition is served."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, InvalidInput
from strato.node.hollow.stages.model import Stage, parse_stages

STAGE: Final = Kind("kwok.x-k8s.io", "v1alpha1", "Stage", "stages", namespaced=False)
_INTERVAL_SECONDS: Final = 10.0
"""Between two looks for changes: stages hardly ever change, and what has begun goes on by those of its beginning."""
_log = logging.getLogger(__name__)


class ServedStages:
    """Keeps the stages of a cluster.

    Args:
        on_change: Called with all stages when they have changed.
    """

    def __init__(self, cluster: Cluster, clock: Clock, on_change: Callable[[Sequence[Stage]], None]) -> None:
        self._cluster, self._clock, self._on_change = cluster, clock, on_change
        self._version = ""

    async def run(self) -> None:
        """Look for changes until cancelled; stages that cannot be read are named in the log and change nothing."""
        while True:
            try:
                await self.look()
            except (ApiError, InvalidInput) as error:
                _log.warning("the cluster's stages cannot be read: %s", error)
            await self._clock.sleep(_INTERVAL_SECONDS)

    async def look(self) -> None:
        """Read the stages once.

        Raises:
            ApiError: What the API answered; NotFound where the definition is not served.
            InvalidInput: What is wrong with which stage.
        """
        page = await self._cluster.list(STAGE)
        version = ",".join(
            sorted(f"{one['metadata']['uid']}/{one['metadata']['resourceVersion']}" for one in page.items)
        )
        if version != self._version or not self._version:
            stages = parse_stages(("the cluster", one) for one in _named(page.items))
            self._version = version
            self._on_change(stages)


def _named(items: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return list items with the kind, which items of a list need not have."""
    return [{"apiVersion": STAGE.api_version, "kind": STAGE.name, **one} for one in items]
