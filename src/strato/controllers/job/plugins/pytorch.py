"""pytorch: give every container of a distributed PyTorch job the variables ``torch.distributed`` starts from.

Source: volcano-controllers Part B, pytorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import JobPlugin, add_port, add_variables, find_task, first_address

PORT_NAME = "pytorchjob-port"
WAITER = "wait-for-master"
_PROBE_SECONDS = 2


class PytorchPlugin(JobPlugin):
    """See the module. Does nothing for a job without the master's task."""

    name: ClassVar[str] = "pytorch"
    varies: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Value]] = {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    }

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Open the port and add what all pods share; workers may wait for the master first."""
        master = find_task(job, self.text("master"))
        if master is None:
            return
        port, spec = self.number("port"), pod["spec"]
        workers = find_task(job, self.text("worker"))
        address = first_address(job, master)
        world_size = master.replicas + (workers.replicas if workers is not None else 0)
        variables = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
        added = [{"name": name, "value": value} for name, value in variables.items()]
        add_variables(spec, ("containers",), added)
        for container in spec.get("containers") or ():
            add_port(container, PORT_NAME, port)
        if self.switch("wait-master-enabled") and task.name == self.text("worker"):
            self._add_waiter(spec, address)

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Add the rank: masters are 0, workers follow, pods of other tasks have none."""
        if find_task(job, self.text("master")) is None:
            return
        if task.name == self.text("master"):
            rank = 0
        elif task.name == self.text("worker"):
            rank = index + 1
        else:
            return
        add_variables(pod["spec"], ("containers",), [{"name": "RANK", "value": str(rank)}])

    def _add_waiter(self, spec: dict[str, Any], address: str) -> None:
        present = spec.get("initContainers") or ()
        if all(container.get("name") != WAITER for container in present):
            script = waiting_script(address, self.number("port"), self.number("wait-master-timeout"))
            waiter = {"name": WAITER, "image": self.text("wait-master-image"), "command": ["sh", "-c", script]}
            spec["initContainers"] = [*present, waiter]


def waiting_script(address: str, port: int, timeout_seconds: int) -> str:
    """Return a shell script that ends with 0 once something listens on the port, and with 1 after the timeout.

    It uses ``nc``; in images without it, it tries ``/dev/tcp``, which works where ``sh`` is bash.
    """
    return (
        f"deadline=$(( $(date +%s) + {timeout_seconds} )); "
        f"until nc -z {address} {port} 2>/dev/null || (exec 3<>/dev/tcp/{address}/{port}) 2>/dev/null; do "
        f'if [ "$(date +%s)" -ge "$deadline" ]; then '
        f'echo "{address}:{port} did not answer within {timeout_seconds} s" >&2; exit 1; fi; '
        f"sleep {_PROBE_SECONDS}; done"
    )
