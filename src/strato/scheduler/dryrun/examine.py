"""Why something waits, asked of the engine: one cycle on a copy of the state, and its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from strato.scheduler.cache.world import World
from strato.scheduler.dryrun.fixes import FixSearch
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.plan import Plan, QueueStatus
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import internal
from strato.scheduler.model.tasks import PENDING
from strato.scheduler.reporting.explain import Diagnosis, ranked, sentence, summary, untried

_SHARE_CODES = ("QueueOverused", "QueueShare")


def examine(copy: Copy, key: str, *, fix: bool = False) -> Diagnosis | None:
    """Explain a pod or a PodGroup (``namespace/name``); None when the state has neither.

    Args:
        copy: The state.
        key: What is asked about.
        fix: Whether to search for what would start it.
    """
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
    """Say what one cycle made of a job; ``job`` and ``task`` are as they were before it."""
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
    verdicts += _node_fit([pods[pod] for pod in asked if pod in pods], len(asked))
    chosen = ranked(verdicts)
    if chosen:
        text = sentence(chosen[0])
    elif task is not None and key not in messages:
        text = untried(world.tasks.get(key, task))
    else:
        text = summary(after, chosen, messages)
    return Diagnosis(key, state, text, chosen, messages)


def _node_fit(verdicts: Sequence[PodVerdict], waiting: int) -> list[Verdict]:
    """Return what nodes lack for the pods, once per different answer."""
    without = sum(verdict.errors is not None for verdict in verdicts)
    found = []
    for errors in (verdict.errors for verdict in verdicts):
        if errors is None or not errors.counts:
            continue
        parts = sorted(((count, reason.text) for reason, count in errors.counts.items()), reverse=True)
        lacks = ", ".join(f"{text} on {count} of {errors.nodes} nodes" for count, text in parts)
        numbers = {"pods": without, "nodes": errors.nodes}
        found.append(Verdict("nodes", "NodeFit", f"no room for {without} of {waiting} waiting pods: {lacks}", numbers))
    return found


def _with_share(verdict: Verdict, job: Job, plan: Plan, world: World) -> Verdict:
    """Say of a verdict on a queue which one it is, what it has and what it deserves of the resources asked for."""
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
    """Explain a queue: what it has and deserves, who else takes part, and what its jobs wait for; None when unknown."""
    outcome = copy.run(1)
    world, plan = outcome.world, outcome.plans[0]
    queue = world.queues.get(name)
    if queue is None or queue.view is None:
        return None
    status = next((s for s in plan.queues if s.name == name), QueueStatus(name, {}))
    waiting = [job for job in world.jobs_of(queue) if job.pending or job.is_waiting_for_queue]
    verdicts = [_own(queue, status, world)]
    reasons: Counter[str] = Counter()
    jobs = {}
    for job in sorted(waiting, key=lambda job: job.key):
        found = _diagnosis(job.key, job, None, plan, world)
        jobs[job.key] = found.summary
        reasons[found.verdicts[0].code if found.verdicts else "Other"] += 1
    verdicts += [Verdict("jobs", code, f"{_jobs_wait(count)} for {code}") for code, count in reasons.most_common()]
    state = queue.state or "Open"
    return Diagnosis(name, state, _queue_sentence(queue, status, len(waiting)), verdicts, jobs, part="podgroup")


def _jobs_wait(count: int) -> str:
    return "1 job waits" if count == 1 else f"{count} jobs wait"


def _own(queue: Queue, status: QueueStatus, world: World) -> Verdict:
    numbers = _share_numbers(status)
    for word, amounts in (("capability", queue.capability), ("guarantee", queue.guarantee)):
        numbers |= {f"{word} {world.dims.names[column]}": float(amount) for column, amount in amounts.items()}
    return Verdict(
        "queue", "Share", f"weight {queue.weight}, {len(queue.jobs)} job{'s' if len(queue.jobs) != 1 else ''}", numbers
    )


def _queue_sentence(queue: Queue, status: QueueStatus, waiting: int) -> str:
    if not queue.is_open:
        return f"it is {queue.state}: no job is let in"
    if not waiting:
        return "nothing waits in it"
    if status.overused:
        return f"it has all it deserves, and {_jobs_wait(waiting)}"
    return f"{_jobs_wait(waiting)}, though it may have more"
