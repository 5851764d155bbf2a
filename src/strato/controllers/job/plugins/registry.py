"""The table of job plugins, and the plugins of one job made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strato.controllers.job.plugins.array import ArrayPlugin
from strato.controllers.job.plugins.base import JobPlugin
from strato.controllers.job.plugins.env import EnvPlugin
from strato.controllers.job.plugins.hcclrank import HcclRankPlugin
from strato.controllers.job.plugins.mpi import MpiPlugin
from strato.controllers.job.plugins.pytorch import PytorchPlugin
from strato.controllers.job.plugins.ray import RayPlugin
from strato.controllers.job.plugins.ssh import SshPlugin
from strato.controllers.job.plugins.svc import SvcPlugin
from strato.controllers.job.plugins.tensorflow import TensorflowPlugin
from strato.errors import StratoError

_IN_ORDER: tuple[type[JobPlugin], ...] = (
    SvcPlugin,
    EnvPlugin,
    ArrayPlugin,
    SshPlugin,
    TensorflowPlugin,
    MpiPlugin,
    PytorchPlugin,
    RayPlugin,
    HcclRankPlugin,  # last: it reads the rank that pytorch gives
)
PLUGINS: Mapping[str, type[JobPlugin]] = {plugin.name: plugin for plugin in _IN_ORDER}
"""Every plugin by the name a Job uses. A job's plugins work in this order."""


class UnknownPlugin(StratoError):
    """A job asks for a plugin that does not exist."""

    def __init__(self, name: str) -> None:
        self.name = name
        known = ", ".join(sorted(PLUGINS))
        super().__init__(f"failed to get plugin {name}: no such job plugin; known plugins: {known}")


class JobPlugins:
    """The plugins of one job, in the order of `PLUGINS`."""

    def __init__(self, asked: Mapping[str, Sequence[str] | None]) -> None:
        self.unknown = next((name for name in asked if name not in PLUGINS), None)
        self.active = tuple(plugin(asked[name] or ()) for name, plugin in PLUGINS.items() if name in asked)
        self.are_none = not asked
        """Whether the job asked for none."""

    @property
    def element_limit(self) -> int:
        """Most elements of a job array that may be active at once; 0 is no limit."""
        return next((plugin.limit for plugin in self.active if isinstance(plugin, ArrayPlugin)), 0)

    def check(self) -> None:
        """Raise `UnknownPlugin` when one that was asked for does not exist."""
        if self.unknown is not None:
            raise UnknownPlugin(self.unknown)


def controlled_key(plugin: JobPlugin) -> str:
    """Return the key of ``status.controlledResources`` that records that the plugin's objects exist."""
    return f"plugin-{plugin.name}"
