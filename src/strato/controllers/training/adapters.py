"""What differs between frameworks: how success is decided, and the environment of pods. One row per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import BY_KIND, Framework, JobShape
from strato.api.kinds import Kind
from strato.controllers.training import autoscaler, environments, verdicts
from strato.controllers.training.bodies import Dress, PodMaker, Renderer
from strato.controllers.training.environments import Environment
from strato.controllers.training.mpi import execution, ssh
from strato.controllers.training.mpi import plan as launched
from strato.controllers.training.plan import plan
from strato.controllers.training.record import Companion, CompanionsOf, TrainingPlan, TrainingRecord, no_companions
from strato.controllers.training.verdicts import Judge
from strato.controllers.trainingoptions import PodOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What the core has to know of one kind of training job."""

    framework: Framework
    judge: Judge = verdicts.led
    environment: Environment = environments.nothing
    in_every_container: bool = True
    waits_for_master: bool = False
    dress: Dress | None = None
    companions: Callable[[JobShape, Sequence[Pod], PodOptions], Sequence[Companion]] | None = None
    while_it_runs: tuple[Kind, ...] = ()
    """Kinds of companions with the job's name that exist only while the job runs."""
    plan: Callable[[TrainingRecord], TrainingPlan] = plan
    pod_maker: Callable[[PodOptions], PodMaker] | None = None
    """Makes the pods of a kind for which `Renderer` does not suffice."""

    def companions_of(self, options: PodOptions) -> CompanionsOf:
        """Return the function that lists the objects of a job beside its pods."""
        companions = self.companions
        if companions is None:
            return no_companions
        return lambda shape, pods: companions(shape, pods, options)

    def renderer(self, options: PodOptions) -> PodMaker:
        """Return the maker of the pods of its jobs."""
        if self.pod_maker is not None:
            return self.pod_maker(options)
        return Renderer(
            environment=self.environment,
            options=options,
            in_every_container=self.in_every_container,
            waits_for_master=self.waits_for_master,
            dress=self.dress,
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
            companions=autoscaler.companions,
            while_it_runs=(autoscaler.KIND,),
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
        Adapter(
            framework=BY_KIND[catalog.MPIJOB_V1],
            dress=execution.dress,
            companions=execution.companions,
        ),
        Adapter(
            framework=BY_KIND[catalog.MPIJOB],
            companions=ssh.companions,
            plan=launched.plan,
            pod_maker=ssh.SshPods,
        ),
    )
}
"""All kinds of training jobs that Strato runs."""
