"""`StartPublisher`: predicts when waiting jobs start, annotates their pod groups, and measures how right it was.

The predictions are computed in a forked child process on its copy of the informers' objects
(`strato.scheduler.shadow.child`), for a bounded share of the CPU. A pod group is patched only when its prediction has
changed by more than a user cares about, in batches, with an upper limit for each round.
"""

from __future__ import annotations

import functools
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Json
from strato.api.volcano.scheduling import GROUP_ANNOTATION, GROUP_NOT_STARTED, PodGroup
from strato.client.cluster import Cluster, Patch
from strato.client.informer import Change, Informers
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock, VirtualClock, cpu_timer, format_time, parse_time
from strato.errors import ApiError, NotFound
from strato.history.prediction import RunTimePredictor, SubmittedJob
from strato.history.predictionannotations import START, START_INTERVAL
from strato.history.predictionintervals import Accuracy, Calibration, Interval
from strato.metrics import Registry, Sample
from strato.scheduler.cache import kinds
from strato.scheduler.dryrun.run import Decoded, build
from strato.scheduler.dryrun.states import ManifestState
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config
from strato.scheduler.shadow.budget import Budget
from strato.scheduler.shadow.child import Child, ChildFailed
from strato.sim.foresight.whatif_state import with_late_pods
from strato.sim.foresight.when import HORIZON_SECONDS, starts
from strato.sim.foresight.whenjobs import ended_jobs, run_times

_log = logging.getLogger(__name__)

NAMESPACE: Final = "volcano-system"
CONFIG_MAP: Final = "strato-when"
_KEY: Final = "calibration.json"
_BATCH: Final = 64
_REMEMBERED: Final = 20_000
"""Most ended jobs that are kept to predict run times from; the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How often predictions are made, and how much they may cost."""

    period_seconds: float = 30.0
    """Time between two rounds."""
    draws: int = 7
    """Number of draws in a round; see `strato.sim.foresight.when`."""
    share: float = 0.1
    """Most CPU time of children, as a ratio of this process's CPU time."""
    timeout_seconds: float = 60.0
    """Time after which a child is killed; it begins no draw after half of that."""
    least_change_seconds: float = 60.0
    """A written prediction is kept until it has changed by more than this, and …"""
    least_change_ratio: float = 0.2
    """… by more than this part of the predicted wait."""
    most_written: int = 512
    """Most pod groups that are patched in a round; the others follow in the next rounds."""


class Ended(msgspec.Struct, frozen=True, array_like=True):
    """An ended job: the uid of its pod group, its submission, its run time in seconds."""

    uid: str
    user: str
    name: str
    size: float
    estimate_seconds: float | None
    limit_seconds: float | None
    seconds: float

    @property
    def submission(self) -> SubmittedJob:
        """The submission, as the predictor takes it."""
        return SubmittedJob(
            user=self.user,
            name=self.name,
            size=self.size,
            estimate_seconds=self.estimate_seconds,
            limit_seconds=self.limit_seconds,
        )


class StartIntervals(msgspec.Struct, frozen=True):
    """The answer of a child: key of a pod group → interval of its start, in seconds after ``now``; ended jobs.

    The intervals are not calibrated; None stands for infinity.
    """

    now: float
    starts: dict[str, tuple[float | None, float | None, float | None]]
    ended: list[Ended]


@dataclass(slots=True)
class _Prediction:
    """The first prediction for a pod group, by which accuracy is measured, and the one written last."""

    uid: str
    raw: Interval
    given: Interval
    naive_seconds: float
    at: float
    written: Interval | None = None
    """The interval in the pod group's annotations, seconds since the epoch; None if it is to be written."""


@dataclass(slots=True)
class _Waits:
    """Sum and number of the waits of all jobs that have started; their mean is the naive prediction."""

    total_seconds: float = 0.0
    count: int = 0

    @property
    def mean_seconds(self) -> float:
        return self.total_seconds / self.count if self.count else 0.0


class StartPublisher:
    """Publishes predicted starts, as the module says.

    Args:
        informers: The informers of the scheduler, which share their objects.
        config: Returns the scheduler's present configuration.
        past: Submission and run time of jobs that ended before, the oldest first.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        config: Callable[[], Config],
        registry: Registry,
        *,
        options: PublishOptions | None = None,
        past: Sequence[tuple[SubmittedJob, float]] = (),
    ) -> None:
        self._cluster = cluster
        self._informers = informers
        self._clock = clock
        self._config = config
        self._options = options or PublishOptions()
        self._past: deque[tuple[SubmittedJob, float]] = deque(past, maxlen=_REMEMBERED)
        self._ended: dict[str, None] = {}
        self._predictions: dict[str, _Prediction] = {}
        self._waits = _Waits()
        self._budget = Budget(self._options.share)
        self._fork_seconds = 0.0
        self._rounds = 0
        self._failed = 0
        self.accuracy = Accuracy()
        self.calibration = Calibration()
        registry.collect_gauges(self._gauges)
        registry.collect(self._counters)

    async def run(self) -> None:
        """Run a round every period, as far as the CPU budget allows, until cancelled."""
        for known in kinds.wanted(()):
            if not known.optional:
                self._informers.informer(known.kind.view)
        self._informers.informer(PodGroup).add_batch_handler(self.on_groups)
        self._informers.start()
        await self._informers.wait_synced()
        await ensure_namespace(self._cluster, self._clock, NAMESPACE, self._options.period_seconds)
        await self._resume()
        while True:
            await self._clock.sleep(self._options.period_seconds)
            self._budget.worked(cpu_timer() - self._fork_seconds)
            if isinstance(self._clock, VirtualClock) or self._budget.allows:
                await self.round()

    async def round(self) -> None:
        """Predict starts, write changed predictions to pod groups, and publish the accuracy of earlier ones."""
        if not any(group.status.phase in GROUP_NOT_STARTED for group in self._informers.informer(PodGroup).list()):
            return
        found = await self._look()
        if found is None:
            return
        self._rounds += 1
        for ended in found.ended:
            self._ended[ended.uid] = None
            self._past.append((ended.submission, ended.seconds))
        groups = {
            f"{one.metadata.namespace}/{one.metadata.name}": one for one in self._informers.informer(PodGroup).list()
        }
        self._forget(groups)
        await self._write(self._moved(found, groups))
        await self._save()

    # -- in the child --------------------------------------------------------------------------------------------------

    async def _look(self) -> StartIntervals | None:
        limit = self._options.timeout_seconds
        virtual = isinstance(self._clock, VirtualClock)
        child = Child(functools.partial(self._work, self._clock.now()), limit, yields=not virtual)
        self._fork_seconds += child.fork_seconds
        seconds = 0.0
        try:
            answer = child.answer_at_once(limit) if virtual else await child.answer(limit)
            seconds = answer.cpu_seconds
            return msgspec.msgpack.decode(answer.body, type=StartIntervals)
        except ChildFailed as error:
            seconds = error.seconds
            self._failed += 1
            _log.warning("starts of jobs not predicted: %s", error)
            return None
        finally:
            self._budget.spend(seconds + child.fork_seconds)

    def _work(self, now: float) -> bytes:
        """Compute predictions; runs in the child. Returns an encoded `StartIntervals`."""
        copy = Copy(self._objects(now), self._config(), seed=self._rounds, now=now)
        world = build(copy.objects)
        predictor = RunTimePredictor()
        for submission, seconds in self._past:
            predictor.take(submission, seconds)
        ended = []
        for job, submission, seconds in ended_jobs(world):
            uid = job.uid or job.key
            if uid not in self._ended:
                predictor.take(submission, seconds)
                fields = (submission.user, submission.name, submission.size)
                ended.append(Ended(uid, *fields, submission.estimate_seconds, submission.limit_seconds, seconds))
        budget = self._options.timeout_seconds / 2
        found = starts(copy, run_times(predictor), draws=self._options.draws, budget_seconds=budget)
        intervals = {key: tuple(map(_finite, one.interval)) for key, one in found.items()}
        return msgspec.msgpack.encode(StartIntervals(now, intervals, ended))  # type: ignore[arg-type]  # three each

    def _objects(self, now: float) -> list[Decoded]:
        """Return the informers' objects, and the pods of pod groups that wait without any (`with_late_pods`)."""
        found: list[Decoded] = []
        late: list[tuple[str, Json]] = []
        with_pods = {
            (pod.metadata.namespace, pod.metadata.annotation(GROUP_ANNOTATION))
            for pod in self._informers.informer(Pod).list()
        }
        for known in kinds.wanted(()):
            if known.optional:
                continue
            for view in self._informers.informer(known.kind.view).list():
                found.append(Decoded("", known, view))
                meta = view.metadata
                waits = isinstance(view, PodGroup) and view.status.phase in GROUP_NOT_STARTED
                if waits and (meta.namespace, meta.name) not in with_pods:
                    body: Json = msgspec.to_builtins(view)
                    late.append(("", {**body, "apiVersion": catalog.PODGROUP.api_version, "kind": "PodGroup"}))
        state, _ = with_late_pods(ManifestState(late), now)
        pods = [obj for _, obj in state.objects if obj.get("kind") == "Pod"]
        return [*found, *(Decoded("", kinds.of(catalog.POD), msgspec.convert(pod, Pod)) for pod in pods)]

    # -- writes to pod groups ------------------------------------------------------------------------------------------

    def _moved(self, found: StartIntervals, groups: Mapping[str, PodGroup]) -> list[Patch]:
        """Return the patches of pod groups whose prediction is new or has changed enough."""
        patches: list[Patch] = []
        for key, raw_seconds in found.starts.items():
            group = groups.get(key)
            if group is None or group.status.phase not in GROUP_NOT_STARTED:
                continue
            raw = Interval(*(math.inf if one is None else one for one in raw_seconds))
            given = self.calibration.calibrated(raw)
            known = self._predictions.get(key)
            if known is None or known.uid != group.metadata.uid:
                mean = self._waits.mean_seconds
                known = _Prediction(group.metadata.uid, raw, given, mean, found.now)
                self._predictions[key] = known
            instants = Interval(*(found.now + one for one in given))
            if len(patches) < self._options.most_written and self._differs(known.written, instants, given):
                known.written = instants
                namespace, _, name = key.partition("/")
                patches.append(Patch(namespace, name, {"metadata": {"annotations": _annotations(given, instants)}}))
        return patches

    def _differs(self, written: Interval | None, instants: Interval, given: Interval) -> bool:
        if written is None:
            return True
        least = max(self._options.least_change_seconds, self._options.least_change_ratio * min(given.middle, 1e9))
        return any(
            math.isinf(old) != math.isinf(new) or (math.isfinite(old) and abs(old - new) > least)
            for old, new in zip(written, instants, strict=True)
        )

    async def _write(self, patches: Sequence[Patch]) -> None:
        for begin in range(0, len(patches), _BATCH):
            batch = patches[begin : begin + _BATCH]
            try:
                answers = await self._cluster.patch_all(catalog.PODGROUP, batch)
            except ApiError as silence:
                answers = [silence] * len(batch)
            for patch, refusal in zip(batch, answers, strict=True):
                known = self._predictions.get(f"{patch.namespace}/{patch.name}")
                if refusal is not None and known is not None and not isinstance(refusal, NotFound):
                    known.written = None  # so that the next round writes it again
                    _log.debug("predicted start not written: group=%s/%s: %s", patch.namespace, patch.name, refusal)

    def _forget(self, groups: Mapping[str, PodGroup]) -> None:
        for key in [key for key in self._predictions if key not in groups]:
            del self._predictions[key]
        uids = {group.metadata.uid for group in groups.values()}
        self._ended = {uid: None for uid in self._ended if uid in uids}

    # -- accuracy of predictions ---------------------------------------------------------------------------------------

    def on_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Compare predictions with the pod groups that have begun to run; a batch handler of their informer."""
        for old, new in changes:
            if new is None or old is None or old.status.phase not in GROUP_NOT_STARTED:
                continue
            if new.status.phase == "Running":
                self._began(new)

    def _began(self, group: PodGroup) -> None:
        now, meta = self._clock.now(), group.metadata
        known = self._predictions.pop(f"{meta.namespace}/{meta.name}", None)
        if known is not None and known.uid == meta.uid:
            wait = max(0.0, now - known.at)
            self.accuracy.take(known.given, known.naive_seconds, wait)
            self.calibration.take(known.raw, wait)
        created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else now
        self._waits.total_seconds += max(0.0, now - created)
        self._waits.count += 1

    async def _resume(self) -> None:
        """Load the calibration that an earlier process has saved."""
        try:
            self.calibration = await read_calibration(self._cluster) or self.calibration
        except ApiError as error:
            _log.info("calibration of earlier predictions not read: %s", error)

    async def _save(self) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {_KEY: self.calibration.to_json(), "accuracy.json": msgspec.json.encode(self.summary()).decode()},
        }
        try:
            try:
                await self._cluster.patch(catalog.CONFIGMAP, CONFIG_MAP, NAMESPACE, body)
            except NotFound:
                await self._cluster.create(catalog.CONFIGMAP, body, NAMESPACE)
        except ApiError as error:
            _log.warning("calibration of predicted starts not saved: %s", error)

    def summary(self) -> Json:
        """Return the accuracy of predictions so far, as it is published."""
        accuracy = self.accuracy
        return {
            "predictions": accuracy.predictions,
            "coverage": round(accuracy.coverage, 4),
            "meanErrorSeconds": round(accuracy.mean_error_seconds, 1),
            "naiveMeanErrorSeconds": round(accuracy.naive_mean_error_seconds, 1),
            "medianErrorSeconds": round(accuracy.median_error_seconds, 1),
            "naiveMedianErrorSeconds": round(accuracy.naive_median_error_seconds, 1),
        }

    def _gauges(self) -> list[Sample]:
        accuracy = self.accuracy
        return [
            Sample("strato_start_prediction_coverage_ratio", {}, accuracy.coverage),
            Sample("strato_start_prediction_error_seconds", {"of": "prediction"}, accuracy.mean_error_seconds),
            Sample("strato_start_prediction_error_seconds", {"of": "mean-wait"}, accuracy.naive_mean_error_seconds),
        ]

    def _counters(self) -> list[Sample]:
        return [
            Sample("strato_start_predictions_total", {"outcome": "within"}, self.accuracy.held),
            Sample(
                "strato_start_predictions_total", {"outcome": "outside"}, self.accuracy.predictions - self.accuracy.held
            ),
            Sample("strato_start_prediction_rounds_total", {"outcome": "done"}, self._rounds),
            Sample("strato_start_prediction_rounds_total", {"outcome": "failed"}, self._failed),
        ]


async def read_calibration(cluster: Cluster) -> Calibration | None:
    """Return the calibration that a cluster's publisher has saved; None if there is none.

    Raises:
        ApiError: The server refuses.
    """
    try:
        found = await cluster.get(catalog.CONFIGMAP, CONFIG_MAP, NAMESPACE)
    except NotFound:
        return None
    return Calibration.from_json(str((found.get("data") or {}).get(_KEY, "")))


def _annotations(given: Interval, instants: Interval) -> dict[str, str | None]:
    if given.middle > HORIZON_SECONDS:
        return {START: None, START_INTERVAL: None}
    latest = format_time(instants.high) if given.high <= HORIZON_SECONDS else ".."
    return {START: format_time(instants.middle), START_INTERVAL: f"{format_time(instants.low)}/{latest}"}


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
