"""`LogRecorder`: a scheduler's journal that writes a log.

Recording must not disturb the scheduler: any error in here ends the recording and is logged once, and the scheduler
goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from strato import __version__
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.clock import Clock
from strato.scheduler.cache.journal import Beginning, Journal
from strato.scheduler.cache.replies import Reply, question_of
from strato.scheduler.cache.usage import Usages
from strato.scheduler.model.plan import Plan
from strato.sim.recording import entries as e
from strato.sim.recording.segments import LogFiles
from strato.sim.recording.state import KIND_NUMBERS

_log = logging.getLogger(__name__)

SNAPSHOT_BYTES: Final = 16 << 20
"""Bytes of entries after which a snapshot is taken, so that a reader of the state at an instant reads few entries."""
_FLUSH_SECONDS: Final = 1.0
_PARTS: Final = 4
_PARTS_PER_FLUSH: Final = 2000
"""Objects of a snapshot that are written with each entry (`_PARTS`) and with each flush (2,000 pods take some 10 ms):
writing all at once would delay the scheduler."""


class Hiding(Protocol):
    """Hides names on their way into the log; see `strato.sim.recording.anonymise`."""

    def body(self, view: Object) -> bytes:
        """Return an object in msgpack, with hidden names."""

    def key(self, key: str) -> str:
        """Return a ``namespace/name``, or a name, in hidden form."""

    def text(self, text: str) -> str:
        """Return a name, or free text, in hidden form."""


class Plain:
    """A `Hiding` that leaves everything readable."""

    def body(self, view: Object) -> bytes:
        """Return an object in msgpack."""
        return e.encode(view)

    def key(self, key: str) -> str:
        """Return the key unchanged."""
        return key

    def text(self, text: str) -> str:
        """Return the text unchanged."""
        return text


class LogRecorder(Journal):
    """Writes the calls of a `strato.scheduler.cache.journal.Journal` as entries of a log.

    Args:
        files: The files of the log.
        hiding: Hides names; None leaves them readable.
        snapshot_bytes: See `SNAPSHOT_BYTES`.
        origin: `strato.sim.recording.entries.SCHEDULER` or ``CLUSTER``.
    """

    def __init__(
        self,
        files: LogFiles,
        clock: Clock,
        *,
        hiding: Hiding | None = None,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        origin: str = e.SCHEDULER,
    ) -> None:
        self._files = files
        self._clock = clock
        self._origin = origin
        self._hiding: Hiding = hiding or Plain()
        self._is_anonymised = hiding is not None
        self._snapshot_bytes = snapshot_bytes
        self._since_snapshot = 0
        self._at = -1.0
        self._began: e.Began | None = None
        self._config = ("", "")
        self._cycles = 0
        self._snapshots = 0
        self._latest: dict[int, dict[tuple[str, str], Object]] = {number: {} for number in KIND_NUMBERS.values()}
        self._binding: dict[str, str] = {}
        self._leaving: dict[str, tuple[str, str]] = {}
        self._held: dict[str, None] = {}
        self._parts: Iterator[tuple[int, Object]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.failure = ""
        """Why the recording has ended; empty while it goes on."""

    # -- the journal -----------------------------------------------------------------------------------------------

    def begin(self, beginning: Beginning) -> None:
        """Record that a scheduler starts with an empty World."""
        version, state, gauss = beginning.rng or (0, (), None)
        self._config = beginning.config, str(beginning.base)
        self._began = e.Began(
            format=e.FORMAT,
            origin=self._origin,
            continues=False,
            at=self._clock.now(),
            anonymised=self._is_anonymised,
            strato=__version__,
            names=tuple(beginning.names),
            default_queue=beginning.default_queue,
            shard_mode=beginning.shard_mode,
            shard_name=beginning.shard_name,
            agent_shard=beginning.agent_shard,
            flow_loaded=beginning.flow_loaded,
            config=beginning.config,
            base=str(beginning.base),
            rng=(version, state, gauss) if beginning.rng else None,
        )
        for views in self._latest.values():
            views.clear()
        self._write(lambda: e.encode(self._began), begins=True)

    def take(self, kind: Kind, view: Object) -> None:
        """Record that the World takes a new or changed object."""
        number = KIND_NUMBERS[kind]
        meta = view.metadata
        self._latest[number][meta.namespace, meta.name] = view
        if kind is catalog.POD:
            self._on_pod(view)
        self._write(lambda: _with_body(b"t", number, self._hiding.body(view)))

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        """Record that the World drops an object."""
        number = KIND_NUMBERS[kind]
        self._latest[number].pop((namespace, name), None)
        if kind is catalog.POD:
            self._forget(f"{namespace}/{name}")
        hide = self._hiding.text
        self._write(lambda: e.encode(e.Dropped(number, hide(namespace), hide(name))))

    def unbind(self, key: str) -> None:
        """Record that the bind of a pod failed."""
        self._binding.pop(key, None)
        self._write(lambda: e.encode(e.Unbound(self._hiding.key(key))))

    def hold(self, key: str) -> None:
        """Record that a pod is left out of decisions."""
        self._held[key] = None
        self._write(lambda: e.encode(e.Held(self._hiding.key(key))))

    def release(self, key: str) -> None:
        """Record that a held pod takes part in decisions again."""
        self._held.pop(key, None)
        self._write(lambda: e.encode(e.Released(self._hiding.key(key))))

    def refuse_eviction(self, key: str, uid: str, now: float) -> None:
        """Record that a victim stays."""
        self._leaving.pop(key, None)
        self._write(lambda: e.encode(e.EvictionRefused(self._hiding.key(key), self._hiding.text(uid), now)))

    def reopen(self) -> None:
        """Record that a cycle became due although no object changed."""
        self._write(lambda: e.encode(e.Reopened()))

    def load_flow(self) -> None:
        """Record that the kernels of the action flow are loaded."""
        self._write(lambda: e.encode(e.FlowLoaded()))

    def measure(self, usages: Usages) -> None:
        """Record the usage of nodes."""

        def entry() -> bytes:
            found = {self._hiding.text(name): (dict(u.cpu), dict(u.memory), u.at) for name, u in usages.by_node.items()}
            return e.encode(e.Measured(usages.interval_seconds, found))

        self._write(entry)

    def repair(self) -> None:
        """Record that the self-audit corrected sums."""
        self._write(lambda: e.encode(e.Repaired()))

    def reply(self, where: str, body: bytes, reply: Reply) -> None:
        """Record the reply to a question. A log with hidden names has none, as the text of a reply may hold names."""
        if not self._is_anonymised:
            digest = question_of(where, body).digest
            self._write(lambda: e.encode(e.Replied(where, digest, reply.text, reply.problem, reply.seconds)))

    def configure(self, text: str, base: Path) -> None:
        """Record a new configuration."""
        self._config = text, str(base)
        self._write(lambda: e.encode(e.Configured(text, str(base))))

    def cycle(self, now: float, plan: Plan) -> None:
        """Record the decisions of a cycle."""
        binds = [(bind.task.key, bind.node) for bind in plan.binds]
        evictions = [e.Evicted(v.task.key, v.beneficiary, v.action, v.reason, v.moves_to) for v in plan.evictions]
        uids = {v.task.key: v.task.uid for v in plan.evictions}
        phases = [(status.job.key, status.phase) for status in plan.groups]
        self.decided(now, binds, evictions, uids, phases, [*plan.admitted], [*plan.pipelined.items()])

    def decided(
        self,
        now: float,
        binds: list[tuple[str, str]],
        evictions: list[e.Evicted],
        uids: dict[str, str],
        phases: list[tuple[str, str]],
        admitted: list[str],
        promised: list[tuple[str, str]],
    ) -> None:
        """Record decisions, of a cycle or as observed from outside; begin a new file or a snapshot if it is due."""
        self._cycles += 1
        key, text = self._hiding.key, self._hiding.text
        entry = e.Cycle(
            number=self._cycles,
            at=now,
            binds=tuple([(key(pod), text(node)) for pod, node in binds]),
            evictions=tuple(
                [
                    e.Evicted(key(v.pod), key(v.beneficiary), v.action, text(v.reason), text(v.moves_to))
                    for v in evictions
                ]
            ),
            phases=tuple([(key(job), phase) for job, phase in phases]),
            admitted=tuple([key(pod) for pod in admitted]),
            promised=tuple([(key(pod), text(node)) for pod, node in promised]),
        )
        self._binding.update(binds)
        self._leaving.update({v.pod: (uids.get(v.pod, ""), v.beneficiary) for v in evictions})
        self._write(lambda: e.encode(entry))
        if self._files.is_full:
            self._begin_file()
        elif self._since_snapshot >= self._snapshot_bytes:
            self._begin_snapshot()

    def close(self) -> None:
        """Write the entries that are buffered and close the files; later calls record nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.failure:
            try:
                self._files.close()
            except OSError as error:
                self._fail(error)
            self.failure = self.failure or "closed"

    # -- binds and evictions in progress ---------------------------------------------------------------------------

    def _on_pod(self, view: Any) -> None:
        """Forget binds and evictions in progress that a pod from the API shows to be done."""
        if not (self._binding or self._leaving):
            return
        meta = view.metadata
        key = f"{meta.namespace}/{meta.name}"
        if view.spec.node_name:
            self._binding.pop(key, None)
        if meta.deletion_timestamp is not None or view.is_finished:
            self._leaving.pop(key, None)

    def _forget(self, key: str) -> None:
        self._binding.pop(key, None)
        self._leaving.pop(key, None)
        self._held.pop(key, None)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _begin_file(self) -> None:
        """Begin a new file, with a `Began` and a snapshot so that it can be read alone."""
        assert self._began is not None
        try:
            self._files.next_file()
        except OSError as error:
            self._fail(error)
            return
        text, base = self._config
        began = msgspec.structs.replace(
            self._began, continues=True, at=self._clock.now(), config=text, base=base, rng=None
        )
        self._write(lambda: e.encode(began), begins=True)
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        """Begin a snapshot of the present objects; `_write_parts` writes them step by step, with later entries."""
        self._since_snapshot = 0
        self._snapshots += 1
        now = self._clock.now()
        key, text = self._hiding.key, self._hiding.text
        config, base = self._config
        entry = e.SnapshotBegan(
            number=self._snapshots,
            at=now,
            cycle=self._cycles,
            config=config,
            base=base,
            binding=tuple([(key(pod), text(node)) for pod, node in self._binding.items()]),
            leaving=tuple([(key(pod), text(uid), key(by)) for pod, (uid, by) in self._leaving.items()]),
            held=tuple([key(pod) for pod in self._held]),
        )
        self._parts = None  # gives up an earlier snapshot that was not finished
        self._write(lambda: e.encode(entry), snapshot=True)
        self._parts = iter([(number, view) for number, views in self._latest.items() for view in views.values()])

    def _write_parts(self, count: int) -> None:
        parts = self._parts
        for _ in range(count if parts is not None else 0):
            part = next(parts, None) if parts is not None else None
            if part is None:
                self._parts = None
                self._files.add(e.encode(e.SnapshotEnded(self._snapshots)), self._at)
                return
            number, view = part
            self._files.add(_with_body(b"p", number, self._hiding.body(view)), self._at)

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write(self, entry: Callable[[], bytes], *, begins: bool = False, snapshot: bool = False) -> None:
        if self.failure:
            return
        try:
            now = self._clock.now()
            if begins or snapshot:
                self._files.flush()  # so that the entry begins a frame, whose flags tell readers of it
            elif now != self._at:
                self._files.add(e.encode(e.Instant(now)), now)
            self._at = now
            body = entry()
            self._since_snapshot += len(body)
            self._files.add(body, now, begins=begins, snapshot=snapshot)
            if self._parts is not None:
                self._write_parts(_PARTS)
            self._flush_later()
        except Exception as error:  # an error must not reach the scheduler
            self._fail(error)

    def _flush_later(self) -> None:
        if self._timer is not None or not self._files.buffered:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without an event loop there is no timer: a full frame or `close` writes the entries
        self._timer = loop.call_later(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if self.failure:
            return
        try:
            self._write_parts(_PARTS_PER_FLUSH)
            self._files.flush()
        except Exception as error:
            self._fail(error)
        else:
            if self._parts is not None:
                self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    def _fail(self, error: Exception) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        self._parts = None
        _log.error("recording has ended, scheduling goes on: %s", self.failure)


def _with_body(tag: bytes, number: int, body: bytes) -> bytes:
    """Return an encoded entry that holds an object: ``[tag, number, body]``."""
    return b"\x93\xa1" + tag + number.to_bytes(1, "big") + body
