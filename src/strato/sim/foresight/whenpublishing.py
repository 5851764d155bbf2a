"""`StartPublisher`: predicts when waiting jobs start, writes that to their pod groups, and keeps how it fared.

All that costs much happens in a child process, on its copy of what the informers know
(`strato.scheduler.shadow.child`), for a bounded share of the CPU. A pod group is written to only when its prediction
has moved by more than a person cares about, in batches, and so many at most in a round.
"""

from __future__ import annotations

import functools
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Json
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import Cluster, Patch
from strato.client.informer import Change, Informers
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock, VirtualClock, cpu_timer, format_time, parse_time
from strato.errors import ApiError, NotFound
from strato.history.prediction import RunTimePredictor, Submission
from strato.history.predictionannotations import START, START_INTERVAL
from strato.history.predictionintervals import Accuracy, Calibration, Interval
from strato.metrics import Registry, Sample
from strato.scheduler.cache import kinds
from strato.scheduler.dryrun.run import Decoded, build
from strato.scheduler.dryrun.states import State
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
_WAITING: Final = ("", "Pending", "Inqueue")
_BATCH: Final = 64
_REMEMBERED: Final = 20_000
"""Runs of the past that predictions rest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How often, and how much."""

    period_seconds: float = 30.0
    """Between two rounds."""
    draws: int = 7
    """Courses of events that are tried."""
    share: float = 0.1
    """CPU over that of the process, at most."""
    timeout_seconds: float = 60.0
    """After so long a round is ended."""
    least_change_seconds: float = 60.0
    """A prediction that moved by less is not written again …"""
    least_change_ratio: float = 0.2
    """… nor one that moved by less than this part of the wait that is left."""
    most_written: int = 512
    """Pod groups written to in a round; the others' turn comes in the next."""


class Ended(msgspec.Struct, frozen=True, array_like=True):
    """A job that has ended: its group's uid, how it was submitted, how long it ran."""

    uid: str
    user: str
    name: str
    size: float
    estimate_seconds: float | None
    limit_seconds: float | None
    seconds: float

    @property
    def submission(self) -> Submission:
        """How it was submitted."""
        return Submission(
            user=self.user,
            name=self.name,
            size=self.size,
            estimate_seconds=self.estimate_seconds,
            limit_seconds=self.limit_seconds,
        )


class Round(msgspec.Struct, frozen=True):
    """What a child found: raw intervals of starts in seconds from its ``now``, by group; jobs that have ended."""

    now: float
    starts: dict[str, tuple[float | None, float | None, float | None]]
    ended: list[Ended]


@dataclass(slots=True)
class _Prediction:
    """The first prediction for a group, which is what counts, and what was written last."""

    uid: str
    raw: Interval
    given: Interval
    naive_seconds: float
    at: float
    written: Interval | None = None
    """Instants."""


@dataclass(slots=True)
class _Waits:
    """The waits so far."""

    total_seconds: float = 0.0
    count: int = 0
    seen: dict[str, None] = field(default_factory=dict)

    @property
    def mean_seconds(self) -> float:
        return self.total_seconds / self.count if self.count else 0.0


class StartPublisher:
    """See the module.

    Args:
        informers: What the scheduler reads; shared with it.
        config: Returns the scheduler's configuration in force.
        past: Runs that ended before, the oldest first.
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
        past: Sequence[tuple[Submission, float]] = (),
    ) -> None:
        self._cluster = cluster
        self._informers = informers
        self._clock = clock
        self._config = config
        self._options = options or PublishOptions()
        self._past: deque[tuple[Submission, float]] = deque(past, maxlen=_REMEMBERED)
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
        """Work until cancelled."""
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
        """Predict, write what has moved, and publish how earlier predictions fared."""
        if not any(group.status.phase in _WAITING for group in self._informers.informer(PodGroup).list()):
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

    async def _look(self) -> Round | None:
        limit = self._options.timeout_seconds
        virtual = isinstance(self._clock, VirtualClock)
        child = Child(functools.partial(self._work, self._clock.now()), limit, yields=not virtual)
        self._fork_seconds += child.fork_seconds
        seconds = 0.0
        try:
            answer = child.answer_at_once(limit) if virtual else await child.answer(limit)
            seconds = answer.cpu_seconds
            return msgspec.msgpack.decode(answer.body, type=Round)
        except ChildFailed as error:
            seconds = error.seconds
            self._failed += 1
            _log.warning("starts of jobs not predicted: %s", error)
            return None
        finally:
            self._budget.spend(seconds + child.fork_seconds)

    def _work(self, now: float) -> bytes:
        """Run in the child: everything that takes long."""
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
        return msgspec.msgpack.encode(Round(now, intervals, ended))  # type: ignore[arg-type]  # three each

    def _objects(self, now: float) -> list[Decoded]:
        """Return the state as the informers have it, groups that wait without pods with theirs."""
        found: list[Decoded] = []
        late: list[tuple[str, Json]] = []
        with_pods = {
            (pod.metadata.namespace, pod.metadata.annotation("scheduling.k8s.io/group-name"))
            for pod in self._informers.informer(Pod).list()
        }
        for known in kinds.wanted(()):
            if known.optional:
                continue
            for view in self._informers.informer(known.kind.view).list():
                found.append(Decoded("", known, view))
                meta = view.metadata
                waits = isinstance(view, PodGroup) and view.status.phase in _WAITING
                if waits and (meta.namespace, meta.name) not in with_pods:
                    body: Json = msgspec.to_builtins(view)
                    late.append(("", {**body, "apiVersion": catalog.PODGROUP.api_version, "kind": "PodGroup"}))
        state, _ = with_late_pods(State(late), now)
        pods = [obj for _, obj in state.objects if obj.get("kind") == "Pod"]
        return [*found, *(Decoded("", kinds.of(catalog.POD), msgspec.convert(pod, Pod)) for pod in pods)]

    # -- what is written -----------------------------------------------------------------------------------------------

    def _moved(self, found: Round, groups: Mapping[str, PodGroup]) -> list[Patch]:
        """Return the writes for groups whose prediction is new or has moved."""
        patches: list[Patch] = []
        for key, raw_seconds in found.starts.items():
            group = groups.get(key)
            if group is None or group.status.phase not in _WAITING:
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
                    known.written = None  # again in the next round
                    _log.debug("predicted start not written: group=%s/%s: %s", patch.namespace, patch.name, refusal)

    def _forget(self, groups: Mapping[str, PodGroup]) -> None:
        for key in [key for key in self._predictions if key not in groups]:
            del self._predictions[key]
        uids = {group.metadata.uid for group in groups.values()}
        self._ended = {uid: None for uid in self._ended if uid in uids}

    # -- how it fared --------------------------------------------------------------------------------------------------

    def on_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take what came of predictions: groups that have begun to run."""
        for old, new in changes:
            if new is None or old is None or old.status.phase not in _WAITING:
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
        """Go on with what an earlier process knew of its predictions."""
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
        """Return how predictions have fared, as it is published."""
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
    """Return how the published predictions of a cluster have fared; None where none are published.

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
