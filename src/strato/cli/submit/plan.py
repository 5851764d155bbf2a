"""Translate sbatch's options into a job: each node becomes a pod, each task of a node its cpus. Pure."""

from __future__ import annotations

import getpass
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strato.api import catalog
from strato.api.afterjobs import AwaitedState, Dependency
from strato.cli.job.request import Checks, JobRequest
from strato.cli.job.resources import GPU, Resources
from strato.cli.submit.script import Script
from strato.client.cluster import Json
from strato.interop.slurm.jobs import ACCOUNT, COMMENT, USER

TASK = "node"
MOUNT = "/var/run/strato/job"
_MOST_NAMED = 256
"""Most nodes whose names are put into the environment (SLURM_JOB_NODELIST)."""
_LONGEST_NAME = 40
_DEPENDENCIES = {
    "after": AwaitedState.START,
    "afterany": AwaitedState.ANY,
    "afterok": AwaitedState.OK,
    "afternotok": AwaitedState.NOT_OK,
}
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The pods of a job, or of each element of an array."""

    nodes: int
    least_nodes: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int

    @property
    def cpus(self) -> int:
        """Cpus of each pod."""
        return self.tasks_per_node * self.cpus_per_task


class SbatchChecks(Checks):
    """Parses the options that only sbatch has, and collects their problems."""

    def number(self, flag: str, text: str, default: int, *, least: int = 1) -> int:
        """Read a whole number, of at least 1 or 0."""
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and least <= int(text[:10]) < 10**9):
            self.problem(flag, f"{text!r} is no whole number" + (" above zero" if least else ""))
            return default
        return int(text)

    def shape(self, options: Mapping[str, Any]) -> Shape:
        """Read nodes, tasks and cpus."""
        per_node = self.number("--ntasks-per-node", options["ntasks_per_node"], 0)
        tasks = self.number("--ntasks", options["ntasks"], 0)
        cpus = self.number("--cpus-per-task", options["cpus_per_task"], 1)
        least, dash, most = options["nodes"].partition("-")
        nodes = self.number("--nodes", least, 0)
        largest = self.number("--nodes", most, nodes) if dash else nodes
        if largest < nodes:
            self.problem("--nodes", f"{options['nodes']!r}: the first number is above the second")
        if not nodes:
            nodes = largest = math.ceil(tasks / per_node) if tasks and per_node else 1
        if not per_node:
            per_node = math.ceil(tasks / nodes) if tasks else 1
        if tasks and tasks < nodes:
            self.problem("--ntasks", f"{tasks}: fewer than the {nodes} nodes; give at least one task to each")
        if tasks > per_node * largest:
            self.problem("--ntasks", f"{tasks}: more than {largest} nodes with {per_node} tasks each")
        return Shape(
            nodes=max(nodes, largest),
            least_nodes=nodes,
            tasks=tasks or per_node * nodes,
            tasks_per_node=per_node,
            cpus_per_task=cpus,
        )

    def mebibytes(self, flag: str, text: str) -> float:
        """Read an amount of memory; without a unit it is megabytes."""
        found = _MEMORY.fullmatch(text)
        if found is None or not int(found[1][:15]):
            all_of_it = "; all of a node cannot be asked for" if text == "0" else ""
            self.problem(flag, f"{text!r} is no amount of memory; write for example 4G or 500M{all_of_it}")
            return 0
        return int(found[1][:15]) * _MEBIBYTES[found[2].upper() or "M"]

    def memory(self, options: Mapping[str, Any], cpus: int, gpus: int) -> int:
        """Return the mebibytes of a pod, 0 when none are asked for."""
        amounts = {
            "--mem": (options["mem"], 1),
            "--mem-per-cpu": (options["mem_per_cpu"], cpus),
            "--mem-per-gpu": (options["mem_per_gpu"], gpus),
        }
        given = [flag for flag, (text, _) in amounts.items() if text]
        if len(given) > 1:
            self.problem(given[0], f"and {' and '.join(given[1:])} exclude each other")
        if options["mem_per_gpu"] and not gpus:
            self.problem("--mem-per-gpu", "is given without GPUs")
        return math.ceil(sum(self.mebibytes(flag, text) * n for flag, (text, n) in amounts.items() if text))

    def gpus(self, options: Mapping[str, Any], shape: Shape) -> int:
        """Return the GPUs of a pod."""
        found: dict[str, int] = {}
        for flag, text in (("--gpus", options["gpus"]), ("--gpus-per-node", options["gpus_per_node"]),
                           ("--gpus-per-task", options["gpus_per_task"])):  # fmt: skip
            if text:
                found[flag] = self._gpu_count(flag, text)
        for entry in filter(None, options["gres"].split(",")):
            kind, _, rest = entry.partition(":")
            if entry.lower() == "none":  # as in sbatch, ``none`` cancels earlier words
                found["--gres"] = 0
            elif kind != "gpu":
                self.problem("--gres", f"{entry!r}: this cluster has nothing like it; gpu:N is known")
            else:
                found["--gres"] = self._gpu_count("--gres", rest or "1")
        if "--gpus" in found:
            if found["--gpus"] % shape.nodes:
                self.problem("--gpus", f"{found['--gpus']} cannot be shared equally by {shape.nodes} nodes")
            found["--gpus"] //= shape.nodes
        if "--gpus-per-task" in found:
            found["--gpus-per-task"] *= shape.tasks_per_node
        if len(set(found.values())) > 1:
            self.problem(next(iter(found)), f"contradicts {' and '.join(list(found)[1:])}")
        return next(iter(found.values()), 0)

    def _gpu_count(self, flag: str, text: str) -> int:
        model, colon, count = text.rpartition(":")
        if colon:
            self.problem(flag, f"{text!r}: GPUs are asked for by number, not by model ({model}); nodes have labels")
        return self.number(flag, count, 0, least=0)

    def dependencies(self, text: str) -> tuple[Dependency, ...]:
        """Read ``afterok:JOB:JOB,afterany:JOB``."""
        found: list[Dependency] = []
        if "?" in text:
            self.problem("--dependency", f"{text!r}: all must come true here; '?' has no counterpart")
            return ()
        for part in filter(None, text.split(",")):
            word, *jobs = part.split(":")
            condition = _DEPENDENCIES.get(word)
            if condition is None:
                self.problem("--dependency", f"{part!r}: known are {', '.join(_DEPENDENCIES)}, followed by :JOB")
            elif not jobs or not all(jobs):
                self.problem("--dependency", f"{part!r}: names no job; write for example {word}:train-x2k9p")
            elif any("+" in job for job in jobs):
                self.problem("--dependency", f"{part!r}: a delay (+minutes) has no counterpart")
            else:
                found += [Dependency(condition, job) for job in jobs]
        return tuple(found)

    def exported(self, text: str) -> tuple[list[str], bool]:
        """Read ``--export``: the variables to pass, and whether all of this machine's were asked for."""
        words = [word for word in text.split(",") if word]
        return [word for word in words if word not in ("ALL", "NONE", "NIL")], "ALL" in words


def name_for(wanted: str, suffix: str) -> str:
    """Return a valid, unique object name: Slurm's job names may be any text, and may repeat."""
    stem = re.sub(r"[^a-z0-9]+", "-", wanted.lower())[:_LONGEST_NAME].strip("-") or "job"
    if stem[0].isdigit():  # a gang's Service has the job's name, which must begin with a letter
        stem = f"job-{stem}"
    return f"{stem}-{suffix}"


def request_of(name: str, options: Mapping[str, Any], args: Sequence[str], checks: SbatchChecks) -> JobRequest:
    """Return the job request; problems are added to ``checks``."""
    shape = checks.shape(options)
    gpus = checks.gpus(options, shape)
    memory = checks.memory(options, shape.cpus, gpus)
    amounts = {
        "cpu": str(shape.cpus),
        **({"memory": f"{memory}Mi"} if memory else {}),
        **({GPU: str(gpus)} if gpus else {}),
    }
    array = checks.array(options["array"])
    if array is not None and shape.least_nodes != shape.nodes:
        checks.problem("--nodes", f"{options['nodes']!r}: the elements of an array have a fixed number of nodes")
    types = options["mail_type"] or None
    if types and not options["mail_user"]:
        checks.problem("--mail-user", "is missing: --mail-type says of what, but not to whom")
    addresses, mail_types = checks.mail(options["mail_user"] if types else "", types)
    variables, _ = checks.exported(options["export"])
    request = JobRequest(
        name=name,
        namespace=options["namespace"],
        image=options["image"],
        command=[f"{MOUNT}/script", *args],
        replicas=shape.nodes,
        min_available=shape.least_nodes,
        resources=Resources(amounts, amounts),
        queue=options["partition"],
        priority=options["qos"] or ("" if options["priority"].isdecimal() else options["priority"]),
        time_seconds=checks.time_limit(options["time"]),
        array=array,
        after=checks.dependencies(options["dependency"]),
        mail=addresses if mail_types else (),
        mail_types=mail_types,
    )
    environment = _environment(request, shape, memory, options)
    return replace(request, environment={**environment, **checks.environment([*variables, *options["env"]])})


def _environment(request: JobRequest, shape: Shape, memory: int, options: Mapping[str, Any]) -> dict[str, str]:
    """Return Slurm's variables that are the same in every pod."""
    found = {
        "SLURM_JOB_ID": request.name,
        "SLURM_JOBID": request.name,
        "SLURM_JOB_NAME": options["job_name"],
        "SLURM_JOB_PARTITION": request.queue,
        "SLURM_JOB_ACCOUNT": options["account"],
        "SLURM_JOB_NUM_NODES": str(shape.nodes),
        "SLURM_NNODES": str(shape.nodes),
        "SLURM_NTASKS": str(shape.tasks),
        "SLURM_NPROCS": str(shape.tasks),
        "SLURM_NTASKS_PER_NODE": str(shape.tasks_per_node),
        "SLURM_CPUS_PER_TASK": str(shape.cpus_per_task),
        "SLURM_CPUS_ON_NODE": str(shape.cpus),
        "SLURM_MEM_PER_NODE": str(memory) if memory else "",
        "SLURM_SUBMIT_DIR": options["submit_dir"],
    }
    if 1 < shape.nodes <= _MOST_NAMED and request.array is None:
        hosts = (f"{request.name}-{TASK}-{index}.{request.name}" for index in range(shape.nodes))
        found["SLURM_JOB_NODELIST"] = ",".join(hosts)
    return {name: value for name, value in found.items() if value}


def job_of(request: JobRequest, options: Mapping[str, Any]) -> Json:
    """Return the job: the request's, with the script, and as a gang when it has several nodes."""
    job = request.manifest()
    metadata, spec = job["metadata"], job["spec"]
    task = spec["tasks"][0]
    task["name"] = TASK
    pod = task["template"]["spec"]
    container = pod["containers"][0]
    container["name"] = "script"
    container["volumeMounts"] = [{"name": "script", "mountPath": MOUNT, "readOnly": True}]
    pod["volumes"] = [{"name": "script", "configMap": {"name": f"{request.name}-script", "defaultMode": 0o755}}]
    if options["chdir"]:
        container["workingDir"] = options["chdir"]
    labels = {ACCOUNT: options["account"], USER: options.get("user", "")}
    if labels := {name: value for name, value in labels.items() if value}:
        metadata["labels"] = labels
    if options["comment"]:
        metadata.setdefault("annotations", {})[COMMENT] = options["comment"]
    policies = []
    if request.replicas > 1:
        spec.setdefault("plugins", {})["svc"] = []
    if request.array is None:
        index = {"fieldRef": {"fieldPath": "metadata.labels['volcano.sh/task-index']"}}
        container["env"] += [{"name": name, "valueFrom": index} for name in ("SLURM_NODEID", "SLURM_PROCID")]
        if request.replicas > 1:  # if one pod of a gang fails, the others would wait for it
            policies.append({"event": "PodFailed", "action": "TerminateJob"})
    if options["requeue"]:
        policies.append({"event": "PodEvicted", "action": "RestartJob"})
    if policies:
        spec["policies"] = policies
    return job


def login() -> str:
    """Return the submitting user's name as a valid label value; empty for a user without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in passwd
        return ""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:63].strip("._-")


def config_map(request: JobRequest, script: Script) -> Json:
    """Return the ConfigMap that brings the script to the pods."""
    metadata = {"name": f"{request.name}-script", "namespace": request.namespace}
    return {"apiVersion": "v1", "kind": catalog.CONFIGMAP.name, "metadata": metadata, **script.data()}
