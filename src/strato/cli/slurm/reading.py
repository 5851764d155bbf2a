"""Read jobs for Slurm's commands, and choose them by the commands' options."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from strato.api import catalog
from strato.cli.reasons.reading import JOB_LABEL, reports_of_jobs
from strato.cli.submit.plan import login
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.errors import UsageError
from strato.interop.slurm.jobs import STATES, JobView, job_views

namespace_option = click.option(
    "--namespace", default="default", envvar="STRATO_NAMESPACE", show_default=True, help="Namespace of the jobs."
)


class JobFilter(NamedTuple):
    """A filter on jobs; each field that is set must match."""

    jobs: Sequence[str] = ()
    """Ids of jobs or of elements of arrays."""
    users: Sequence[str] = ()
    names: Sequence[str] = ()
    partitions: Sequence[str] = ()
    accounts: Sequence[str] = ()
    states: Sequence[str] | None = None
    """States of jobs; None is every state."""

    def has(self, view: JobView) -> bool:
        """Return whether a job passes the filter."""
        fields = view.fields
        ids = {fields["jobid"], fields["jobarrayid"]}
        return (
            (not self.jobs or bool(ids & set(self.jobs)))
            and (not self.users or fields["username"] in self.users)
            and (not self.names or bool({fields["name"], view.name} & set(self.names)))
            and (not self.partitions or fields["partition"] in self.partitions)
            and (not self.accounts or fields["account"] in self.accounts)
            and (self.states is None or view.state in self.states)
        )


def words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(word for word in text.split(",") if word)


def users(text: str, me: bool) -> tuple[str, ...]:
    """Return the users named by ``--user`` and ``--me``."""
    return (*words(text), *((login(),) if me else ()))


def states(text: str) -> tuple[str, ...] | None:
    """Read states, long or short; ``all`` is every one.

    Raises:
        UsageError: One is none of Slurm's.
    """
    short = {compact: state for state, compact in STATES.items()}
    found = []
    for word in words(text):
        if word.lower() == "all":
            return None
        state = short.get(word.upper(), word.upper())
        if state not in STATES:
            raise UsageError(f"--states: {word!r} is no state; known are {', '.join(STATES)}, all")
        found.append(state)
    return tuple(found)


async def read_jobs(cluster: Cluster, namespace: str, *, elements: bool = False, why: bool = True) -> list[JobView]:
    """Read the jobs of a namespace with their pods and, if asked, the reasons of those that wait."""
    jobs, pods = await asyncio.gather(
        cluster.list(catalog.VCJOB, namespace), cluster.list(catalog.POD, namespace, label_selector=JOB_LABEL)
    )
    reasons: dict[str, str] = {}
    if why:
        waiting = [job for job in jobs.items if _phase(job) in ("", "Pending", "Inqueue")]
        reasons = {uid: report.code for uid, report in (await reports_of_jobs(cluster, namespace, waiting)).items()}
    return job_views(list(jobs.items), list(pods.items), reasons, SystemClock().now(), elements=elements)


def _phase(job: dict[str, Any]) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def columns_of(flag: str, read: Callable[[], Any]) -> Any:
    """Read a format.

    Raises:
        UsageError: The format is wrong.
    """
    try:
        return read()
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
