"""Objects of a cluster as kubectl prints them, ``-o json`` or ``-o yaml``: pods, Volcano's and Kubernetes' jobs,
nodes.

A file is a List, objects one after the other (YAML), or an object a line (JSON). Pods are put together by their pod
group (``scheduling.k8s.io/group-name``) or job (``job-name``); the job's run time is the longest of its pods', from
when the first container began to when the last ended, by their status. Jobs whose pods are not there any more are read
from spec and status: Volcano's ``runningDuration``, Kubernetes' ``startTime`` and ``completionTime``. Tasks of a
Volcano job with different requests become jobs of their own, as those of a trace have equal pods. What has not ended
is skipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from strato.api import yamltext
from strato.api.batch import Job as KubeJob
from strato.api.core import Node, Pod, PodSpec
from strato.api.pods import effective_requests
from strato.api.volcano.batch import Job as VolcanoJob
from strato.api.volcano.scheduling import POD_GROUP_ANNOTATIONS, PodGroup
from strato.decoding import UNDECODABLE
from strato.errors import UsageError
from strato.node.shapes import NodeShape
from strato.sim.traces.cells import MOST_REPLICAS, LineReader, instant_seconds
from strato.sim.traces.input import InputFile, why
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob
from strato.units import duration_seconds

NOT_ENDED: Final = "had not ended"
NO_PODS: Final = "pod groups without pods (their run time is not known)"
_JOB_LABELS = ("volcano.sh/job-name", "batch.kubernetes.io/job-name", "job-name")
_QUEUE = "scheduling.volcano.sh/queue-name"
_MACHINES_OWN = ("kubernetes.io/hostname",)
"""Labels of nodes whose value is different for each node."""

T = TypeVar("T")


def _recognise(head: Head) -> int:
    text = head.text.lstrip()
    if text.startswith("{"):
        return 10 if '"kind"' in head.text and '"apiVersion"' in head.text else 0
    starts = [line.partition(":")[0] for line in head.lines]
    return 10 if "apiVersion" in starts and ("kind" in starts or "items" in starts) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    found: dict[str, list[tuple[LineReader, Any]]] = defaultdict(list)
    for file in files:
        line = reading.line(file)
        for number, item in enumerate(_objects(file), start=1):
            kind = item.get("kind") if isinstance(item, dict) else None
            if isinstance(kind, str):
                found[_kind(kind, item)].append((line, {**item, "_number": number}))
            else:
                line.at(0).note("", f"object {number} has no kind")
                line.reject()
    for line, item in found.pop("Node", ()):
        _take_node(_typed(item, Node, line), line, reading)
    groups = {_key(group): group for group in _all_typed(found.pop("PodGroup", ()), PodGroup)}
    pods = list(_all_typed(found.pop("Pod", ()), Pod))
    seen = _take_pods(pods, groups, reading)
    for line, item in found.pop("VolcanoJob", ()):
        _take_volcano_job(_typed(item, VolcanoJob, line), seen, reading)
    for line, item in found.pop("KubeJob", ()):
        _take_kube_job(_typed(item, KubeJob, line), seen, reading)
    for group in groups.values():
        if _key(group) not in seen:
            reading.odd.skip(NO_PODS)
    for kind, items in found.items():
        reading.odd.skip(f"objects of kind {kind[:40]}", len(items))


def _objects(file: InputFile) -> Iterator[Any]:
    """Yield the objects of a file, those of lists one by one."""
    data = file.document()
    try:
        if data.lstrip()[:1] == b"{":
            documents: Iterator[Any] = iter(_json(data))
        else:
            documents = yamltext.load_all(data)
        for document in documents:
            if isinstance(document, dict) and isinstance(document.get("items"), list):
                yield from document["items"]
            elif document is not None:
                yield document
    except (*UNDECODABLE, yamltext.InvalidYaml) as error:
        raise UsageError(f"the trace {file.label} cannot be read: {why(error)}") from error


def _json(data: bytes) -> list[Any]:
    try:
        return [msgspec.json.decode(data)]
    except UNDECODABLE:
        found: list[Any] = msgspec.json.Decoder().decode_lines(data)
        return found


def _kind(kind: str, item: Mapping[str, Any]) -> str:
    if kind != "Job":
        return kind
    return "VolcanoJob" if str(item.get("apiVersion", "")).startswith("batch.volcano.sh/") else "KubeJob"


def _typed(item: Mapping[str, Any], type_: type[T], line: LineReader) -> T | None:
    """Decode one object; if that fails, report the problem and return None."""
    metadata = item.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    try:
        return msgspec.convert(item, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        line.at(0).note("", f"object {item['_number']} ({item['kind'][:40]} {str(name)[:80]!r}): {why(error)}")
        line.reject()
        return None


def _all_typed(items: Sequence[tuple[LineReader, Any]], type_: type[T]) -> Iterator[T]:
    for line, item in items:
        if (typed := _typed(item, type_, line)) is not None:
            yield typed


def _key(found: Any) -> tuple[str, str]:
    return found.metadata.namespace, found.metadata.name


def _take_node(node: Node | None, line: LineReader, reading: Reading) -> None:
    if node is None:
        return
    offered = node.status.allocatable or node.status.capacity
    resources = {name: str(amount) for name, amount in offered.items()}
    if "cpu" not in resources or "memory" not in resources:
        line.at(0).note("", f"Node {node.metadata.name!r} offers no cpu or no memory")
        line.reject()
        return
    labels = {name: value for name, value in (node.metadata.labels or {}).items() if name not in _MACHINES_OWN}
    resources.setdefault("pods", "110")
    reading.add_nodes(NodeShape(1, resources, labels=labels, name=node.metadata.name))


def _take_pods(
    pods: Sequence[Pod], groups: Mapping[tuple[str, str], PodGroup], reading: Reading
) -> set[tuple[str, str]]:
    """Add the jobs that pods make up; return the keys of the jobs and pod groups to which these pods belong."""
    together: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for pod in pods:
        namespace = pod.metadata.namespace
        job = next(filter(None, (pod.metadata.label(label) for label in _JOB_LABELS)), "")
        group = next(filter(None, (pod.metadata.annotation(name) for name in POD_GROUP_ANNOTATIONS)), "")
        together[namespace, group or job or pod.metadata.name].append(pod)
        seen |= {(namespace, name) for name in (job, group) if name}
    for (namespace, name), some in together.items():
        group_of = groups.get((namespace, name))
        lives = [_life(pod) for pod in some]
        if any(life is None for life in lives):
            reading.odd.skip(NOT_ENDED)
            continue
        times = [life for life in lives if life is not None]
        first = some[0]
        submit = min(
            (instant_seconds(pod.metadata.creation_timestamp or "") or begun)
            for pod, (begun, _) in zip(some, times, strict=True)
        )
        queue = group_of.spec.queue if group_of is not None else first.metadata.annotation(_QUEUE)
        least = group_of.spec.min_member if group_of is not None else 0
        for number, equal in enumerate(_by_requests(some).values()):
            reading.add(
                TraceJob(
                    name=reading.names.new(name if not number else f"{name}-{number}"),
                    submit_seconds=submit,
                    run_seconds=max(end - begun for begun, end in times),
                    replicas=min(len(equal), MOST_REPLICAS),
                    min_replicas=least if 0 < least < len(equal) == len(some) else None,
                    requests=_requests(equal[0].spec),
                    queue=reading.queue(queue=queue, group=namespace),
                    priority=equal[0].spec.priority or 0,
                    node_selector=dict(equal[0].spec.node_selector),
                    user=namespace,
                    waited_seconds=max(0.0, min(begun for begun, _ in times) - submit),
                )
            )
    return seen


def _by_requests(pods: Sequence[Pod]) -> dict[tuple[tuple[str, str], ...], list[Pod]]:
    found: dict[tuple[tuple[str, str], ...], list[Pod]] = defaultdict(list)
    for pod in pods:
        found[tuple(sorted(_requests(pod.spec).items()))].append(pod)
    return found


def _requests(spec: PodSpec) -> dict[str, str]:
    return {name: amount.canonical for name, amount in effective_requests(spec).items() if amount} or {"cpu": "1"}


def _life(pod: Pod) -> tuple[float, float] | None:
    """Return when a pod began and ended; None if it has not ended, or its status lacks the times."""
    ended = [status.state.terminated for status in pod.status.container_statuses]
    if pod.status.phase not in ("Succeeded", "Failed") or not ended or any(state is None for state in ended):
        return None
    begins = [instant_seconds(state.started_at or "") for state in ended if state is not None]
    ends = [instant_seconds(state.finished_at or "") for state in ended if state is not None]
    known_begins, known_ends = [at for at in begins if at is not None], [at for at in ends if at is not None]
    start = min(known_begins, default=instant_seconds(pod.status.start_time or ""))
    if start is None or not known_ends:
        return None
    return start, max(start, *known_ends)


def _take_volcano_job(job: VolcanoJob | None, seen: set[tuple[str, str]], reading: Reading) -> None:
    if job is None or _key(job) in seen:
        return
    submit = instant_seconds(job.metadata.creation_timestamp or "")
    run = _go_seconds(job.status.running_duration)
    if submit is None or run is None or job.status.state.phase in ("Pending", "Inqueue", "Running", "Restarting", ""):
        reading.odd.skip(NOT_ENDED)
        return
    tasks = [task for task in job.spec.tasks if task.replicas > 0]
    requests = [_requests(task.template.spec) for task in tasks]
    equal = [tuple(sorted(some.items())) for some in requests]
    parts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for key, task in zip(equal, tasks, strict=True):
        parts[key] += task.replicas
    least = job.spec.min_available
    for number, (key, replicas) in enumerate(parts.items()):
        name = job.metadata.name
        reading.add(
            TraceJob(
                name=reading.names.new(name if not number else f"{name}-{number}"),
                submit_seconds=submit,
                run_seconds=run,
                replicas=min(replicas, MOST_REPLICAS),
                min_replicas=least if len(parts) == 1 and 0 < least < replicas else None,
                requests=dict(key),
                queue=reading.queue(queue=job.spec.queue, group=job.metadata.namespace),
                user=job.metadata.namespace,
                estimate_seconds=_go_seconds(job.spec.running_estimate),
            )
        )


def _take_kube_job(job: KubeJob | None, seen: set[tuple[str, str]], reading: Reading) -> None:
    if job is None or _key(job) in seen:
        return
    submit = instant_seconds(job.metadata.creation_timestamp or "")
    start, end = instant_seconds(job.status.start_time or ""), instant_seconds(job.status.completion_time or "")
    if submit is None or start is None or end is None:
        reading.odd.skip(NOT_ENDED)
        return
    replicas = max(1, min(job.spec.completions or job.spec.parallelism, MOST_REPLICAS))
    reading.add(
        TraceJob(
            name=reading.names.new(job.metadata.name),
            submit_seconds=submit,
            run_seconds=max(0.0, end - start),
            replicas=replicas,
            min_replicas=1 if replicas > 1 else None,
            requests=_requests(job.spec.template.spec),
            queue=reading.queue("", group=job.metadata.namespace),
            user=job.metadata.namespace,
            waited_seconds=max(0.0, start - submit),
        )
    )


def _go_seconds(text: str | None) -> float | None:
    try:
        return duration_seconds(text) if text else None
    except ValueError:
        return None


FORMAT: Final = Format(
    name="kubectl",
    title="objects printed by kubectl -o json or -o yaml: pods, Volcano's and Kubernetes' jobs, nodes",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("group", "queue"),
)
