"""``strato explain``: why a pod, job, pod group or queue waits, from the scheduler's own record."""

from __future__ import annotations

import json

import click

from strato.cli.connect import with_cluster
from strato.client.cluster import Cluster
from strato.errors import NotFound, UsageError

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "job": "job",
    "jobs": "job",
    "vcjob": "job",
    "vj": "job",
    "podgroup": "podgroup",
    "podgroups": "podgroup",
    "pg": "podgroup",
}


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def explain(ctx: click.Context, target: str, namespace: str, output: str) -> None:
    """Say why TARGET waits: a pod's name, pod/NAME, job/NAME or podgroup/NAME."""
    word, _, name = target.rpartition("/")
    kind = _KINDS.get(word or "pod")
    if kind is None or not name:
        raise UsageError(f"{target!r}: write pod/NAME, job/NAME or podgroup/NAME")

    async def work(cluster: Cluster) -> str:
        from strato.api.core import Pod
        from strato.api.volcano.batch import Job
        from strato.api.volcano.scheduling import PodGroup
        from strato.scheduler.explain import from_conditions

        group: PodGroup | None = None
        if kind == "pod":
            pods = [await cluster.get(Pod, name, namespace)]
            group_name = pods[0].metadata.annotation("scheduling.k8s.io/group-name")
        elif kind == "job":
            job = await cluster.get(Job, name, namespace)
            group_name = f"{name}-{job.metadata.uid}"
            page = await cluster.list(Pod, namespace, label_selector=f"volcano.sh/job-name={name}")
            pods = list(page.items)
        else:
            group_name = name
            group = await cluster.get(PodGroup, name, namespace)
            everything = await cluster.list(Pod, namespace)
            pods = [p for p in everything.items if p.metadata.annotation("scheduling.k8s.io/group-name") == name]
        if group is None and group_name:
            try:
                group = await cluster.get(PodGroup, group_name, namespace)
            except NotFound:
                if kind == "job" and not pods:
                    return _without_group(name, job.status.state.phase, output)
        found = from_conditions(group, pods)
        return json.dumps(found.to_json(), indent=2) if output == "json" else found.render()

    click.echo(with_cluster(ctx, work))


def _without_group(name: str, phase: str, output: str) -> str:
    text = f"job {name} is {phase or 'new'} and has no pod group"
    if phase in ("Completed", "Failed", "Terminated", "Aborted"):
        text += ": it has ended, nothing of it waits"
    return json.dumps({"key": name, "state": phase, "summary": text}) if output == "json" else text
