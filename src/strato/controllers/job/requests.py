"""Requests: events of a job that its policies may answer with an action.

A request names the event, the part of the job that it concerns, and the version of the job at that time. The job's
policies choose the action (`JobPolicies.match`).

Source: volcano-controllers A1.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.controllers.job.terms import JobEvent


@dataclass(frozen=True, slots=True)
class Target:
    """The part of a job that an action concerns; with empty names the whole job."""

    task: str = ""
    pod: str = ""
    partition: str = ""


WHOLE_JOB = Target()
"""The target of actions on the whole job."""


@dataclass(frozen=True, slots=True)
class Request:
    """One event of a job, pod or command."""

    event: str = JobEvent.NONE
    action: str = ""
    """The action of a command, or of a policy whose timeout has passed; policies do not apply to such a request."""
    cause: tuple[str, str] = ("", "")
    """Reason and message of ``action``, when there is one."""
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    job_uid: str = ""
    """Empty for events of PodGroups, which do not hold it."""
    job_version: int = 0
    """Version of the job for which the pod was made; 0 for events of PodGroups, which do not hold it."""

    @property
    def target(self) -> Target:
        """The part of the job that the request concerns."""
        return Target(self.task, self.pod, self.partition)
