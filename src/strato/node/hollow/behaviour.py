"""How hollow nodes and their pods behave, beside what annotations say."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.node.hollow.images import PullSpeed
from strato.node.hollow.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowBehaviour:
    """Of all hollow nodes of a process."""

    pulls: PullSpeed = field(default_factory=PullSpeed)
    """How fast images come."""
    stages: tuple[Stage, ...] = ()
    """Lives of pods, nodes or both, instead of those that annotations and command lines give."""
    served_stages: bool = False
    """Whether the lives of both are by the stages that the cluster holds, as with kwok."""
    failures: bool = True
    """Whether nodes fail by ``mtbf`` and by annotation."""

    @property
    def stages_pods(self) -> bool:
        """Whether stages play pods."""
        return self.served_stages or any(stage.kind == "Pod" for stage in self.stages)

    @property
    def stages_nodes(self) -> bool:
        """Whether stages play nodes."""
        return self.served_stages or any(stage.kind == "Node" for stage in self.stages)
