"""Pods on hollow nodes: no process runs; a timer ends each container when its run plan says so.

`strato.node.hollow.runplan` decides what each container does. Its states, restarts, back-off, the active deadline and
the grace period of a deletion are those of a kubelet. Init containers complete at once, sidecars end with the pod.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from itertools import chain

from strato.api.core import Pod
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.clock import Clock, parse_time
from strato.node.hollow.admission import HollowAdmission
from strato.node.hollow.cpu import HollowCpu
from strato.node.hollow.distributions import Draws
from strato.node.hollow.heldpod import FINAL, HollowPod, runs_as_written
from strato.node.hollow.images import ImagePulls, image_size_problem
from strato.node.hollow.runplan import plan_run, problems, start_seconds, stop_seconds
from strato.node.hollow.starttemplates import StartTemplate, StartTemplates, container_id
from strato.node.podstatus import COMPLETED, CRASH_LOOP, ERROR, ContainerRecord, Ending
from strato.node.predicates import PodRejection
from strato.node.records import ephemeral_record, unmet_gates
from strato.node.restarts import Backoff, should_restart
from strato.node.statuswriter import StatusWriter
from strato.node.timers import Timers

_ADDRESSES = 2**24 - 2
_KILLED, _TERMINATED = 137, 143
"""Exit codes of a container that ended by SIGKILL, and by SIGTERM."""

MIN_REPORTED_SECONDS = 0.25
"""A pod that starts and ends within this time is first reported when it has ended. A kubelet checks its containers once
a second, so it does not see a container running that lives shorter."""

_log = logging.getLogger(__name__)


class HollowPods:
    """Runs all pods of all hollow nodes.

    Args:
        cpu: Simulates the CPU of pods with a demand, and ends their containers.
        admission: Admits pods, and holds the resources that the nodes have given them.
        images: The images of the nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        timers: Timers,
        cpu: HollowCpu,
        admission: HollowAdmission,
        images: ImagePulls,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._admission = admission
        self._recorder = EventRecorder(cluster, clock, "kubelet")
        self._images = images
        self._timers = timers
        self._backoff = Backoff()
        self._templates = StartTemplates()
        self._pods: dict[str, HollowPod] = {}
        self._slowness: dict[str, float] = {}
        """Node → factor by which everything that begins there takes longer; missing for 1."""
        self._addresses_given = 0
        self.writer: StatusWriter[HollowPod] = StatusWriter(cluster, clock, on_written=self._on_written)

    def __len__(self) -> int:
        return len(self._pods)

    def observe(self, pod: Pod, host_ip: str, *, is_lost: bool = False) -> None:
        """Handle the present state of a pod that is bound to one of the nodes.

        Args:
            pod: The pod from the API.
            host_ip: Address of its node.
            is_lost: Whether its containers were lost, because the node has lost power since they started.
        """
        uid = pod.metadata.uid
        held = self._pods.get(uid)
        if pod.metadata.deletion_timestamp is not None:
            self._terminate(held if held is not None else self._take(pod, host_ip, is_lost=is_lost), pod)
        elif pod.status.phase in FINAL:
            self._drop(uid)
            self._cpu.stop(uid)
        elif held is None and (is_lost or not self._go_on(pod, host_ip)):
            refusal = self._admission.refusal(pod) if pod.status.start_time is None else None
            if refusal is not None:
                self._reject(pod, host_ip, refusal)
                return
            template = None if self._images.take_time else self._templates.of(pod, MIN_REPORTED_SECONDS)
            if template is None:
                self._admit(self._take(pod, host_ip, is_lost=is_lost))
            else:
                self._start_from_template(pod, host_ip, template)
        elif held is not None and pod.metadata.generation != held.pod.metadata.generation:
            self._change(held, pod)
        elif held is not None and pod.spec.readiness_gates:
            self._observe_gates(held, pod)

    def concerns(self, pod: Pod) -> bool:
        """Return whether `observe` has anything to do for a pod of one of the nodes."""
        held = self._pods.get(pod.metadata.uid)
        return (
            held is None
            or pod.metadata.generation != held.pod.metadata.generation
            or pod.metadata.deletion_timestamp is not None
            or pod.status.phase in FINAL
            or bool(pod.spec.readiness_gates)
        )

    def forget(self, uid: str) -> None:
        """Forget a pod that was deleted from the API."""
        self._drop(uid)
        self._cpu.forget(uid)

    def give_back(self, uid: str) -> None:
        """Take back a pod's resources of its node: in the API it was deleted or has ended."""
        held = self._pods.get(uid)
        if held is not None:
            self._admission.give_back(held)

    def forget_node(self, node: str) -> None:
        """Forget the pods of a stopped node, without writing to the API.

        Those that have ended stay: what the API's events say of them may be older, and they must not run again.
        """
        for uid in [uid for uid, held in self._pods.items() if held.node == node and not held.has_ended]:
            self._drop(uid)
            self._cpu.stop(uid)

    def report_node(self, node: str, *, only_ended: bool = False) -> None:
        """Write the statuses of a node's pods again, or of those that have ended."""
        for held in self._pods.values():
            if held.node == node and (held.has_ended or not only_ended):
                self.writer.submit(held)

    def set_slowness(self, node: str, factor: float) -> None:
        """Set the factor by which everything that begins on a node from now on takes longer; 1 is normal."""
        if factor == 1:
            self._slowness.pop(node, None)
        else:
            self._slowness[node] = factor

    def _take(self, pod: Pod, host_ip: str, *, is_lost: bool = False) -> HollowPod:
        held = HollowPod(pod, host_ip, self._clock.now())
        if is_lost:
            held.record.lose(self._clock.now())
        self._keep(held)
        return held

    def _keep(self, held: HollowPod) -> None:
        self._pods[held.uid] = held
        self._admission.take(held)

    def _drop(self, uid: str) -> None:
        held = self._pods.pop(uid, None)
        if held is not None:
            self._admission.give_back(held)

    def _reject(self, pod: Pod, host_ip: str, refusal: PodRejection) -> None:
        """Set a new pod to Failed that its node refuses to start."""
        held = self._pods[pod.metadata.uid] = HollowPod(pod, host_ip, self._clock.now())
        held.record.reason, held.record.message = refusal.reason, f"Pod was rejected: {refusal.message}"
        self._recorder.event(pod, WARNING, refusal.reason, refusal.message)
        self.writer.submit(held)

    def _observe_gates(self, held: HollowPod, pod: Pod) -> None:
        """Take note of what others say of whether a pod may be ready."""
        unmet = unmet_gates(pod)
        if unmet != held.record.unmet_gates:
            held.record.unmet_gates = unmet
            self.writer.submit(held)

    def _change(self, held: HollowPod, pod: Pod) -> None:
        """Apply the changes that a running pod allows: resources, active deadline, new ephemeral containers."""
        record, deadline = held.record, held.pod.spec.active_deadline_seconds
        held.pod = pod
        if held.claim is not None:
            self._admission.take(held)
        record.generation = pod.metadata.generation
        record.unmet_gates = unmet_gates(pod)
        self._apply_spec(held)
        self._cpu.resize(pod)
        if pod.spec.active_deadline_seconds != deadline:
            self._watch_deadline(held)
        self.writer.submit(held)

    def _apply_spec(self, held: HollowPod) -> None:
        record, spec = held.record, held.pod.spec
        record.resources = spec.resources
        for container, wanted in zip(record.containers, (*spec.init_containers, *spec.containers), strict=True):
            container.allocated = container.actual = wanted.resources
        known = {debugger.name for debugger in record.ephemeral}
        record.ephemeral += [ephemeral_record(one) for one in spec.ephemeral_containers if one.name not in known]
        for debugger in record.ephemeral:
            if debugger.state == "waiting":
                debugger.image_id = debugger.image
                debugger.run(self._clock.now(), container_id(held.uid, debugger))

    def _go_on(self, pod: Pod, host_ip: str) -> bool:
        """Continue a pod that runs exactly as its status says, from before a restart; return whether it is such a pod.

        Its status is not written again: for a million pods that would take longer than all the rest of a restart.
        """
        if not runs_as_written(pod):
            return False
        now, uid, spec, ends = self._clock.now(), pod.metadata.uid, pod.spec, []
        slowness = self._slowness.get(spec.node_name, 1.0)
        for index, (container, known) in enumerate(zip(spec.containers, pod.status.container_statuses, strict=True)):
            plan = plan_run(None, (*container.command, *container.args), spec.restart_policy, Draws(uid, index, 0))
            if plan.seconds < math.inf:
                assert known.state.running is not None, "it runs as written"
                left = parse_time(known.state.running.started_at or "") + plan.seconds * slowness - now
                if left <= 0:
                    return False
                ends.append((left, index, plan.exit_code))
        held = HollowPod(pod, host_ip, now, is_as_written=True)
        self._keep(held)
        for left, index, exit_code in ends:
            self._timers.after(left, self._end_and_write, held, index, held.epochs[index], exit_code)
        return True

    def _start_from_template(self, pod: Pod, host_ip: str, template: StartTemplate) -> None:
        """Start a pod from its template; has the same result as `_admit`."""
        held = HollowPod(pod, host_ip, self._clock.now(), template, self._next_address())
        self._keep(held)
        for index, plan in enumerate(template.plans):
            if plan.seconds < math.inf:
                seconds = plan.seconds * self._slowness.get(held.node, 1.0)
                self._timers.after(seconds, self._end_and_write, held, index, 1, plan.exit_code)
        self.writer.submit(held)

    def _next_address(self) -> str:
        self._addresses_given += 1
        number = 1 + self._addresses_given % _ADDRESSES
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def _holds(self, held: HollowPod) -> bool:
        return self._pods.get(held.uid) is held and not held.is_stopped

    def _terminate(self, held: HollowPod, pod: Pod) -> None:
        """Time the end of a deleted pod's containers, at the latest after its grace period.

        It is called again when a later delete request shortens the grace period.
        """
        held.is_awaited = pod.is_awaited
        running = held.running()
        seconds, exit_code = 0.0, _TERMINATED
        if running:
            annotations = held.pod.metadata.annotations
            longest = max(stop_seconds(annotations, container, held.uid) for container in running)
            grace = _grace_seconds(pod, self._clock.now())
            seconds, exit_code = (longest, _TERMINATED) if longest <= grace else (grace, _KILLED)
        stops_at = self._clock.monotonic() + seconds
        if held.stops_at is not None and stops_at >= held.stops_at:
            return
        held.stops_at = stops_at
        if seconds > 0:
            self._timers.at(stops_at, self._stop, held, exit_code)
        else:
            self._stop(held, exit_code)

    def _stop(self, held: HollowPod, exit_code: int) -> None:
        """Record that a deleted pod's containers have ended; those that still ran get this exit code."""
        if self._holds(held):
            held.is_stopped = True
            self._cpu.stop(held.uid)
            if held.is_awaited:
                self._end_rest(held, exit_code)
                held.record.stop(self._clock.now())
            self.writer.submit(held)

    def _on_written(self, held: HollowPod, exists: bool) -> None:
        if not exists or held.is_stopped:
            self._drop(held.uid)

    def _admit(self, held: HollowPod) -> None:
        annotations = held.pod.metadata.annotations
        if annotations:
            found = (*problems(annotations), *self._cpu.problems(held.pod), image_size_problem(annotations))
            for problem in filter(None, found):
                _log.warning("a pod's annotation cannot be read: pod=%s/%s %s", held.namespace, held.name, problem)
                self._recorder.event(held.pod, WARNING, "UnreadableAnnotation", problem)
        record = held.record
        if not record.pod_ip:
            record.pod_ip = self._next_address()
        self._watch_deadline(held)
        if record.has_begun:
            self._resume(held)
            return
        preparation = self._preparation_seconds(held.pod)
        # min: the start time lies in the future if the clock was set back
        wait = min(preparation, record.start_time + preparation - self._clock.now())
        if wait > 0:
            self._timers.after(wait, self._start, held)
            self.writer.submit(held)
        else:
            self._start(held)

    def _preparation_seconds(self, pod: Pod) -> float:
        """Return the seconds from a pod's binding until its containers run."""
        annotations, node = pod.metadata.annotations, pod.spec.node_name
        seconds = start_seconds(annotations, pod.metadata.uid)
        if self._images.take_time:
            images = (one.image for one in chain(pod.spec.init_containers, pod.spec.containers))
            seconds += self._images.pull(node, images, annotations, self._clock.now())
        return seconds * self._slowness.get(node, 1.0)

    def _start(self, held: HollowPod) -> None:
        """Run every container for the first time."""
        if not self._holds(held) or held.stops_at is not None:
            return
        now, longest = self._clock.now(), 0.0
        for index, container in enumerate(held.record.containers):
            if container.init and not container.sidecar:
                container.run(now, container_id(held.uid, container))
                container.end(_ending(container, 0, COMPLETED, now))
            else:
                longest = max(longest, self._begin(held, index, now))
        if not 0.0 < longest <= MIN_REPORTED_SECONDS:
            self._write_state(held)

    def _resume(self, held: HollowPod) -> None:
        """Continue a pod that was started before this node restarted."""
        self._apply_spec(held)
        now = self._clock.now()
        for index, container in enumerate(held.record.containers):
            if container.state == "running" and not container.init:
                # min: the start time lies in the future if the clock was set back
                self._time_end(held, index, min(0.0, container.started_at - now))
            elif container.state == "waiting" and not container.init:
                self._begin(held, index, now)
            elif container.ending is not None and not container.init:
                self._after_end(held, index, container.ending)
        self._write_state(held)

    def _begin(self, held: HollowPod, index: int, now: float) -> float:
        """Start a run; returns its length in seconds (0 of a sidecar, which ends with the others)."""
        container = held.record.containers[index]
        container.image_id = container.image
        container.run(now, container_id(held.uid, container))
        return 0.0 if container.init else self._time_end(held, index, 0.0)

    def _time_end(self, held: HollowPod, index: int, offset_seconds: float) -> float:
        """Set the timer for the end of a run that began ``-offset_seconds`` ago; a run of zero length ends at once.

        Returns the length of the run in seconds. Init containers have no such timer.
        """
        spec = held.pod.spec.containers[index - len(held.pod.spec.init_containers)]
        argv = (*spec.command, *spec.args)
        draws = Draws(held.uid, index, held.record.containers[index].restart_count)
        plan = plan_run(held.pod.metadata.annotations, argv, held.record.restart_policy, draws)
        if held.node in self._slowness:
            plan = plan._replace(seconds=plan.seconds * self._slowness[held.node])
        held.epochs[index] += 1
        if plan.seconds + offset_seconds <= 0:
            self._end(held, index, held.epochs[index], plan.exit_code)
            return plan.seconds
        end = partial(self._end_and_write, held, index, held.epochs[index], plan.exit_code)
        ends_by_work = self._cpu.has_demand(held.pod) and self._cpu.start(
            held.pod, spec, plan.seconds + offset_seconds, end
        )
        if not ends_by_work and not math.isinf(plan.seconds):
            self._timers.after(plan.seconds + offset_seconds, end)
        return plan.seconds

    def _end_and_write(self, held: HollowPod, index: int, epoch: int, exit_code: int) -> None:
        if self._holds(held) and held.epochs[index] == epoch:
            self._end(held, index, epoch, exit_code)
            self._write_state(held)

    def _end(self, held: HollowPod, index: int, epoch: int, exit_code: int) -> None:
        container = held.record.containers[index]
        ending = _ending(container, exit_code, COMPLETED if exit_code == 0 else ERROR, self._clock.now())
        container.end(ending)
        self._after_end(held, index, ending)

    def _after_end(self, held: HollowPod, index: int, ending: Ending) -> None:
        if held.stops_at is not None or held.record.reason:
            return
        if not should_restart(held.record.restart_policy, ending.exit_code):
            return
        container = held.record.containers[index]
        wait = self._backoff.next_wait(held.waits[index], ending.finished_at - ending.started_at)
        held.waits[index] = wait
        pod_ref = f"{held.name}_{held.namespace}({held.uid})"
        message = f"back-off {wait:g}s restarting failed container={container.name} pod={pod_ref}"
        container.wait(CRASH_LOOP, message)
        held.epochs[index] += 1
        self._timers.after(wait, self._restart, held, index, held.epochs[index])

    def _restart(self, held: HollowPod, index: int, epoch: int) -> None:
        if self._holds(held) and held.epochs[index] == epoch and held.stops_at is None:
            held.record.containers[index].restart_count += 1
            self._begin(held, index, self._clock.now())
            self.writer.submit(held)

    def _watch_deadline(self, held: HollowPod) -> None:
        deadline = held.pod.spec.active_deadline_seconds
        if deadline is not None:
            left = held.record.start_time + deadline - self._clock.now()
            self._timers.after(left, self._exceed_deadline, held, deadline)

    def _exceed_deadline(self, held: HollowPod, deadline: int) -> None:
        if self._holds(held) and held.pod.spec.active_deadline_seconds == deadline:
            held.record.reason = "DeadlineExceeded"
            held.record.message = "Pod was active on the node longer than the specified deadline"
            self._end_rest(held, _KILLED)
            self._write_state(held)

    def _write_state(self, held: HollowPod) -> None:
        """Write the new state; the end of the last container ends the sidecars."""
        record = held.record
        if held.stops_at is not None and not held.running():
            self._stop(held, _TERMINATED)
            return
        if (len(record.containers) > 1 or record.ephemeral) and held.has_ended:
            self._end_rest(held, _KILLED)
        self.writer.submit(held)

    def _end_rest(self, held: HollowPod, exit_code: int) -> None:
        now = self._clock.now()
        self._cpu.stop(held.uid)
        held.epochs[:] = [epoch + 1 for epoch in held.epochs]
        for container in (*held.record.containers, *held.record.ephemeral):
            if container.state == "running":
                container.end(_ending(container, exit_code, ERROR, now))


def _grace_seconds(pod: Pod, now: float) -> float:
    """Return the remaining seconds of a deletion's grace period."""
    meta = pod.metadata
    grace = float(meta.deletion_grace_period_seconds or 0)
    # deletionTimestamp is the end of the grace period, cut to whole seconds: add one to be on the safe side
    return min(grace, parse_time(meta.deletion_timestamp) + 1 - now) if grace and meta.deletion_timestamp else 0.0


def _ending(container: ContainerRecord, exit_code: int, reason: str, now: float) -> Ending:
    return Ending(exit_code, reason, container.started_at, now, container_id=container.container_id)
