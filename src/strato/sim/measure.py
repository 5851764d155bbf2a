"""`PodFollower`: reports to a run's recorder on which node each pod runs, from when until when, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from strato.api.core import Pod
from strato.client.informer import Change
from strato.controllers.job.pods import index_of
from strato.sim.results.record import Ending, RunRecorder

JOB_LABEL = "volcano.sh/job-name"
_ENDINGS: Mapping[str, Ending] = {"Succeeded": Ending.SUCCEEDED, "Failed": Ending.FAILED}


class PodFollower:
    """Follows the pods of a trace's jobs through an informer's batches.

    Args:
        recorder: Takes the beginnings and ends of pods.
        jobs: Name of a job → its row.
        nodes: Name of a node → its row.
        now: Returns the time since the start of the trace, in seconds.
        beneficiary: Returns the name of the job for which a pod was evicted; empty when for none.
        on_end: Called with the row of each job whose pods have all ended.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        jobs: Mapping[str, int],
        nodes: Mapping[str, int],
        *,
        now: Callable[[], float],
        beneficiary: Callable[[Pod], str],
        on_end: Callable[[int], None],
    ) -> None:
        self._recorder = recorder
        self._jobs = jobs
        self._nodes = nodes
        self._now = now
        self._beneficiary = beneficiary
        self._on_end = on_end

    def on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        """Report a batch of changes; to be added to the pod informer as a batch handler."""
        for old, new in changes:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._take(old, None)
                old = None
            if new is not None:
                self._take(old, new)

    def _take(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        row = self._jobs.get(pod.metadata.label(JOB_LABEL))
        if row is None or (old is not None and old.is_finished):
            return
        number, now = index_of(pod.metadata.name), self._now()
        if new is None:
            beneficiary = self._jobs.get(self._beneficiary(pod), -1)
            self._recorder.end(row, number, now, Ending.EVICTED, beneficiary)
            return
        phase = new.status.phase
        if phase == "Running" or phase in _ENDINGS:
            self._recorder.begin(row, number, self._nodes[new.spec.node_name], now)
        if phase in _ENDINGS and self._recorder.end(row, number, now, _ENDINGS[phase]):
            self._on_end(row)
