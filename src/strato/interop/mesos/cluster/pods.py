"""Build the pod of a task, and derive states of tasks from their pod. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from strato.api.core import ContainerStatus, Pod, StateTerminated
from strato.api.meta import Json
from strato.api.names import is_label_value
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.interop.mesos.cluster.mounts import SANDBOX, mount_path, mounts, pod_volumes
from strato.interop.mesos.cluster.nodes import Dimensions, requests_of
from strato.interop.mesos.master.agents import Observed, UnitFacts
from strato.interop.mesos.master.effects import PodLaunch
from strato.interop.mesos.master.executors import SHUTDOWN_GRACE_SECONDS
from strato.interop.mesos.master.model import value_of
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resources import Resources, ValueType

RECORD = "mesos.strato.dev/record"
"""Pod annotation: the record that `strato.interop.mesos.master.records` keeps."""
MASTER = "mesos.strato.dev/master"
"""Label of all pods of a master: its name."""
FRAMEWORK = "mesos.strato.dev/framework"
TASK = "mesos.strato.dev/task"
FINALIZER = "mesos.strato.dev/status"
"""Finalizer that keeps a pod, even a deleted one, until its last state is acknowledged."""
DEFAULT_GRACE_SECONDS = 3.0
_EXECUTOR_MEMORY_MIB = 32
"""Memory that Mesos' command executor gets beside its task."""
_MOST_PORTS = 64
_CANNOT_START = frozenset(
    ("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
     "RunContainerError", "ImageInspectError")
)  # fmt: skip
_EVICTED = frozenset(("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity"))
_FETCH = """cd "$MESOS_SANDBOX" || exit 1
fetch() {
  case "$1" in
    http://*|https://*|ftp://*) (curl -fsSL -o "$2" "$1" || wget -q -O "$2" "$1") || exit 1 ;;
    file://*) cp "${1#file://}" "$2" || exit 1 ;;
    *) cp "$1" "$2" || exit 1 ;;
  esac
}
"""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Settings common to all pods of a master."""

    master: str
    namespace: str
    image: str
    """Image of tasks that name none."""
    endpoint: str
    """``host:port`` at which executors reach the master."""
    scheduler_name: str = "volcano"
    """Scheduler of the pods, which accounts for them although the master binds them."""
    dimensions: Dimensions = field(default_factory=Dimensions)
    has_tls: bool = False
    """Whether executors have to speak TLS to the endpoint."""


def pod_of(launch: PodLaunch, node: str, group: str, record: str, settings: PodSettings) -> Json:
    """Return the pod that a launch asks for, bound to its node."""
    labels = {MASTER: settings.master}
    named = ((FRAMEWORK, launch.framework_id), (TASK, value_of(launch.tasks[0], "task_id")))
    labels.update({name: value for name, value in named if is_label_value(value)})
    annotations = {RECORD: record}
    if group:
        annotations[GROUP_ANNOTATION] = group
    containers = _containers(launch, settings)
    first = launch.tasks[0]
    container_info: Json = first.get("container") or (launch.executor or {}).get("container") or {}
    spec: Json = {
        "nodeName": node,
        "schedulerName": settings.scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _grace(launch),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": containers,
        "volumes": [
            {"name": "sandbox", "emptyDir": {}},
            *_volumes(launch),
            *pod_volumes(launch.resources, launch.agent_id, settings.master),
        ],
    }
    fetched = [uri for command in _commands(launch) for uri in command.get("uris", ())]
    if fetched:
        spec["initContainers"] = [_fetcher(fetched, containers[0]["image"])]
    longest = first.get("max_completion_time", {}).get("nanoseconds")
    if longest and not launch.is_group:
        spec["activeDeadlineSeconds"] = max(1, math.ceil(longest / 1e9))
    if container_info.get("docker", {}).get("network") == "HOST":
        spec["hostNetwork"] = True
    if container_info.get("hostname"):
        spec["hostname"] = container_info["hostname"]
    metadata = {
        "name": launch.unit,
        "namespace": settings.namespace,
        "labels": labels,
        "annotations": annotations,
        "finalizers": [FINALIZER],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _commands(launch: PodLaunch) -> list[Json]:
    found = [task.get("command", {}) for task in launch.tasks if "executor" not in task]
    if launch.executor is not None and not launch.is_group:
        found.append(launch.executor.get("command", {}))
    return found


def _grace(launch: PodLaunch) -> int:
    if launch.executor is not None and not launch.is_group:
        return math.ceil(SHUTDOWN_GRACE_SECONDS)
    policies = [task.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds") for task in launch.tasks]
    seconds = [DEFAULT_GRACE_SECONDS if nanos is None else nanos / 1e9 for nanos in policies]
    return max(1, math.ceil(max(seconds)))


def _containers(launch: PodLaunch, settings: PodSettings) -> list[Json]:
    if launch.executor is not None and not launch.is_group:
        return [_executor_container(launch, launch.executor, settings)]
    containers = []
    for position, task in enumerate(launch.tasks):
        asked = from_json(task["resources"])
        requested = asked
        if launch.is_group and position == 0 and launch.executor is not None:
            requested = asked + from_json(launch.executor.get("resources", ())).allocated(None)
        container = _container(f"task-{position}", task.get("command", {}), task.get("container") or {}, settings)
        limits = _limits(task, asked, settings.dimensions)
        container["resources"] = {"requests": requests_of(requested, settings.dimensions), "limits": limits}
        container["env"] += [_variable("MESOS_TASK_ID", value_of(task, "task_id")),
                             _variable("MESOS_FRAMEWORK_ID", launch.framework_id)]  # fmt: skip
        container["volumeMounts"] += mounts(asked, launch.agent_id, settings.master)
        _add_ports(container, task, asked)
        _add_probes(container, task.get("health_check"))
        containers.append(container)
    return containers


def _executor_container(launch: PodLaunch, executor: Json, settings: PodSettings) -> Json:
    container = _container("executor", executor.get("command", {}), executor.get("container") or {}, settings)
    container["resources"] = {"requests": requests_of(launch.resources, settings.dimensions)}
    container["volumeMounts"] += mounts(launch.resources, launch.agent_id, settings.master)
    gpus = container["resources"]["requests"].get(settings.dimensions.gpu)
    if gpus:
        container["resources"]["limits"] = {settings.dimensions.gpu: gpus}
    own = {
        "MESOS_FRAMEWORK_ID": launch.framework_id,
        "MESOS_EXECUTOR_ID": value_of(executor, "executor_id"),
        "MESOS_SLAVE_ID": launch.agent_id,
        "MESOS_AGENT_ENDPOINT": settings.endpoint,
        "MESOS_DIRECTORY": SANDBOX,
        "MESOS_CHECKPOINT": "1",
        "MESOS_RECOVERY_TIMEOUT": "15mins",
        "MESOS_SUBSCRIPTION_BACKOFF_MAX": "2secs",
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": f"{SHUTDOWN_GRACE_SECONDS:g}secs",
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
    }
    if settings.has_tls:
        own["LIBPROCESS_SSL_ENABLED"] = "1"  # tells Mesos' executors that the endpoint speaks TLS
    container["env"] += [_variable(name, value) for name, value in own.items()]
    return container


def _container(name: str, command: Json, info: Json, settings: PodSettings) -> Json:
    docker = info.get("docker", {})
    named = info.get("mesos", {}).get("image", {}).get("docker", {}).get("name", "")
    container: Json = {
        "name": name,
        "image": docker.get("image") or named or settings.image,
        "workingDir": SANDBOX,
        "env": [_variable("MESOS_SANDBOX", SANDBOX), _variable("MESOS_CONTAINER_NAME", name)],
        "volumeMounts": [{"name": "sandbox", "mountPath": SANDBOX}],
    }
    container.update(command_line(command))
    variables = command.get("environment", {}).get("variables", ())
    container["env"] += [_variable(each["name"], each.get("value", "")) for each in variables]
    if docker.get("force_pull_image"):
        container["imagePullPolicy"] = "Always"
    security: Json = {}
    if docker.get("privileged"):
        security["privileged"] = True
    if command.get("user", "").isdecimal():
        security["runAsUser"] = int(command["user"])
    if security:
        container["securityContext"] = security
    for position, volume in enumerate(info.get("volumes", ())):
        mount = {"name": f"{name}-{position}", "mountPath": mount_path(volume.get("container_path", ""))}
        container["volumeMounts"].append({**mount, "readOnly": True} if volume.get("mode") == "RO" else mount)
    return container


def command_line(command: Json) -> Json:
    """Return the command and arguments of a CommandInfo: a shell's line, a program, or the image's own."""
    value, arguments = command.get("value"), command.get("arguments", ())
    if command.get("shell", True):
        return {"command": ["/bin/sh", "-c", value]} if value is not None else {}
    if value is not None:
        return {"command": [value, *arguments[1:]]}
    return {"args": list(arguments)} if arguments else {}


def _variable(name: str, value: str) -> Json:
    return {"name": name, "value": value.replace("$(", "$$(")}  # escaped, as Mesos expands no variables


def _volumes(launch: PodLaunch) -> list[Json]:
    found: list[Json] = []
    holders = (
        [("executor", launch.executor or {})]
        if launch.executor is not None and not launch.is_group
        else [(f"task-{position}", task) for position, task in enumerate(launch.tasks)]
    )
    for name, holder in holders:
        for position, volume in enumerate((holder.get("container") or {}).get("volumes", ())):
            path = volume.get("host_path") or volume.get("source", {}).get("host_path", {}).get("path", "")
            source: Json = {"hostPath": {"path": path}} if path.startswith("/") else {"emptyDir": {}}
            found.append({"name": f"{name}-{position}", **source})
    return found


def _limits(task: Json, asked: Resources, dimensions: Dimensions) -> dict[str, str]:
    """Return limits: always of memory, of cpus only if the task sets one."""
    given = task.get("limits", {})
    limits = {}
    if "cpus" in given and math.isfinite(given["cpus"]["value"]):
        limits["cpu"] = f"{round(given['cpus']['value'] * 1000)}m"
    memory = given["mem"]["value"] if "mem" in given else asked.scalar("mem")
    if memory and math.isfinite(memory):
        limits["memory"] = f"{math.ceil(memory) + _EXECUTOR_MEMORY_MIB}Mi"
    gpus = requests_of(asked, dimensions).get(dimensions.gpu)
    if gpus:
        limits[dimensions.gpu] = gpus
    return limits


def _add_ports(container: Json, task: Json, asked: Resources) -> None:
    """Add a task's ports as host ports: by its port mappings, else each under its own number."""
    mapped = (task.get("container") or {}).get("docker", {}).get("port_mappings", ())
    ports = [
        {"hostPort": each["host_port"], "containerPort": each["container_port"],
         "protocol": each.get("protocol", "tcp").upper()}
        for each in mapped
    ]  # fmt: skip
    if not ports:
        for kind, amount in asked:
            if kind.name == "ports" and kind.type is ValueType.RANGES and isinstance(amount, tuple):
                numbers = [
                    number for begin, end in amount for number in range(begin, min(end, begin + _MOST_PORTS) + 1)
                ]
                ports += [{"hostPort": number, "containerPort": number} for number in numbers[:_MOST_PORTS]]
    if ports:
        container["ports"] = ports


def _add_probes(container: Json, check: Json | None) -> None:
    """Add a health check as a readiness probe: the task is healthy if its container is ready."""
    if check is None:
        return
    probe: Json = {
        "initialDelaySeconds": math.ceil(check.get("delay_seconds", 15)),
        "periodSeconds": max(1, math.ceil(check.get("interval_seconds", 10))),
        "timeoutSeconds": max(1, math.ceil(check.get("timeout_seconds", 20))),
    }
    kind = check.get("type")
    if kind == "COMMAND":
        line = command_line(check["command"])
        probe["exec"] = {"command": line.get("command", [])}
    elif kind == "HTTP":
        http = check["http"]
        probe["httpGet"] = {"port": http["port"], "path": http.get("path", "/"),
                            "scheme": http.get("scheme", "http").upper()}  # fmt: skip
    else:
        probe["tcpSocket"] = {"port": check["tcp"]["port"]}
    container["readinessProbe"] = {**probe, "failureThreshold": 1}
    grace = math.ceil(check.get("grace_period_seconds", 10))
    failures = max(1, check.get("consecutive_failures", 3))
    container["livenessProbe"] = {
        **probe, "failureThreshold": failures, "initialDelaySeconds": max(probe["initialDelaySeconds"], grace),
    }  # fmt: skip


def _fetcher(uris: list[Json], image: str) -> Json:
    """Return the container that brings a task's files into its sandbox."""
    lines = [_FETCH]
    for uri in uris:
        name = uri.get("output_file") or uri["value"].rstrip("/").rpartition("/")[2]
        lines.append(f"fetch {_quoted(uri['value'])} {_quoted(name)}")
        if uri.get("executable"):
            lines.append(f"chmod a+x {_quoted(name)}")
        elif uri.get("extract", True):
            if name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")):
                lines.append(f"tar xf {_quoted(name)} || exit 1")
            elif name.endswith(".zip"):
                lines.append(f"unzip -o -q {_quoted(name)} || exit 1")
    return {
        "name": "fetcher",
        "image": image,
        "command": ["/bin/sh", "-c", "\n".join(lines)],
        "env": [_variable("MESOS_SANDBOX", SANDBOX)],
        "volumeMounts": [{"name": "sandbox", "mountPath": SANDBOX}],
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- states of a pod's tasks
# ---------------------------------------------------------------------------------------------------


def facts_of(pod: Pod) -> UnitFacts:
    """Return the states of the tasks in one of the master's pods."""
    status = pod.status
    is_deleting = pod.metadata.deletion_timestamp is not None
    # without grace left its node has ended it, or it was deleted by force
    is_away = is_deleting and pod.metadata.deletion_grace_period_seconds == 0
    known = {container.name: container for container in status.container_statuses}
    seen = tuple(
        _observed(pod, known.get(container.name), is_away=is_away, checked=container.readiness_probe is not None)
        for container in pod.spec.containers
    )
    ended = pod.is_finished or is_away
    end = next((one.state.terminated for one in status.container_statuses if one.state.terminated is not None), None)
    why = end.message if end is not None else ""
    return UnitFacts(pod.metadata.uid, seen, ended, is_deleting, _exit_status(end), why)


def _observed(pod: Pod, container: ContainerStatus | None, *, is_away: bool, checked: bool) -> Observed:
    state = container.state if container is not None else None
    ip = pod.status.pod_ip
    if state is not None and state.terminated is not None:
        return _ended(pod, state.terminated, ip)
    if pod.status.phase == "Failed" or (is_away and not pod.is_finished):
        return _failed(pod, ip, "Terminated" if is_away else "The pod failed")
    if pod.status.phase == "Succeeded":
        return Observed("TASK_FINISHED", "Command exited with status 0", ip=ip)
    if state is not None and state.running is not None:
        healthy = container.ready if checked and container is not None else None
        return Observed("TASK_RUNNING", ip=ip, healthy=healthy if healthy or _is_unready(pod) else None)
    if state is not None and state.waiting is not None and state.waiting.reason in _CANNOT_START:
        text = f"Failed to launch container: {state.waiting.reason}: {state.waiting.message}"
        return Observed("TASK_FAILED", text, "REASON_CONTAINER_LAUNCH_FAILED")
    if pod.status.phase == "Running" and container is None:
        return Observed("TASK_RUNNING", ip=ip)
    if pod.status.start_time is not None or container is not None:
        return Observed("TASK_STARTING")
    return Observed("TASK_STAGING")


def _is_unready(pod: Pod) -> bool:
    """Whether the pod is unready although its containers have started; only then is the task unhealthy."""
    condition = pod.status.condition("ContainersReady")
    return condition is not None and condition.status == "False" and condition.reason != "ContainersNotInitialized"


def _ended(pod: Pod, end: StateTerminated, ip: str) -> Observed:
    code = end.exit_code
    if pod.status.reason == "DeadlineExceeded":
        return _failed(pod, ip)
    if end.reason == "OOMKilled":
        return Observed("TASK_FAILED", "Memory limit exceeded", "REASON_CONTAINER_LIMITATION_MEMORY", ip=ip)
    if code == 0:
        return Observed("TASK_FINISHED", "Command exited with status 0", ip=ip)
    if pod.status.reason in _EVICTED:
        return _failed(pod, ip)
    number = end.signal or (code - 128 if code > 128 else 0)
    text = f"Command terminated with signal {number}" if number else f"Command exited with status {code}"
    return Observed("TASK_FAILED", f"{text}: {end.message}" if end.message else text, ip=ip)


def _failed(pod: Pod, ip: str, otherwise: str = "The pod failed") -> Observed:
    reason, message = pod.status.reason, pod.status.message
    if reason == "DeadlineExceeded":
        return Observed(
            "TASK_FAILED", "Task exceeded its max_completion_time", "REASON_MAX_COMPLETION_TIME_REACHED", ip=ip
        )
    if reason in _EVICTED:
        return Observed("TASK_GONE", message or reason, "REASON_CONTAINER_PREEMPTED", ip=ip)
    if reason.startswith("OutOf") or reason == "UnexpectedAdmissionError":
        return Observed("TASK_FAILED", message or reason, "REASON_CONTAINER_LAUNCH_FAILED", ip=ip)
    return Observed("TASK_FAILED", message or reason or otherwise, ip=ip)


def _exit_status(end: StateTerminated | None) -> int:
    """Return an executor's exit as a wait status: the exit code in the upper byte, a signal in the lower."""
    if end is None:
        return 9
    return end.exit_code - 128 if end.exit_code > 128 else end.exit_code << 8
