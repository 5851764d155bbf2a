"""Job admission: defaults, and what a new or changed job must satisfy (spec volcano-api 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from strato.admission.dag import dag_problem
from strato.admission.equality import same
from strato.admission.job_volumes import volume_problem
from strato.admission.podgroups import TIER_CONFLICT, has_tier_conflict
from strato.admission.policies import policy_problem
from strato.admission.queue_reads import ROOT, children_of, queue_problem
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json
from strato.admission.templates import defaulted_template, template_causes
from strato.api import names
from strato.api.afterjobs import AFTER, parse_after
from strato.api.arrays import parse_array
from strato.api.crds.jobrules import IMMUTABLE, PLUGINS
from strato.api.defaults import jobs
from strato.api.mail import MAIL, MAIL_TYPE, parse_addresses, parse_types
from strato.api.quantity import InvalidQuantity, parse
from strato.errors import shortened

WEBHOOK = "validatejob.volcano.sh"

_READ: Mapping[str, Callable[[str], object]] = {AFTER: parse_after, MAIL: parse_addresses, MAIL_TYPE: parse_types}
"""Annotations of jobs whose format is checked."""
READ_ANNOTATIONS = frozenset(_READ)

_MUTABLE_SPEC = ("minAvailable", "priorityClassName", "tasks", "volumes")
_MUTABLE_TASK = ("replicas", "minAvailable")


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """Fills in the defaults of a new or changed job.

    Clients send whole lists and whole objects (``kubectl apply``, ``kubectl replace``) without the defaults that were
    filled in when the job was created. Unless these are filled in again, the same manifest would change immutable
    fields.
    """

    scheduler_names: tuple[str, ...]

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Default one job in place."""
        job, old = request.object, request.old_object
        assert job is not None
        spec = job.get("spec")
        if spec is None:
            spec = job["spec"] = {}
        if old is not None:
            _keep(spec, old.get("spec") or {})
            return
        if not spec.get("queue"):
            spec["queue"] = jobs.DEFAULT_QUEUE
        if not spec.get("schedulerName"):
            spec["schedulerName"] = self.scheduler_names[0] if self.scheduler_names else jobs.DEFAULT_SCHEDULER
        if not spec.get("maxRetry"):
            spec["maxRetry"] = jobs.DEFAULT_RETRIES
        tasks = spec.get("tasks") or ()
        for index, task in enumerate(tasks):
            _default_task(task, index)
        if not spec.get("minAvailable"):
            spec["minAvailable"] = sum(task["minAvailable"] for task in tasks)
        plugins = spec.get("plugins")
        if plugins is not None:
            plugins.update({name: [] for name in jobs.missing_plugins(plugins)})


def _default_task(task: Json, index: int) -> None:
    if not task.get("name"):
        task["name"] = jobs.task_name(index)
    pod_spec = _pod_spec(task)
    if pod_spec.get("hostNetwork") and not pod_spec.get("dnsPolicy"):
        pod_spec["dnsPolicy"] = _HOST_DNS
    _default_minimum(task)
    if not task.get("maxRetry"):
        task["maxRetry"] = jobs.DEFAULT_RETRIES


def _default_minimum(task: Json) -> None:
    if task.get("minAvailable") is None:
        partitions = task.get("partitionPolicy") or {}
        task["minAvailable"] = jobs.task_minimum(
            task.get("replicas", 0), partitions.get("minPartitions") or 0, partitions.get("partitionSize") or 0
        )


def _pod_spec(task: Json) -> Json:
    return (task.get("template") or {}).get("spec") or {}


_HOST_DNS = "ClusterFirstWithHostNet"


def _keep(spec: Json, old: Json) -> None:
    """Copy defaults that admission or the controller has filled in from the old spec; add none that it lacks."""
    _take_over(spec, old, "queue", "schedulerName", "maxRetry")
    tasks, known = spec.get("tasks") or (), old.get("tasks") or ()
    for task, before in zip(tasks, known, strict=False):
        _take_over(task, before, "name", "maxRetry")
        pod_spec = _pod_spec(task)
        if pod_spec.get("hostNetwork") and _pod_spec(before).get("dnsPolicy") == _HOST_DNS:
            pod_spec.setdefault("dnsPolicy", _HOST_DNS)
        if before.get("minAvailable") is not None:
            _default_minimum(task)
    if spec.get("minAvailable") is None and old.get("minAvailable") is not None:
        spec["minAvailable"] = sum(task.get("minAvailable") or 0 for task in tasks)
    plugins = spec.get("plugins")
    if plugins is not None:
        present = old.get("plugins") or {}
        plugins.update({name: [] for name in jobs.missing_plugins(plugins) if name in present})
    claims = {volume.get("mountPath"): volume for volume in old.get("volumes") or ()}
    for volume in spec.get("volumes") or ():
        claim = claims.get(volume.get("mountPath"), {})
        if volume.get("volumeClaim") is not None and claim.get("volumeClaim") == volume["volumeClaim"]:
            _take_over(volume, claim, "volumeClaimName")


def _take_over(members: Json, known: Json, *names: str) -> None:
    for name in names:
        if not members.get(name) and known.get(name):
            members[name] = known[name]


def validate_create(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse an invalid new job, naming everything that is wrong with it."""
    job = request.object
    assert job is not None
    spec = job.get("spec") or {}
    tasks = spec.get("tasks") or []
    if not tasks:
        raise Denied(WEBHOOK, "No task specified in job spec")
    if problem := _mpi_problem(spec.get("plugins") or {}, tasks):
        raise Denied(WEBHOOK, problem)
    problems: list[str] = []
    if has_tier_conflict(spec.get("networkTopology")):
        problems.append(f"{TIER_CONFLICT};")
    total = _check_tasks(request.name, tasks, problems)
    if complaints := names.check_qualified_name(request.name):
        problems.append(f"create job with name {request.name} validate failed [{' '.join(complaints)}];")
    if total < (spec.get("minAvailable") or 0):
        problems.append("job 'minAvailable' should not be greater than total replicas in tasks;")
    if problem := policy_problem(spec.get("policies") or ()):
        problems.append(problem)
    unknown = [plugin for plugin in spec.get("plugins") or () if plugin not in PLUGINS]
    problems += [f"unable to find job plugin: {plugin};" for plugin in unknown]
    if problem := _array_problem((spec.get("plugins") or {}).get("array")):
        problems.append(problem)
    if problem := volume_problem(spec.get("volumes") or ()):
        problems.append(problem)
    problems += _queue_problems(spec.get("queue") or jobs.DEFAULT_QUEUE, reader)
    if problem := _dependency_problem(tasks):
        problems.append(problem)
    problems += [f"{problem};" for problem in _annotation_problems(job)]
    if problems:
        raise Denied(WEBHOOK, " ".join(problems).strip())


def metadata_fit(request: AdmissionRequest) -> bool:
    """Whether a job's name is valid, also as part of pod names, and its annotations can be read.

    `validate_create` depends on nothing else of the metadata.
    """
    assert request.object is not None
    return name_fits(request.name, request.object) and not _annotation_problems(request.object)


def name_fits(name: str, job: Json) -> bool:
    """Whether a name is valid for a job with this spec; the name in ``job`` is ignored."""
    if names.check_qualified_name(name):
        return False
    for index, task in enumerate(job["spec"]["tasks"]):
        if names.check_qualified_name(f"{name}-{task['name']}-{index}"):
            return False
    return True


def _mpi_problem(plugins: Json, tasks: Sequence[Json]) -> str:
    """Return why the plugin ``mpi`` cannot work, or "": its launcher must be one of the tasks."""
    if "mpi" not in plugins:
        return ""
    master = "master"
    arguments = plugins["mpi"] or []
    for index, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag.lstrip("-") == "master":
            master = value if equals else (arguments[index + 1] if index + 1 < len(arguments) else "")
    if all(task.get("name") != master for task in tasks):
        return "The specified mpi master task was not found"
    return ""


def _array_problem(arguments: Sequence[str] | None) -> str:
    """Return what is wrong with the indexes of a job array, or ""."""
    for argument in arguments or ():
        flag, equals, value = argument.partition("=")
        if equals and flag.lstrip("-") == "indexes":
            try:
                parse_array(value)
            except ValueError as error:
                return f"job plugin array: --indexes: {error};"
    return ""


def _check_tasks(job_name: str, tasks: Sequence[Json], problems: list[str]) -> int:
    """Check every task; return the replicas counted (a duplicated name ends the count, as upstream)."""
    total = 0
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        name = task.get("name") or ""
        replicas, least = task.get("replicas") or 0, task.get("minAvailable")
        total += replicas
        if least is not None and least > replicas:
            problems.append(f"'minAvailable' is greater than 'replicas' in task: {name}, job: {job_name};")
        if name in seen:
            problems.append(f"duplicated task name {name};")
            break
        seen.add(name)
        if problem := policy_problem(task.get("policies") or ()):
            problems.append(problem)
        pod_name = f"{job_name}-{name}-{index}"
        if complaints := names.check_qualified_name(pod_name):
            problems.append(f"create pod with name {pod_name} validate failed [{' '.join(complaints)}];")
        problems += _template_problems(task, index)
        if problem := partition_problem(task, job_name):
            problems.append(problem)
    return total


def _template_problems(task: Json, index: int) -> list[str]:
    text = msgspec.json.encode(task.get("template") or {})
    causes = template_causes(text)
    if causes:
        return [f"spec.task[{index}].{cause.field}: {cause.message};" for cause in causes]
    policy = task.get("topologyPolicy")
    if policy and policy != "none":
        spec = defaulted_template(text)["spec"]
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for position, container in enumerate(containers):
            if not _asks_whole_cpus(container):
                return [f"the cpu request isn't an integer in spec.task[{index}] container[{position}]."]
    return []


def _asks_whole_cpus(container: Json) -> bool:
    """Whether a container, with defaults, gets exclusive CPUs on a node with the static CPU manager policy."""
    resources = container["resources"]
    amounts = resources.get("requests") or resources.get("limits") or {}
    try:
        milli = parse(amounts.get("cpu", 0)).milli_value
    except InvalidQuantity:
        return False
    return milli > 0 and milli % 1000 == 0


def partition_problem(task: Json, job_name: str) -> str:
    """Return the first thing wrong with a task's partition policy, or ""."""
    policy = task.get("partitionPolicy")
    if not policy:
        return ""
    where = f"in task: {task.get('name')}, job: {job_name};"
    total, size = policy.get("totalPartitions") or 0, policy.get("partitionSize") or 0
    least, available = policy.get("minPartitions") or 0, task.get("minAvailable")
    if total <= 0:
        return f"'TotalPartitions' must be greater than 0 {where}"
    if size <= 0:
        return f"'PartitionSize' must be greater than 0 {where}"
    if (task.get("replicas") or 0) != total * size:
        return f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    if least > 0 and available is not None and available != least * size:
        return f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    if has_tier_conflict(policy.get("networkTopology")):
        return f"{TIER_CONFLICT} {where}"
    return ""


def _queue_problems(name: str, reader: AdmissionReader) -> list[str]:
    problem = queue_problem(name, reader, "job")
    if problem:
        return [f"{problem};"]
    if name == ROOT:
        return ["can not submit job to root queue;"]
    children = len(children_of(name, reader))
    if children:
        return [f"can only submit job to leaf queue, queue `{name}` has {children} child queues;"]
    return []


def _dependency_problem(tasks: Sequence[Json]) -> str:
    if not any(task.get("dependsOn") for task in tasks):
        return ""
    edges = {task.get("name") or "": tuple((task.get("dependsOn") or {}).get("name") or ()) for task in tasks}
    problem = dag_problem(edges)
    if not problem:
        return ""
    return f"job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG); {problem};"


def _annotation_problems(job: Json, old: Json | None = None) -> list[str]:
    """Return what is wrong with annotations that Strato reads, except those that the old job has unchanged."""
    annotations = job["metadata"].get("annotations") or {}
    before = (old or {}).get("metadata", {}).get("annotations") or {}
    problems: list[str] = []
    for name, read in _READ.items():
        text = annotations.get(name)
        if text and text != before.get(name):
            try:
                read(text)
            except ValueError as error:
                problems.append(f"metadata.annotations[{name}]: {shortened(str(error))}")
    return problems


def validate_update(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse an invalid change of a job, naming the first thing that is wrong."""
    assert request.object is not None
    assert request.old_object is not None
    problem = _update_problem(request.object.get("spec") or {}, request.old_object.get("spec") or {}, request.name)
    problem = problem or "; ".join(_annotation_problems(request.object, request.old_object))
    if problem:
        raise Denied(WEBHOOK, problem)


def _update_problem(new: Json, old: Json, job_name: str) -> str:
    tasks, old_tasks = new.get("tasks") or [], old.get("tasks") or []
    total = 0
    for task in tasks:
        replicas, least = task.get("replicas") or 0, task.get("minAvailable")
        if replicas < 0:
            return f"'replicas' must be >= 0 in task: {task.get('name')};"
        if least is not None and least < 0:
            return f"'minAvailable' must be >= 0 in task: {task.get('name')};"
        if least is not None and least > replicas:
            return f"'minAvailable' must be <= 'replicas' in task: {task.get('name')};"
        if problem := partition_problem(task, job_name):
            return problem
        total += replicas
    available = new.get("minAvailable") or 0
    if available > total:
        return "job 'minAvailable' must not be greater than total replicas"
    if available < 0:
        return "job 'minAvailable' must be >= 0"
    if has_tier_conflict(new.get("networkTopology")):
        return TIER_CONFLICT
    if len(tasks) != len(old_tasks):
        return "job updates may not add or remove tasks"
    if not same(_frozen(new), _frozen(old)):
        return IMMUTABLE
    return ""


def _frozen(spec: Json) -> Json:
    """Return the part of a spec that may not change."""
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_SPEC}
    kept["tasks"] = [
        {key: value for key, value in task.items() if key not in _MUTABLE_TASK} for task in spec.get("tasks") or ()
    ]
    # Keep plugins without arguments, which would count as empty otherwise.
    kept["plugins"] = [[name, *(arguments or ())] for name, arguments in sorted((spec.get("plugins") or {}).items())]
    # Leave out names of claims, which the controller fills in when it has created them.
    kept["volumes"] = [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or volume.get("volumeClaim") is None}
        for volume in spec.get("volumes") or ()
    ]
    return kept
