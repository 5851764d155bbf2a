"""What is particular to each framework: how it is judged, and what its pods are told. One row per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strato.api import catalog
from strato.api.frameworks import BY_KIND, Framework
from strato.api.kinds import Kind
from strato.controllers.training import environments, verdicts
from strato.controllers.training.bodies import Renderer
from strato.controllers.training.environments import Environment
from strato.controllers.training.verdicts import Judge
from strato.controllers.trainingoptions import PodOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One kind of training job, for the core."""

    framework: Framework
    judge: Judge
    environment: Environment
    in_every_container: bool = True
    waits_for_master: bool = False

    def renderer(self, options: PodOptions) -> Renderer:
        """Return what makes the objects of its jobs."""
        return Renderer(
            environment=self.environment,
            options=options,
            in_every_container=self.in_every_container,
            waits_for_master=self.waits_for_master,
        )


ADAPTERS: Mapping[Kind, Adapter] = {
    adapter.framework.kind: adapter
    for adapter in (
        Adapter(
            framework=BY_KIND[catalog.TFJOB],
            judge=verdicts.tensorflow,
            environment=environments.tensorflow,
            in_every_container=False,
        ),
        Adapter(
            framework=BY_KIND[catalog.PYTORCHJOB],
            judge=verdicts.collective,
            environment=environments.pytorch,
            waits_for_master=True,
        ),
        Adapter(
            framework=BY_KIND[catalog.XGBOOSTJOB],
            judge=verdicts.led,
            environment=environments.xgboost,
        ),
        Adapter(
            framework=BY_KIND[catalog.PADDLEJOB],
            judge=verdicts.collective,
            environment=environments.paddle,
        ),
        Adapter(
            framework=BY_KIND[catalog.JAXJOB],
            judge=verdicts.collective,
            environment=environments.jax,
        ),
    )
}
"""Every kind that is run."""
