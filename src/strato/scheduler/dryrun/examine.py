"""Explains why a job or pod waits, by the verdicts of one cycle on a copy of the state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from strato.scheduler.cache.world import World
from strato.scheduler.dryrun.fixes import FixSearch
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.plan import Plan, QueueStatus
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import FULL, INSUFFICIENT, TOO_SMALL, FitErrors, Verdict
from strato.scheduler.model.resources import PODS, Vector, internal, to_text
from strato.scheduler.model.tasks import PENDING
from strato.scheduler.reporting.explain import Diagnosis, ranked, sentence, summary, untried

_PLUGIN_FAILED = re.compile(r"^plugin \S+ pre-predicates failed ")
_SHARE_CODES = ("QueueOverused", "QueueShare")
_CLUSTER_CODES = ("Overcommit", "QueueQuota", *_SHARE_CODES)
_WAITS_FOR = {
    "ClusterFull": "room in the cluster",
    "Overcommit": "jobs let in before to start or end",
    "TooLarge": "a larger cluster",
    "NodeFit": "room on nodes",
    "QueueQuota": "the queue's capability",
    "QueueOverused": "the queue's share",
    "QueueShare": "the queue's share",
    "QueueClosed": "the queue to be opened",
    "NamespaceQuota": "a resource quota of their namespace",
    "NotEnoughTasks": "pods of their own",
    "NotEnoughPodsOfTask": "pods of their own",
    "Topology": "room in a network domain",
}
"""What a job with such a verdict waits for."""


class _Lack(NamedTuple):
    """A lack of resources on nodes or in the cluster.

    Attributes:
        code: ``ClusterFull``, or ``TooLarge`` for a request that would not fit an empty cluster either.
        text: The sentence for people.
        of_one_pod: Whether a single pod is too large for every node, rather than all pods for the cluster.
    """

    code: str
    text: str
    of_one_pod: bool = False


def examine(copy: Copy, key: str, *, fix: bool = False) -> Diagnosis | None:
    """Explain a pod or a PodGroup (``namespace/name``); None when the state has neither."""
    before = copy.run(0).world
    task = before.tasks.get(key)
    job = before.jobs.get(key) or (task.job if task is not None else None)
    if job is None:
        return None if task is None else Diagnosis(key, task.pod.status.phase or "Pending", untried(task))
    outcome = copy.run(1)
    found = _diagnosis(key, job, task, outcome.plans[0], outcome.world)
    waits = task.status == PENDING if task is not None else bool(job.pending) or job.is_waiting_for_queue
    if not fix or not waits or found.goes_on:
        return found
    return replace(found, fixes=FixSearch(copy, job.key, key if task is not None else "").fixes())


def _diagnosis(key: str, job: Job, task: Task | None, plan: Plan, world: World) -> Diagnosis:
    """Return the result of one cycle for a job; ``job`` and ``task`` are as before the cycle."""
    state = (task.pod.status.phase or "Pending") if task is not None else job.phase or "Pending"
    binds = {bind.task.key: bind.node for bind in plan.binds}
    if task is not None and task.row >= 0:
        return Diagnosis(key, state, f"it is on node {world.nodes.names[task.row]}")
    if key in binds:
        text = f"nothing holds it back: the next cycle binds it to {binds[key]}"
        why = plan.choices.get(key)
        chosen = () if why is None else (Verdict("flow", "FlowChoice", str(why).removeprefix("flow: ")),)
        return Diagnosis(key, state, text, chosen, goes_on=True)
    bound = sum(pod in binds for pod in job.pending)
    if task is None and bound and bound == len(job.pending):
        return Diagnosis(
            key, state, f"nothing holds it back: the next cycle binds its {bound} waiting pods", goes_on=True
        )
    promised = {pod: node for pod, node in plan.pipelined.items() if pod in job.pending}
    if key in promised or (task is None and promised and len(promised) + bound == len(job.pending)):
        nodes = ", ".join(sorted({promised[key]} if key in promised else set(promised.values())))
        gain = tuple(v for v in plan.verdicts.get(job.key, ()) if v.code == "FlowGain")
        return Diagnosis(key, state, f"it was promised room on {nodes} and waits for pods there to leave", gain)
    return _waiting(key, state, job, task, plan, world)


def _waiting(key: str, state: str, job: Job, task: Task | None, plan: Plan, world: World) -> Diagnosis:
    pods = {verdict.task.key: verdict for verdict in plan.pods}
    asked = [key] if task is not None else list(job.pending)
    messages = {pod: pods[pod].message for pod in asked if pod in pods}
    after = world.jobs.get(job.key, job)
    verdicts = [_with_share(v, job, plan, world) for v in plan.verdicts.get(job.key, ())]
    verdicts += _node_fit([pods[pod] for pod in asked if pod in pods], len(asked), job, task, world)
    chosen = ranked(verdicts)
    if chosen:
        text = sentence(chosen[0])
    elif task is not None and key not in messages:
        text = untried(world.tasks.get(key, task))
    else:
        text = summary(after, chosen, messages)
    return Diagnosis(key, state, text, chosen, messages)


def _node_fit(verdicts: Sequence[PodVerdict], waiting: int, job: Job, task: Task | None, world: World) -> list[Verdict]:
    """Return verdicts with the reasons why nodes reject the pods: one per different text, that of most pods first."""
    by_errors: dict[str, list[PodVerdict]] = {}
    for verdict in verdicts:
        if verdict.errors is not None and not verdict.errors.role:
            by_errors.setdefault(verdict.errors.message(""), []).append(verdict)
    found = []
    for equal in sorted(by_errors.values(), key=len, reverse=True):
        errors = equal[0].errors
        assert errors is not None
        if not errors.counts and not errors.note:
            continue
        alone = "its pod" if task is None else "it"
        of = alone if waiting == 1 else f"{len(equal)} of {waiting} waiting pods"
        lack = _lack_of(equal[0].task, job, errors, world)
        if not errors.counts:
            text = f"{'' if waiting == 1 else f'{of}: '}{_PLUGIN_FAILED.sub('', errors.note)}"
        elif lack is not None:
            text = f"{lack.text} ({of})" if lack.of_one_pod and waiting > 1 else lack.text
        elif _lacking(errors):
            text = f"no room for {of}: {_on_nodes(errors)}; what is free is spread over too many nodes"
        else:
            text = f"no node takes {of}: {_on_nodes(errors)}"
        code = "ClusterFull" if lack is not None and lack.code == "ClusterFull" else "NodeFit"
        found.append(Verdict("nodes", code, text, {"pods": len(equal), "nodes": errors.nodes}))
    return found


def _on_nodes(errors: FitErrors) -> str:
    parts = sorted(((count, reason.text) for reason, count in errors.counts.items()), reverse=True)
    return ", ".join(f"{text} on {count} of {errors.nodes} nodes" for count, text in parts)


def _lacking(errors: FitErrors) -> list[str]:
    """Return the resources that nodes lack; nothing if any node rejects for another reason."""
    begin = INSUFFICIENT.format("")
    names = [reason.text.removeprefix(begin) for reason in errors.counts if reason.text.startswith(begin)]
    return sorted(names) if len(names) == len(errors.counts) else []


def _lack_of(task: Task, job: Job, errors: FitErrors, world: World) -> _Lack | None:
    """Return the lack of resources that keeps a pod off every node; None if the reasons are others."""
    columns = _columns(_lacking(errors), world)
    return _cluster_lacks(*_asked(job, world, task), columns, world) if columns else None


def _columns(resources: Sequence[str], world: World) -> list[int]:
    names = world.dims.names
    return [names.index(name) for name in resources if name in names]


def _asked(job: Job, world: World, task: Task | None = None) -> tuple[Vector, Vector]:
    """Return the request of one pod of a job, and of all pods that it needs at least to start."""
    every: Vector = world.dims.zeros()
    if job.pending:
        for one in list(job.pending.values())[: max(job.min_available - job.ready, 1)]:
            every = every + one.cls.request
        chosen = task or next(iter(job.pending.values()))
        return chosen.cls.request, every
    if job.min_resources is not None:
        return -(-job.min_resources // max(job.min_available, 1)), job.min_resources
    return every, every


def _cluster_lacks(one: Vector, every: Vector, columns: Sequence[int], world: World) -> _Lack | None:
    """Return that nodes or the cluster are full, or too small even when empty; None if neither is the reason.

    Args:
        one: Request of one pod.
        every: Request of the pods that a job needs to start.
        columns: The resources in question.
        world: The cluster.
    """
    nodes = world.nodes
    offered = nodes.allocatable[: nodes.size]
    if not nodes.size:
        return _Lack("TooLarge", "the cluster has no nodes")
    largest, total = offered.max(axis=0), offered.sum(axis=0)
    if large := [c for c in columns if one[c] > largest[c]]:
        asked = _amounts(world, large, "{0} {1}, the most is {2}", one, largest)
        return _Lack("TooLarge", f"no node is large enough even when empty: a pod asks for {asked}", of_one_pod=True)
    if large := [c for c in columns if every[c] > total[c]]:
        asked = _amounts(world, large, "{0} {1} in all, it has {2}", every, total)
        return _Lack("TooLarge", f"{TOO_SMALL}: the job asks for {asked}")
    free = nodes.idle[: nodes.size].clip(min=0).sum(axis=0)
    short = [c for c in columns if one[c] > free[c]] or [c for c in columns if every[c] > free[c]]
    if not short:
        return None
    return _Lack("ClusterFull", f"{FULL}: {_amounts(world, short, '{0} {2} is free, {1} is asked for', every, free)}")


def _amounts(world: World, columns: Sequence[int], form: str, first: Vector, second: Vector) -> str:
    """Return ``form`` filled in for each resource: {0} is its name, {1} and {2} are amounts."""
    names = world.dims.names
    amounts = [(names[c], to_text(names[c], int(first[c])), to_text(names[c], int(second[c]))) for c in columns]
    return ", ".join(form.format(*of) for of in amounts)


def _blamed_on_cluster(verdict: Verdict, job: Job, world: World) -> Verdict | None:
    """Return a verdict in place of a queue's or overcommit's one if the cluster is the actual limit, else None.

    A queue without a capability of its own is only limited by the cluster, so if its limit is reached, the cluster is
    full.
    """
    one, every = _asked(job, world)
    wanted = _columns([name.split()[1] for name in verdict.numbers if name.startswith("wanted ")], world)
    columns = wanted or [c for c, amount in enumerate(every.tolist()) if amount > 0 and c != PODS]
    if verdict.code == "QueueQuota" and _limited_by_queue(job, columns, world):
        return None
    lack = _cluster_lacks(one, every, columns, world)
    if lack is not None and lack.code == "ClusterFull" and verdict.code in _SHARE_CODES:
        text = f"{lack.text}; queue {job.queue_name} has its whole share"
        return replace(verdict, code=lack.code, text=text, numbers={})
    if lack is not None:
        return Verdict(verdict.plugin, lack.code, lack.text)
    if verdict.code != "Overcommit":
        return None
    return replace(verdict, text="no room beside the jobs that were let in before and have not started")


def _limited_by_queue(job: Job, columns: Sequence[int], world: World) -> bool:
    """Whether the job's queue or an ancestor has a capability for one of the resources."""
    queue = job.queue
    while queue is not None:
        if not columns or any(column in queue.capability for column in columns):
            return True
        queue = world.queues.get(queue.parent) if queue.parent not in ("", queue.name) else None
    return False


def _with_share(verdict: Verdict, job: Job, plan: Plan, world: World) -> Verdict:
    """Add to a verdict on a queue its name and what it holds and deserves of the requested resources."""
    blamed = _blamed_on_cluster(verdict, job, world) if verdict.code in _CLUSTER_CODES else None
    if blamed is not None:
        return blamed
    if verdict.code == "QueueQuota":
        return replace(verdict, text=f"queue {job.queue_name}: {verdict.text.removeprefix('queue ')}")
    if verdict.code not in _SHARE_CODES:
        return verdict
    status = next((queue for queue in plan.queues if queue.name == job.queue_name), None)
    asked = job.pending_request if job.pending else job.min_resources
    columns = asked.nonzero()[0].tolist() if asked is not None else []
    names = {world.dims.names[column] for column in columns}
    numbers = dict(verdict.numbers) if status is None else {**verdict.numbers, **_share_numbers(status)}
    return replace(
        verdict, numbers={k: n for k, n in numbers.items() if k == "share" or k.split()[-1] in names - {"pods"}}
    )


def _share_numbers(status: QueueStatus) -> dict[str, float]:
    numbers: dict[str, float] = {"share": status.share}
    for word, amounts in (("deserved", status.deserved), ("allocated", status.allocated)):
        numbers |= {f"{word} {name}": float(internal(name, text)) for name, text in amounts.items() if name != "pods"}
    return numbers


# -- queues ------------------------------------------------------------------------------------------------------------


def examine_queue(copy: Copy, name: str) -> Diagnosis | None:
    """Explain a queue: what it holds and deserves, which queues share with it, why its jobs wait; None when unknown."""
    outcome = copy.run(1)
    world, plan = outcome.world, outcome.plans[0]
    queue = world.queues.get(name)
    if queue is None or queue.view is None:
        return None
    status = next((s for s in plan.queues if s.name == name), QueueStatus(name, {}))
    waiting = [job for job in world.jobs_of(queue) if job.pending or job.is_waiting_for_queue]
    verdicts = [_own(queue, status, world)]
    reasons: Counter[str] = Counter()
    jobs: dict[str, str] = {}
    for job in sorted(waiting, key=lambda job: job.key):
        found = _diagnosis(job.key, job, None, plan, world)
        jobs[job.key] = found.summary
        if not found.goes_on:
            reasons[found.verdicts[0].code if found.verdicts else "Other"] += 1
    for code, count in reasons.most_common():
        verdicts.append(Verdict("jobs", code, f"{_jobs_wait(count)} for {_WAITS_FOR.get(code, 'something else')}"))
    text = _queue_sentence(queue, status, len(waiting), reasons)
    return Diagnosis(name, queue.state or "Open", text, verdicts, jobs, part="podgroup")


def _jobs_wait(count: int) -> str:
    return "1 job waits" if count == 1 else f"{count} jobs wait"


def _own(queue: Queue, status: QueueStatus, world: World) -> Verdict:
    numbers = _share_numbers(status)
    for word, amounts in (("capability", queue.capability), ("guarantee", queue.guarantee)):
        numbers |= {f"{word} {world.dims.names[column]}": float(amount) for column, amount in amounts.items()}
    return Verdict(
        "queue", "Share", f"weight {queue.weight}, {len(queue.jobs)} job{'s' if len(queue.jobs) != 1 else ''}", numbers
    )


def _queue_sentence(queue: Queue, status: QueueStatus, waiting: int, reasons: Mapping[str, int]) -> str:
    """Return a sentence with the reasons of the waiting jobs, as a queue below its share need not be the reason."""
    if not queue.is_open:
        return f"it is {queue.state}: no job is let in"
    if not waiting:
        return "nothing waits in it"
    if not reasons:
        return "the next cycle starts what waits in it"
    held = sum(reasons.values())
    may_have_more = "the queue itself may have more"
    if "ClusterFull" in reasons:
        return f"{FULL}: {_jobs_wait(held)}" + ("" if status.overused else f"; {may_have_more}")
    if "QueueQuota" in reasons:
        return f"its capability does not allow more: {_jobs_wait(held)}"
    if status.overused or reasons.keys() & {"QueueShare", "QueueOverused"}:
        return f"it has all it deserves, and {_jobs_wait(held)}"
    code = max(reasons, key=lambda code: reasons[code])
    return f"{_jobs_wait(held)} for {_WAITS_FOR.get(code, 'what is said below')}; {may_have_more}"
