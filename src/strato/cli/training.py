"""Options of training jobs, with the names of Kubeflow's training operator where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from strato.api import trainingkinds
from strato.api.kinds import Kind
from strato.api.names import check_label, check_subdomain
from strato.cli.optiongroups import option_group
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.controllers.trainingoptions import PodOptions


class TrainingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How training jobs run."""

    init_image: str = ""
    """Image of init containers; empty is the default of the process that runs the controllers."""
    init_tries: int = 100
    cluster_domain: str = ""
    enforces_schedule_timeout: bool = False
    kinds: str = trainingkinds.ALL
    """Kinds of training jobs that are served, as a comma-separated list."""

    @property
    def off(self) -> frozenset[Kind]:
        """Kinds that are turned off: they have neither definition nor controller."""
        return trainingkinds.kinds_off(self.kinds)

    def over(self, defaults: PodOptions) -> PodOptions:
        """Return the controllers' options; an image that is not given is that of ``defaults``."""
        from dataclasses import replace

        return replace(
            defaults,
            init_image=self.init_image or defaults.init_image,
            init_tries=self.init_tries,
            cluster_domain=self.cluster_domain,
            enforces_schedule_timeout=self.enforces_schedule_timeout,
        )


class _KindsType(click.ParamType[str]):
    name = "kinds"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        try:
            trainingkinds.kinds_off(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return value


kinds_option = click.option(
    "--training-kinds",
    "kinds",
    default=trainingkinds.ALL,
    show_default=True,
    type=_KindsType(),
    metavar="LIST",
    help="Training jobs there are: * for all, -NAME to leave one out, none; "
    f"of {', '.join(trainingkinds.SWITCHES)}. The others have no definition and no controller.",
)


class _DomainType(click.ParamType[str]):
    name = "domain"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        if value and (check_subdomain(value) or any(map(check_label, value.split(".")))):
            self.fail(f"{value!r} is no domain; write for example cluster.local", param, ctx)
        return value


training_options = option_group(
    "training",
    TrainingOptions,
    (
        kinds_option,
        click.option(
            "--pytorch-init-container-image",
            "init_image",
            default="",
            metavar="IMAGE",
            help="Image in which workers of PyTorchJobs wait for their master; alpine:3.10 on a cluster.",
        ),
        click.option(
            "--pytorch-init-container-max-tries",
            "init_tries",
            default=100,
            show_default=True,
            type=click.IntRange(1, 1_000_000),
            help="How often they look for it, every 2 seconds.",
        ),
        click.option(
            "--cluster-domain",
            default="",
            type=_DomainType(),
            metavar="DOMAIN",
            help="End of the names in TF_CONFIG; without it the pods' resolvers add it.",
        ),
        click.option(
            "--enforce-schedule-timeout",
            "enforces_schedule_timeout",
            is_flag=True,
            help="Training jobs that wait for longer than their scheduleTimeoutSeconds fail.",
        ),
    ),
)
"""Adds the options to a command, which takes them as ``training``."""
