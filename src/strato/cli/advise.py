"""``strato advise``: what the roles of training jobs should request, out of what earlier runs used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from strato.cli.history import opened, store_option
from strato.clock import SystemClock

if TYPE_CHECKING:
    from strato.advice.estimators import Amounts
    from strato.advice.roles import RoleAdvice

HEADERS = (
    *("QUEUE", "JOB", "ROLE", "CONTAINER", "N", "RUNS", "CPU REQ", "CPU USE(p50/p90)", "CPU ADVICE"),
    *("MEM REQ", "MEM PEAK", "MEM ADVICE", "SAVES/RUN", "CONF", "NOTE"),
)
_Job = tuple[str, str]
"""Namespace and template."""
_NOTHING = "no use of training jobs is recorded yet; advice follows after their first minute of running"


@click.command()
@click.argument("job", required=False, default="")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("-n", "--namespace", default="", help="Only jobs of this namespace.")
@click.option(
    "--policy", type=click.Choice(["vpa", "autopilot"]), default="vpa", show_default=True, help="Whose rules."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "vpa", "patch"]),
    default="table",
    show_default=True,
    help="Format: vpa prints VerticalPodAutoscaler objects, patch a strategic merge patch for each role.",
)
@store_option
@click.pass_context
def advise(
    ctx: click.Context, job: str, queue: str, namespace: str, policy: str, output: str, path: str | None
) -> None:
    """Say what the roles of training jobs should request, out of what their runs used.

    JOB is a job, or what its runs have in common: ctr-day for ctr-day-20260801. Nothing is changed.
    """
    from strato.cli.output import fitted_table, text_of
    from strato.history import advising

    with opened(ctx, path) as store:
        runs, replicas = store.runs(), store.replicas()
    now = SystemClock().now()
    found = advising.advise(runs, replicas, policy, now, queue=queue, namespace=namespace, job=job)
    if output in ("vpa", "patch"):
        import yaml

        kinds = {(run.namespace, run.template): run.kind for run in runs}
        documents = (_autoscalers if output == "vpa" else _patches)(found, kinds)
        click.echo("---\n".join(yaml.safe_dump(one, sort_keys=False) for one in documents), nl=False)
    elif output != "table":
        click.echo(text_of({"kind": "List", "apiVersion": "v1", "items": [_body(one) for one in found]}, output))
    elif not found:
        click.echo(_NOTHING)
    else:
        click.echo(fitted_table(HEADERS, [_row(one) for one in found]))


def _row(one: RoleAdvice) -> Sequence[object]:
    key, target = one.key, one.advice.target
    notes = [*(["low confidence"] if one.is_uncertain else []), *one.notes]
    return (
        key.queue,
        key.template,
        key.role or "-",
        key.container,
        one.replicas,
        one.runs,
        f"{one.requests.cpu_millicores / 1000:g}",
        f"{one.cpu_p50_cores:.1f}/{one.cpu_p90_cores:.1f}",
        f"{target.cpu_millicores}m",
        _memory(one.requests.memory_bytes),
        _memory(int(one.memory_peak_bytes)),
        f"{target.memory_bytes >> 20}Mi",
        f"{one.saved_core_hours:.3g} core·h",
        f"{one.confidence:.2f}",
        ", ".join(notes),
    )


def _memory(amount: int) -> str:
    gib = amount / (1 << 30)
    return f"{gib:.3g}Gi" if gib >= 1 else f"{amount >> 20}Mi"


def _body(one: RoleAdvice) -> dict[str, Any]:
    return {
        **one.key._asdict(),
        "replicas": one.replicas,
        "runs": one.runs,
        "requests": _resources(one.requests),
        "cpuUseCores": {"p50": one.cpu_p50_cores, "p90": one.cpu_p90_cores},
        "memoryPeakBytes": int(one.memory_peak_bytes),
        "target": _resources(one.advice.target),
        "lowerBound": _resources(one.advice.lower),
        "upperBound": _resources(one.advice.upper),
        "savedCoreHoursPerRun": round(one.saved_core_hours, 6),
        "confidence": round(one.confidence, 4),
        "lowConfidence": one.is_uncertain,
        "notes": list(one.notes),
    }


def _resources(amounts: Amounts) -> dict[str, str]:
    from strato.advice.estimators import to_resources

    return to_resources(amounts)


def _autoscalers(found: Sequence[RoleAdvice], kinds: Mapping[_Job, str]) -> list[dict[str, Any]]:
    """Return a VerticalPodAutoscaler in mode Off for each role, whose status holds the recommended requests."""
    roles: dict[tuple[_Job, str], list[RoleAdvice]] = {}
    for one in found:
        roles.setdefault(((one.key.namespace, one.key.template), one.key.role), []).append(one)
    objects = []
    for ((namespace, template), role), members in roles.items():
        api_version, _, kind = kinds[namespace, template].rpartition("/")
        recommended = [
            {
                "containerName": one.key.container,
                "target": _resources(one.advice.target),
                "lowerBound": _resources(one.advice.lower),
                "upperBound": _resources(one.advice.upper),
                "uncappedTarget": _resources(one.advice.target),
            }
            for one in members
        ]
        objects.append(
            {
                "apiVersion": "autoscaling.k8s.io/v1",
                "kind": "VerticalPodAutoscaler",
                "metadata": {"name": "-".join(part for part in (template, role) if part), "namespace": namespace},
                "spec": {
                    "recommenders": [{"name": "strato"}],
                    "targetRef": {"apiVersion": api_version, "kind": kind, "name": template},
                    "updatePolicy": {"updateMode": "Off"},
                },
                "status": {"recommendation": {"containerRecommendations": recommended}},
            }
        )
    return objects


def _patches(found: Sequence[RoleAdvice], kinds: Mapping[_Job, str]) -> list[dict[str, Any]]:
    """Return for each role the patch to merge into its job's manifest, which sets the requests of its containers."""
    from strato.api.frameworks import FRAMEWORKS
    from strato.api.trainer import NODE, TRAINJOB

    maps = {one.kind.name: one for one in FRAMEWORKS}
    patches = []
    for one in found:
        api_version, _, kind = kinds[one.key.namespace, one.key.template].rpartition("/")
        container = {"name": one.key.container, "resources": {"requests": _resources(one.advice.target)}}
        template = {"spec": {"containers": [container]}}
        framework = maps.get(kind)
        if kind == TRAINJOB.name:
            if one.key.role != NODE:
                continue  # the requests of a TrainJob's other steps stand in its runtime
            spec: dict[str, Any] = {"trainer": {"resourcesPerNode": container["resources"]}}
        elif framework is None:
            spec = {"tasks": [{"name": one.key.role, "template": template}]}
        else:
            role = next((name for name in framework.roles if name.lower() == one.key.role), one.key.role)
            spec = {framework.replica_map: {role: {"template": template}}}
        metadata = {"name": one.key.template, "namespace": one.key.namespace}
        patches.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    return patches
