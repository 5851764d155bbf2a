"""Settings of how hollow nodes and their pods behave, besides annotations."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.node.hollow.images import PullSpeed
from strato.node.hollow.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowBehaviour:
    """The behaviour of all hollow nodes of a process."""

    pulls: PullSpeed = field(default_factory=PullSpeed)
    """How fast images are pulled."""
    stages: tuple[Stage, ...] = ()
    """Stages for pods, nodes or both, which replace the behaviour by annotations and command lines."""
    served_stages: bool = False
    """Whether pods and nodes follow the Stage objects of the cluster, as with kwok."""
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
