"""Convert Volcano Jobs into Slurm's records: one for each job, and for each array element with pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strato.api import quantity
from strato.api.arrays import parse_array
from strato.clock import parse_time
from strato.interop.slurm.formats import Record
from strato.interop.slurm.texts import elapsed, elapsed_full, hostlist, moment, ranges

Json = dict[str, Any]

USER: Final = "strato.dev/user"
ACCOUNT: Final = "strato.dev/account"
COMMENT: Final = "strato.dev/comment"
JOB_LABEL: Final = "volcano.sh/job-name"
ARRAY_INDEX: Final = "strato.dev/array-index"

STATES: Final[Mapping[str, str]] = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "OUT_OF_MEMORY": "OOM",
}
"""Short forms of Slurm's states."""
ACTIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING"})
"""States that squeue shows by default."""

_OF_PHASE: Final[Mapping[str, str]] = {
    "": "PENDING",
    "Pending": "PENDING",
    "Inqueue": "PENDING",
    "Restarting": "PENDING",
    "Running": "RUNNING",
    "Completing": "COMPLETING",
    "Terminating": "COMPLETING",
    "Completed": "COMPLETED",
    "Terminated": "CANCELLED",
    "Failed": "FAILED",
    "Aborting": "SUSPENDED",
    "Aborted": "SUSPENDED",
}
_OF_POD: Final[Mapping[str, str]] = {"Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"}
_REASONS: Final[Mapping[str, str]] = {
    "": "None",
    "Dependency": "Dependency",
    "DependencyNeverSatisfied": "DependencyNeverSatisfied",
    "NotEnoughResources": "Resources",
    "Unschedulable": "Resources",
    "QueueLimit": "QOSGrpCpuLimit",
}
_TIMED_OUT: Final = "DeadlineExceeded"
_KILLED: Final = (137, 143)
"""Exit codes of processes ended by SIGKILL or SIGTERM."""

SQUEUE_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "i": ("jobid", "JOBID"),
    "A": ("jobarrayid", "JOBID"),
    "F": ("arrayjobid", "ARRAY_JOB_ID"),
    "K": ("arraytaskid", "ARRAY_TASK_ID"),
    "P": ("partition", "PARTITION"),
    "j": ("name", "NAME"),
    "u": ("username", "USER"),
    "t": ("statecompact", "ST"),
    "T": ("state", "STATE"),
    "M": ("timeused", "TIME"),
    "l": ("timelimit", "TIME_LIMIT"),
    "L": ("timeleft", "TIME_LEFT"),
    "D": ("numnodes", "NODES"),
    "C": ("numcpus", "CPUS"),
    "R": ("reasonlist", "NODELIST(REASON)"),
    "r": ("reason", "REASON"),
    "N": ("nodelist", "NODELIST"),
    "B": ("batchhost", "EXEC_HOST"),
    "a": ("account", "ACCOUNT"),
    "q": ("qos", "QOS"),
    "k": ("comment", "COMMENT"),
    "m": ("minmemory", "MIN_MEMORY"),
    "b": ("tres-per-node", "TRES_PER_NODE"),
    "E": ("dependency", "DEPENDENCY"),
    "S": ("starttime", "START_TIME"),
    "e": ("endtime", "END_TIME"),
    "V": ("submittime", "SUBMIT_TIME"),
    "Z": ("workdir", "WORK_DIR"),
    "o": ("command", "COMMAND"),
}
"""For each letter of ``-o``: the field's name, which ``-O`` uses, and its header."""
SQUEUE_SHORT: Final = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
SQUEUE_LONG: Final = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"

SACCT_FIELDS: Final[Mapping[str, tuple[str, int]]] = {
    "JobID": ("jobid", -12),
    "JobIDRaw": ("jobid", -12),
    "JobName": ("name", 10),
    "Partition": ("partition", 10),
    "Account": ("account", 10),
    "User": ("username", 9),
    "AllocCPUS": ("numcpus", 10),
    "NCPUS": ("numcpus", 10),
    "ReqCPUS": ("numcpus", 8),
    "AllocNodes": ("numnodes", 10),
    "NNodes": ("numnodes", 8),
    "ReqMem": ("minmemory", 10),
    "State": ("state", 10),
    "ExitCode": ("exitcode", 8),
    "Submit": ("submittime", 19),
    "Start": ("started", 19),
    "End": ("ended", 19),
    "Elapsed": ("elapsed", 10),
    "ElapsedRaw": ("elapsedraw", 10),
    "Timelimit": ("timelimit", 10),
    "NodeList": ("nodelist", 15),
    "QOS": ("qos", 10),
    "Comment": ("comment", 14),
    "Reason": ("reason", 22),
    "WorkDir": ("workdir", 22),
}
SACCT_SHORT: Final = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
SACCT_BRIEF: Final = "JobID,State,ExitCode"


@dataclass(frozen=True, slots=True)
class JobView:
    """One line of output: a job, or an element of an array."""

    job: Json
    state: str
    pods: Sequence[Json]
    fields: Record = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the Volcano Job, without the element."""
        return str(self.job["metadata"]["name"])


def job_views(
    jobs: Sequence[Json], pods: Sequence[Json], reasons: Mapping[str, str], now: float, *, elements: bool = False
) -> list[JobView]:
    """Return the lines of jobs, the oldest first.

    Args:
        jobs: The jobs as read.
        pods: Pods of all these jobs.
        reasons: Code of the reason why a job waits, by the job's uid.
        now: Present time in seconds since the epoch.
        elements: Whether each waiting array element gets a line, as with ``squeue -r``.
    """
    of_job: dict[tuple[str, str], list[Json]] = {}
    for pod in pods:
        meta = pod["metadata"]
        of_job.setdefault((meta.get("namespace", ""), (meta.get("labels") or {}).get(JOB_LABEL, "")), []).append(pod)
    views = []
    for job in sorted(jobs, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"])):
        meta = job["metadata"]
        mine = of_job.get((meta.get("namespace", ""), meta["name"]), [])
        reason = reasons.get(meta.get("uid", ""), "")
        views += _views_of(job, mine, reason, now, elements=elements)
    return views


def _views_of(job: Json, pods: Sequence[Json], reason: str, now: float, *, elements: bool) -> list[JobView]:
    indexes = _indexes(job)
    if indexes is None:
        return [_view(job, _state(job, pods), pods, reason, now)]
    by_index: dict[int, list[Json]] = {}
    for pod in pods:
        label = (pod["metadata"].get("labels") or {}).get(ARRAY_INDEX, "")
        if label.isdecimal():
            by_index.setdefault(int(label), []).append(pod)
    views, waiting = [], []
    for index in indexes:
        mine = by_index.get(index, ())
        state = _element_state(job, mine)
        if state == "PENDING":
            waiting.append(index)
        else:
            views.append(_view(job, state, mine, reason, now, element=str(index)))
    if waiting and elements:
        views += [_view(job, "PENDING", (), reason, now, element=str(index)) for index in waiting]
    elif waiting:
        limit = _array_words(job).get("limit", "")
        text = f"[{ranges([str(index) for index in waiting])}{f'%{limit}' if limit else ''}]"
        views.insert(0, _view(job, "PENDING", (), reason, now, element=text))
    return views


def _array_words(job: Json) -> dict[str, str]:
    words = (job.get("spec", {}).get("plugins") or {}).get("array") or ()
    return dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)


def _indexes(job: Json) -> Sequence[int] | None:
    text = _array_words(job).get("indexes")
    if not text:
        return None
    try:
        return list(parse_array(text).indexes)
    except ValueError:
        return None


def _phase(job: Json) -> tuple[str, str]:
    state = (job.get("status") or {}).get("state") or {}
    return state.get("phase", ""), state.get("reason", "")


def _state(job: Json, pods: Sequence[Json]) -> str:
    phase, _ = _phase(job)
    state = _OF_PHASE.get(phase, "PENDING")
    ended_itself = [one for one in _ends(pods) if one.get("exitCode") not in (0, *_KILLED)]
    if state == "FAILED" or (state == "CANCELLED" and ended_itself):  # a failed pod had a policy end the job
        return _failure(pods)
    return state


def _element_state(job: Json, pods: Sequence[Json]) -> str:
    phases = {(pod.get("status") or {}).get("phase", "") for pod in pods}
    whole = _OF_PHASE.get(_phase(job)[0], "PENDING")
    if "Failed" in phases:
        return _failure(pods)
    if phases == {"Succeeded"}:
        return "COMPLETED"
    if "Running" in phases:
        return "RUNNING"
    return whole if whole not in ("RUNNING", "COMPLETING") else "PENDING"


def _failure(pods: Sequence[Json]) -> str:
    statuses = [pod.get("status") or {} for pod in pods]
    if any(status.get("reason") == _TIMED_OUT for status in statuses):
        return "TIMEOUT"
    return "OUT_OF_MEMORY" if any(one.get("reason") == "OOMKilled" for one in _ends(pods)) else "FAILED"


def _ends(pods: Sequence[Json]) -> list[Json]:
    return [
        ended
        for pod in pods
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
        if (ended := (one.get("state") or {}).get("terminated"))
    ]


def _view(job: Json, state: str, pods: Sequence[Json], reason: str, now: float, *, element: str = "") -> JobView:
    meta, spec = job["metadata"], job.get("spec", {})
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    tasks = spec.get("tasks") or ()
    template = (tasks[0].get("template") or {}).get("spec") or {} if tasks else {}
    count = len(pods) if element and pods else sum(task.get("replicas", 1) for task in tasks)
    count = count if not element or pods else 1
    container: Json = (template.get("containers") or ({},))[0]
    requests = (container.get("resources") or {}).get("requests") or {}
    nodes = sorted({pod.get("spec", {}).get("nodeName", "") for pod in pods} - {""})
    start, end = _times(job, state, pods)
    used = 0.0 if start is None else max(0.0, (parse_time(end) if end else now) - parse_time(start))
    limit = template.get("activeDeadlineSeconds")
    waits = state == "PENDING"
    held_by_limit = bool(element) and _phase(job)[0] == "Running" and "limit" in _array_words(job)
    why = "JobArrayTaskLimit" if held_by_limit else _reason(reason or _phase(job)[1])
    name = meta["name"]
    fields = {
        "jobid": f"{name}_{element}" if element else name,
        "jobarrayid": name,
        "arrayjobid": name,
        "arraytaskid": element or "N/A",
        "partition": spec.get("queue") or "default",
        "name": _given_name(job, container),
        "username": labels.get(USER, ""),
        "statecompact": STATES[state],
        "state": state,
        "timeused": elapsed(used),
        "timelimit": elapsed(limit) if limit else "UNLIMITED",
        "timeleft": elapsed(limit - used) if limit else "UNLIMITED",
        "numnodes": str(count),
        "numcpus": str(-(-quantity.milli(requests.get("cpu", 0)) * count // 1000)),
        "reasonlist": f"({why})" if waits else hostlist(nodes),
        "reason": why if waits else "None",
        "nodelist": hostlist(nodes),
        "batchhost": nodes[0] if nodes else "n/a",
        "account": labels.get(ACCOUNT, ""),
        "qos": spec.get("priorityClassName", "") or "normal",
        "comment": annotations.get(COMMENT, ""),
        "minmemory": _megabytes(requests.get("memory", 0)),
        "tres-per-node": f"gres:gpu:{gpus}" if (gpus := requests.get("nvidia.com/gpu")) else "N/A",
        "dependency": annotations.get("strato.dev/after", "") if waits else "",
        "starttime": moment(start),
        "endtime": moment(end),
        "started": moment(start, "Unknown"),
        "ended": moment(end, "Unknown"),
        "submittime": moment(meta.get("creationTimestamp")),
        "workdir": container.get("workingDir", "") or "/",
        "command": " ".join(container.get("command") or ()) or "(null)",
        "elapsed": elapsed_full(used),
        "elapsedraw": str(int(used)),
        "exitcode": _exit_code(pods),
    }
    return JobView(job, state, pods, fields)


def _reason(code: str) -> str:
    """Return Slurm's word for the reason why a job waits, if there is one; its words have no blanks."""
    if code.startswith("Insufficient"):
        return "Resources"
    return _REASONS.get(code, "".join(word[:1].upper() + word[1:] for word in code.split()))


def _given_name(job: Json, container: Json) -> str:
    """Return the name that the user gave: ``strato submit`` adds letters to make names unique."""
    named = {one.get("name"): one.get("value") for one in container.get("env") or ()}
    return str(named.get("SLURM_JOB_NAME") or job["metadata"]["name"])


def _times(job: Json, state: str, pods: Sequence[Json]) -> tuple[str | None, str | None]:
    starts = [start for pod in pods if (start := (pod.get("status") or {}).get("startTime"))]
    ends = [ended["finishedAt"] for ended in _ends(pods) if ended.get("finishedAt")]
    if state in ACTIVE:
        return min(starts, default=None), None
    last = ((job.get("status") or {}).get("state") or {}).get("lastTransitionTime")
    return min(starts, default=None), max(ends, default=last)


def _megabytes(amount: str | int) -> str:
    mebibytes = -(-quantity.value(amount) // (1 << 20))
    if mebibytes and mebibytes % 1024 == 0:
        return f"{mebibytes // 1024}G"
    return f"{mebibytes}M"


def _exit_code(pods: Sequence[Json]) -> str:
    """Return ``code:signal`` of the container with the highest exit code."""
    worst = max((int(ended.get("exitCode", 0)) for ended in _ends(pods)), default=0)
    return f"0:{worst - 128}" if worst > 128 else f"{worst}:0"
