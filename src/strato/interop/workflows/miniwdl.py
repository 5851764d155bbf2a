"""miniwdl's container back end: each task attempt is a job in a queue. Imported by miniwdl alone, by its entry point.

    [scheduler]
    container_backend = strato
    [strato]
    queue = research

miniwdl itself does retries (``maxRetries``, ``preemptible``), the call cache, scatters and sub-workflows. Pods must
have access to the run directory: a claim that is mounted for miniwdl too (``claim``, ``claim_root``), or directories
that are the same on all nodes, as on a laptop.
"""

from __future__ import annotations

import os
import shlex
import threading
import uuid
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final

from WDL.Error import RuntimeError as WorkflowError
from WDL.runtime.error import Interrupted, Terminated
from WDL.runtime.task_container import TaskContainer

from strato.errors import StratoError, one_line
from strato.interop.workflows.jobrunner import JobRunner, connect_by_kubeconfig
from strato.interop.workflows.taskjob import AttemptOutcome, JobSettings, Mount, TaskRequest, job_name, task_job

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

ENGINE: Final = "miniwdl"
SECTION: Final = "strato"
_NO_LIMIT_CPUS: Final = 1 << 20
_NO_LIMIT_BYTES: Final = 1 << 60
_OPTIONS: Final = {
    "namespace": "default",
    "queue": "",
    "priority_class": "",
    "claim": "",
    "claim_root": "/",
    "gpu_resource": "nvidia.com/gpu",
    "keep_seconds": "3600",
    "as_user": "true",
    "kubeconfig": "",
    "context": "",
}
"""Options of the section ``[strato]``, with their defaults."""


class StratoContainer(TaskContainer):  # type: ignore[misc] # miniwdl publishes no types
    """Runs a task attempt as a job."""

    _runner: ClassVar[JobRunner | None] = None
    _job_settings: ClassVar[JobSettings] = JobSettings()
    _largest: ClassVar[tuple[int, int]] = (0, 0)
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, cfg: Any, run_id: str, host_dir: str) -> None:
        self._binds_inputs = True
        self._extra: dict[str, str] = {}
        super().__init__(cfg, run_id, host_dir)

    @classmethod
    def global_init(cls, cfg: Any, logger: logging.Logger) -> None:
        """Read the options and connect; called once per process."""
        options = {name: cfg.get(SECTION, name, default) for name, default in _OPTIONS.items()}
        if not options["keep_seconds"].isdigit():
            raise WorkflowError(f"[strato] keep_seconds = {options['keep_seconds']}: not a number of seconds")
        as_user = cfg.get_bool(SECTION, "as_user", True) and os.geteuid() != 0
        cls._job_settings = JobSettings(
            namespace=options["namespace"],
            queue=options["queue"],
            priority_class=options["priority_class"],
            claim=options["claim"],
            claim_root=options["claim_root"],
            user=os.geteuid() if as_user else None,
            group=os.getegid() if as_user else None,
            gpu_resource=options["gpu_resource"],
            keep_seconds=int(options["keep_seconds"]),
        )
        try:
            cls._runner = JobRunner(lambda: connect_by_kubeconfig(options["kubeconfig"], options["context"]))
            cls._largest = cls._runner.largest_node()
        except StratoError as error:
            raise WorkflowError(f"the cluster cannot be used: {one_line(error)}") from error
        logger.info("tasks run as jobs of the cluster, namespace %s", cls._job_settings.namespace)

    @classmethod
    def detect_resource_limits(cls, cfg: Any, logger: logging.Logger) -> dict[str, int]:
        """Return the largest node's resources; no limit if the user may not read nodes."""
        cpus, memory = cls._largest
        return {"cpu": cpus or _NO_LIMIT_CPUS, "mem_bytes": memory or _NO_LIMIT_BYTES}

    def process_runtime(self, logger: logging.Logger, runtime_eval: dict[str, Any]) -> None:
        """Read the runtime section, in which ``queue`` and ``gpuCount`` are specific to Strato."""
        super().process_runtime(logger, runtime_eval)
        if "inlineDockerfile" in self.runtime_values:
            raise WorkflowError("runtime.inlineDockerfile: images are not built here; build one and name it")
        self._extra = {name: str(runtime_eval[name].value) for name in ("queue", "gpuCount") if name in runtime_eval}
        if not self._extra.get("gpuCount", "1").isdigit():
            raise WorkflowError(f"runtime.gpuCount = {self._extra['gpuCount']}: not a number of GPUs")

    def copy_input_files(self, logger: logging.Logger) -> None:
        """Copy the inputs into the working directory, so that they need not be mounted."""
        super().copy_input_files(logger)
        self._binds_inputs = False

    def reset(self, logger: logging.Logger) -> None:
        """Prepare another attempt, whose working directory is new."""
        super().reset(logger)
        self._binds_inputs = True

    def _run(self, logger: logging.Logger, terminating: Callable[[], bool], command: str) -> int:
        runner = self._runner
        assert runner is not None, "global_init comes first"
        self._write_command(command)
        request = self._request()
        try:
            body = task_job(request, self._job_settings)
        except ValueError as error:
            raise WorkflowError(f"[strato] claim_root: {error}") from error
        name = job_name(request)
        with ExitStack() as cleanup:
            poll_stderr = cleanup.enter_context(self.poll_stderr_context(logger))
            future = runner.start(body, lambda reason: logger.info("job %s waits: %s", name, reason))
            logger.info("job %s/%s", self._job_settings.namespace, name)
            cleanup.enter_context(self.task_running_context())
            ended = self._wait(runner, future, name, terminating, poll_stderr)
        if ended.exit_code is None:
            raise Terminated() if terminating() else Interrupted(ended.message)
        self.failure_info = {"job": f"{self._job_settings.namespace}/{name}"}
        if ended.message:
            self.failure_info["message"] = ended.message
        return ended.exit_code

    def _wait(
        self,
        runner: JobRunner,
        future: Future[AttemptOutcome],
        name: str,
        terminating: Callable[[], bool],
        poll_stderr: Callable[[], None],
    ) -> AttemptOutcome:
        try:
            while True:
                try:
                    return future.result(timeout=1.0)
                except NotYet:
                    if terminating():
                        raise Terminated() from None
                poll_stderr()
        except StratoError as error:
            raise WorkflowError(f"job {name}: {one_line(error)}") from error
        finally:
            if not future.done():  # the task was aborted
                future.cancel()
                runner.delete(name, self._job_settings.namespace)
            poll_stderr()

    def _write_command(self, command: str) -> None:
        """Write the script, with the environment in it, as command lines are limited and env files cannot quote."""
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in self.runtime_values.get("env", {}).items()]
        with open(os.path.join(self.host_dir, "command"), "w", encoding="utf-8") as file:
            file.writelines([*lines, command])

    def _request(self) -> TaskRequest:
        values = self.runtime_values
        shell = self.cfg.get("task_runtime", "command_shell")
        return TaskRequest(
            engine=ENGINE,
            run_id=self.run_id,
            unique=uuid.uuid4().hex[:8],
            image=values.get("docker") or self.cfg.get_dict("task_runtime", "defaults")["docker"],
            command=("/bin/sh", "-c", f"{shell} ../command >> ../stdout.txt 2>> ../stderr.txt"),
            working_dir=f"{self.container_dir}/work",
            cpu=values.get("cpu", 0),
            memory_bytes=values.get("memory_reservation", 0),
            memory_limit_bytes=values.get("memory_limit", 0),
            gpus=int(self._extra.get("gpuCount", 1)) if values.get("gpu") or "gpuCount" in self._extra else 0,
            preemptable=values.get("preemptible", 0) >= self.try_counter,
            privileged=bool(values.get("privileged")),
            mounts=self._mounts(),
            queue=self._extra.get("queue", ""),
        )

    def _mounts(self) -> list[Mount]:
        """Return the pod's mounts; create a mount point for each one within the working directory."""
        inside = self.container_dir
        for path in (self.host_stdout_txt(), self.host_stderr_txt()):
            self.touch_mount_point(path)
        mounts = [
            Mount(host_path=self.host_stdout_txt(), container_path=f"{inside}/stdout.txt", writable=True),
            Mount(host_path=self.host_stderr_txt(), container_path=f"{inside}/stderr.txt", writable=True),
            Mount(host_path=os.path.join(self.host_dir, "command"), container_path=f"{inside}/command"),
            Mount(host_path=self.host_work_dir(), container_path=f"{inside}/work", writable=True),
        ]
        for host_path, container_path in self.input_path_map.items() if self._binds_inputs else ():
            point = self.host_work_path(container_path)
            if not os.path.exists(point):
                self.touch_mount_point(point)
            mounts.append(Mount(host_path=host_path.rstrip("/"), container_path=container_path.rstrip("/")))
        return mounts
