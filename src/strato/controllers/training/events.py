"""Events on training jobs: changes of a job, and problems and ends of its pods (spec training J1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strato.api.core import Pod
from strato.api.frameworks import Framework


class JobEvent(NamedTuple):
    """An event on a job."""

    type: str
    reason: str
    message: str


def exit_code(framework: Framework, pod: Pod) -> int | None:
    """Return the exit code of the training container, None if it has not ended or its status is missing."""
    for status in pod.status.container_statuses:
        if status.name == framework.container and status.state.terminated is not None:
            return status.state.terminated.exit_code
    return None


def exit_event(framework: Framework, pod: Pod) -> Iterator[JobEvent]:
    """Yield an event if the training container has ended."""
    code = exit_code(framework, pod)
    if code is not None:
        meta = pod.metadata
        yield JobEvent("Normal", "ExitedWithCode", f"Pod: {meta.namespace}.{meta.name} exited with code {code}")


def trouble(pod: Pod) -> Iterator[JobEvent]:
    """Yield events about what keeps a pod from running that is neither finished nor terminating."""
    name = pod.metadata.name
    for status in pod.status.container_statuses:
        ended, waiting = status.state.terminated, status.state.waiting
        if ended is not None and ended.exit_code != 0:
            text = f"container {status.name} exitCode: {ended.exit_code} terminated message: {ended.message}"
            yield JobEvent("Warning", ended.reason, f"Error pod {name} {text}")
        elif waiting is not None and waiting.message:
            text = f"container {status.name} waiting message: {waiting.message}"
            yield JobEvent("Warning", waiting.reason, f"Error pod {name} {text}")
    if not pod.status.container_statuses:
        unmet = [one for one in pod.status.conditions if one.status != "True"]
        if unmet:
            newest = max(unmet, key=lambda one: one.last_transition_time or "")
            yield JobEvent("Warning", newest.reason, f"Error pod {name} condition message: {newest.message}")
