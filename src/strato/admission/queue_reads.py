"""Reads of queues that several rules use."""

from __future__ import annotations

from strato.admission.request import AdmissionReader, Json
from strato.api import catalog

ROOT = "root"


def queue_problem(name: str, reader: AdmissionReader, what: str) -> str:
    """Return why a job or PodGroup may not be put into the queue, or "": it must exist and be open.

    A queue so new that its controller has not written a state yet counts as open: a queue and its first job may come
    in one manifest.
    """
    queue = reader.get(catalog.QUEUE, "", name)
    if queue is None:
        sought = "queue" if what == "PodGroup" else f"{what} queue"
        return f'unable to find {sought}: queues.scheduling.volcano.sh "{name}" not found'
    state = state_of(queue)
    if state not in ("", "Open"):
        return f"can only submit {what} to queue with state `Open`, queue `{name}` status is `{state}`"
    return ""


def state_of(queue: Json) -> str:
    """Return ``status.state``, "" when the controller has not set it yet."""
    return (queue.get("status") or {}).get("state") or ""


def parent_of(queue: Json) -> str:
    """Return the name of the parent; queues without one are children of root."""
    if queue["metadata"]["name"] == ROOT:
        return ""
    return (queue.get("spec") or {}).get("parent") or ROOT


def children_of(name: str, reader: AdmissionReader) -> list[Json]:
    """Return the queues directly below one."""
    return [queue for queue in reader.list(catalog.QUEUE, "") if parent_of(queue) == name]
