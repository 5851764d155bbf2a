"""Create a job: pin the jobs it waits for, store its script in a ConfigMap, warn if mail cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import click

from strato.api import catalog
from strato.api.afterjobs import AFTER, parse_after
from strato.api.mail import MAIL, MAIL_STATE
from strato.cli.output import print_objects, text_of
from strato.cli.verbs import VerbFailed
from strato.cli.watching import Objects, Source, watch
from strato.client.cluster import Cluster, Json
from strato.errors import ApiError, NotFound

_MAIL_SECONDS = 5.0
"""How long the CLI waits for the controllers' annotation on whether mail can be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """A job, and the ConfigMap it mounts if it has a script."""

    job: Json
    namespace: str
    script: Json | None = None

    def print(self, output: str | None) -> None:
        """Print the objects that would be created."""
        if output == "name":
            print_objects(catalog.VCJOB, [self.job], "name")
            return
        bodies = [body for body in (self.script, self.job) if body is not None]
        if output == "json":
            whole = {"apiVersion": "v1", "kind": "List", "items": bodies}
            click.echo(text_of(bodies[0] if len(bodies) == 1 else whole, "json"))
        else:
            click.echo("\n---\n".join(text_of(body, "yaml") for body in bodies))


async def submit(
    cluster: Cluster,
    submission: JobSubmission,
    *,
    dry_run: str,
    output: str | None = None,
    text: str | None = "run job {name} successfully",
    show: bool = True,
) -> Json | None:
    """Create a job and print a message about it.

    Args:
        cluster: Where the job is created.
        submission: The job and its ConfigMap.
        dry_run: With ``server`` the request is a dry run, and nothing is returned.
        output: ``json``, ``yaml`` or ``name`` prints the job, instead of the text.
        text: The message; None prints nothing.
        show: Whether to print the job as the server would create it.

    Raises:
        VerbFailed: A job to wait for does not exist.
        ApiError: The server answered with an error.
    """
    job, namespace = submission.job, submission.namespace
    if job["metadata"].get("annotations", {}).get(AFTER):
        await _pin(cluster, job, namespace)
    if dry_run:
        made = await cluster.create(catalog.VCJOB, job, namespace, dry_run=True)
        if show:
            print_objects(catalog.VCJOB, [_shown(made)], output or "yaml", single=True)
        return None
    script = None
    if submission.script is not None:
        script = await cluster.create(catalog.CONFIGMAP, submission.script, namespace)
    try:
        created = await cluster.create(catalog.VCJOB, job, namespace)
    except BaseException:
        if script is not None:
            await cluster.delete(catalog.CONFIGMAP, script["metadata"]["name"], namespace)
        raise
    if script is not None:
        await _give(cluster, script, created)
    name = created["metadata"]["name"]
    if output:
        print_objects(catalog.VCJOB, [created], output, single=True)
    elif text is not None:
        click.echo(text.format(name=name))
    if job["metadata"].get("annotations", {}).get(MAIL):
        await _say_about_mail(cluster, namespace, name)
    return created


async def _pin(cluster: Cluster, job: Json, namespace: str) -> None:
    """Add the uids of the jobs that this one waits for: a later job of the same name is another one."""
    pinned, missing = [], []
    for dependency in parse_after(job["metadata"]["annotations"][AFTER]):
        try:
            found = await cluster.get(catalog.VCJOB, dependency.job, namespace)
        except NotFound:
            missing.append(dependency.job)
        else:
            pinned.append(dependency._replace(uid=found["metadata"]["uid"]))
    if missing:
        raise VerbFailed(f"--after: no such job in namespace {namespace}: {', '.join(missing)}")
    job["metadata"]["annotations"][AFTER] = ",".join(map(str, pinned))


async def _give(cluster: Cluster, script: Json, job: Json) -> None:
    """Make the job the owner of its script's ConfigMap, so that both are deleted together."""
    owner = {"apiVersion": catalog.VCJOB.api_version, "kind": catalog.VCJOB.name}
    owner |= {member: job["metadata"][member] for member in ("name", "uid")}
    metadata = script["metadata"]
    body = {"metadata": {"uid": metadata["uid"], "ownerReferences": [owner]}}
    await cluster.patch(catalog.CONFIGMAP, metadata["name"], metadata["namespace"], body)


async def _say_about_mail(cluster: Cluster, namespace: str, name: str) -> None:
    """Warn if no mail will be sent: the controllers annotate the job with whether they can send it."""
    state = ""

    async def look(objects: Sequence[Objects]) -> bool:
        nonlocal state
        for job in objects[0].values():
            state = (job["metadata"].get("annotations") or {}).get(MAIL_STATE, "")
        return bool(state)

    source = Source(catalog.VCJOB, namespace, field_selector=f"metadata.name={name}")
    try:
        async with asyncio.timeout(_MAIL_SECONDS):
            await watch(cluster, [source], look)
    except TimeoutError:
        state = "not sent: no controller has answered; is mail-controller running?"
    except ApiError as error:
        state = f"not sent, perhaps: {error}"
    if state.startswith("not sent"):
        click.echo(f"warning: mail about {name} is {state}", err=True)


def _shown(job: Json) -> Json:
    return {**job, "metadata": {name: value for name, value in job["metadata"].items() if name != "managedFields"}}
