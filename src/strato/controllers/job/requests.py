"""Requests: what an event asks of a job.

A request names the part of the job it is about, the event, and the version of the job at that time. Policies turn it
into an action (`policies.match`).

Source: volcano-controllers A1.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.controllers.job.terms import JobEvent


@dataclass(frozen=True, slots=True)
class Target:
    """The part of a job an action is about; empty names mean the whole job."""

    task: str = ""
    pod: str = ""
    partition: str = ""


WHOLE_JOB = Target()
"""All of it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One event of a job, pod or command."""

    event: str = JobEvent.NONE
    action: str = ""
    """Set by a command, or by a policy that has waited: then policies are not asked."""
    cause: tuple[str, str] = ("", "")
    """With an action: why, in a word and as a message."""
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    job_uid: str = ""
    """Empty when the source does not know it (pod groups)."""
    job_version: int = 0
    """Version of the job that the source belongs to; pod groups know none and say 0."""

    @property
    def target(self) -> Target:
        """What it is about."""
        return Target(self.task, self.pod, self.partition)
