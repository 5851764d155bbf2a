"""A local, indexed copy of a collection, which a watch keeps current.

An `Informer` holds the last known state of every object of a view and notifies its handlers of each change as
``Change(old, new)``, where ``old`` is exactly the object it held before. Handlers are plain functions; the informer
calls them in order on the loop's thread, once the whole batch is in its copy, and they must be cheap. `Informers`
shares one informer per view and selector among all parts of a process, so that a watch event is decoded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar, cast

from strato.api.catalog import kind_of
from strato.api.kinds import Kind
from strato.api.meta import Key, Object
from strato.client.cluster import Cluster, EventType, WatchEvent
from strato.client.reflector import Reflector
from strato.clock import Clock
from strato.errors import InvariantError

V = TypeVar("V", bound=Object)


class Change(NamedTuple, Generic[V]):
    """One object added (``old`` is None), changed, or deleted (``new`` is None)."""

    old: V | None
    new: V | None

    @property
    def object(self) -> V:
        """The new object, or the last known state of a deleted one."""
        if self.new is not None:
            return self.new
        assert self.old is not None, "a change has an object"
        return self.old

    @property
    def key(self) -> Key:
        """Namespace and name."""
        new = self.new
        return new.metadata.key if new is not None else self.object.metadata.key


Handler = Callable[[Change[V]], None]
BatchHandler = Callable[[Sequence[Change[V]]], None]
Selection = Callable[[Sequence[Change[V]]], Sequence[Change[V]]]
"""Selects from a batch the changes that a handler wants, in order. It must be cheap and have no side effects."""
IndexFunction = Callable[[V], Iterable[str]]
_new = tuple.__new__
_BOOKMARK, _DELETED = EventType.BOOKMARK, EventType.DELETED
_Changes = list[Change[V]]
_Pair = tuple[str, str]
"""Namespace and name; equal to a `Key` with the same hash, and made in a fifth of the time."""


class _Index(Generic[V]):
    """Objects by the values that the index function returns for them."""

    def __init__(self, values_of: IndexFunction[V]) -> None:
        self._values_of = values_of
        self._members: dict[str, dict[_Pair, V]] = {}

    def update(self, key: _Pair, old: V | None, new: V | None) -> None:
        after = tuple(self._values_of(new)) if new is not None else ()
        if old is not None:
            for value in self._values_of(old):
                if value not in after:
                    self._remove(value, key)
        for value in after:
            members = self._members.get(value)
            if members is None:
                members = self._members[value] = {}
            members[key] = cast(V, new)

    def _remove(self, value: str, key: _Pair) -> None:
        members = self._members.get(value)
        if members is None:
            return
        members.pop(key, None)
        if not members:
            del self._members[value]

    def members(self, value: str) -> list[V]:
        return list(self._members.get(value, {}).values())

    def fewest(self, values: Iterable[str]) -> list[V]:
        return list(min((self._members.get(value, {}) for value in values), key=len, default={}).values())

    def values(self) -> list[str]:
        return list(self._members)


class Informer(Generic[V]):
    """The current objects of one view (see the module).

    Args:
        namespace: One namespace; empty is all.
        label_selector: Only objects that match it.
        field_selector: Only objects that match it.
        is_absent: Whether the cluster lacks the kind: the informer reads nothing, stays empty and counts as synced.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: type[V],
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        is_absent: bool = False,
    ) -> None:
        self.view = view
        self._is_absent = is_absent
        self._reflector = Reflector(
            cluster,
            view,
            self,
            clock,
            random,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._objects: dict[_Pair, V] = {}
        self._index_functions: dict[str, IndexFunction[V]] = {}
        self._indexes: dict[str, _Index[V]] = {}
        """The indexes that have been read; an index is built when it is first read, as many never are."""
        self._handlers: list[BatchHandler[V]] = []
        self._by_owner: dict[tuple[str, str], list[Handler[V]]] = {}
        self._resource_version = ""
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Reading

    def get(self, key: tuple[str, str]) -> V | None:
        """Return an object by `Key`, or by a plain (namespace, name) pair."""
        return self._objects.get(key)

    def list(self) -> Sequence[V]:
        """Return all objects, in the order in which the informer first saw them."""
        return list(self._objects.values())

    def index(self, name: str, value: str) -> Sequence[V]:
        """Return the objects that an index holds under a value."""
        return self._index(name).members(value)

    def index_fewest(self, name: str, values: Collection[str]) -> Sequence[V]:
        """Return the objects of that one of ``values`` under which the index has fewest; none without values.

        An object that has all of the values is among them, so a caller can search these instead of each value's.
        """
        return self._index(name).fewest(values) if values else ()

    def index_values(self, name: str) -> Sequence[str]:
        """Return the values of an index that have objects."""
        return self._index(name).values()

    def _index(self, name: str) -> _Index[V]:
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = _Index(self._index_functions[name])
            for key, item in self._objects.items():
                index.update(key, None, item)
        return index

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._objects

    @property
    def resource_version(self) -> str:
        """The revision of the copy; empty before the first list."""
        return self._resource_version

    @property
    def synced(self) -> bool:
        """Whether the first list has arrived and its handlers have run."""
        return self._synced.is_set()

    # Wiring

    def add_index(self, name: str, values_of: IndexFunction[V]) -> None:
        """Define an index by the values that ``values_of`` returns; a name that is already defined keeps its function.

        The index is built when it is read for the first time.
        """
        self._index_functions.setdefault(name, values_of)

    def add_handler(self, on_change: Handler[V], *, among: Selection[V] | None = None) -> None:
        """Call ``on_change`` for every change, and at once for the objects already known, as added.

        Most handlers ignore most changes. ``among`` selects the changes of a whole batch that the handler wants, at
        a tenth of the cost of calling it for each change.
        """

        def on_batch(changes: Sequence[Change[V]]) -> None:
            for change in changes if among is None else among(changes):
                try:
                    on_change(change)
                except Exception as error:  # a failure on one object must not keep the handler from the next
                    _report(error, f"a handler of {self.view.__name__} failed on {change.key}")

        self.add_batch_handler(on_batch)

    def add_owned_handler(self, owner: Kind, on_change: Handler[V]) -> None:
        """Call ``on_change`` for every change of an object whose controller owner is of kind ``owner``.

        The informer looks up an object's owner once per change, however many kinds have handlers. ``on_change`` is
        also called at once for the objects already known, as added.
        """
        if not self._by_owner:
            self._handlers.append(self._notify_owners)
        key = owner.api_version, owner.name
        self._by_owner.setdefault(key, []).append(on_change)
        known = [Change(None, item) for item in self._objects.values()]
        self._notify_managed(known, {key: [on_change]})

    def _notify_owners(self, changes: Sequence[Change[V]]) -> None:
        self._notify_managed(changes, self._by_owner)

    def _notify_managed(
        self, changes: Sequence[Change[V]], handlers: Mapping[tuple[str, str], Sequence[Handler[V]]]
    ) -> None:
        for change in changes:
            old, new = change
            owners = (new if new is not None else cast(V, old)).metadata.owner_references
            if not owners:
                continue
            owner = owners[0]
            if not owner.controller:
                others = [other for other in owners if other.controller]
                if not others:
                    continue
                owner = others[0]
            for on_change in handlers.get((owner.api_version, owner.kind), ()):
                try:
                    on_change(change)
                except Exception as error:  # a failure on one object must not keep the handler from the next
                    _report(error, f"a handler of {self.view.__name__} failed on {change.key}")

    def add_batch_handler(self, on_changes: BatchHandler[V]) -> None:
        """Call ``on_changes`` with each batch of changes; never with an empty one."""
        self._handlers.append(on_changes)
        if self._objects:
            self._notify(on_changes, [Change(None, item) for item in self._objects.values()])

    # Running

    def start(self) -> None:
        """Start the reflector on the running loop; no effect if it runs already."""
        if self._is_absent:
            self._synced.set()
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._reflector.run(), name=f"informer {self.view.__name__}"
            )
            self._task.add_done_callback(self._on_end)

    async def wait_synced(self) -> None:
        """Wait for the first list.

        Raises:
            InvariantError: The informer has not been started, or has stopped.
        """
        if self._synced.is_set():
            return
        task = self._task
        if task is None:
            raise InvariantError(f"the informer of {self.view.__name__} is awaited before it was started")
        waiting = asyncio.ensure_future(self._synced.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._synced.is_set():
            raise InvariantError(f"the informer of {self.view.__name__} stopped before its first list")

    async def stop(self) -> None:
        """Stop the reflector and wait for its end. The copy stays readable."""
        task = self._task
        self.cancel()
        if task is not None:
            await asyncio.wait((task,))

    def cancel(self) -> None:
        """Stop the reflector without waiting for its end."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _report(error, f"the informer of {self.view.__name__} stopped")

    # Sink of the reflector

    def replace(self, objects: Sequence[V], resource_version: str) -> None:
        """Replace the copy by a whole list, and notify handlers of the differences."""
        fresh = {(item.metadata.namespace, item.metadata.name): item for item in objects}
        changes = self._taken_first(fresh) if not self._objects else self._taken_over(fresh)
        self._finish(changes, resource_version)
        self._synced.set()

    def _taken_first(self, fresh: dict[_Pair, V]) -> _Changes[V]:
        self._objects = fresh
        self._indexes.clear()  # rebuilt when next read: indexing a large list costs time, and most are never read
        return [Change(None, item) for item in fresh.values()]

    def _taken_over(self, fresh: dict[_Pair, V]) -> _Changes[V]:
        changes: list[Change[V]] = []
        for key in [key for key in self._objects if key not in fresh]:
            self._set(key, None, changes)
        for key, item in fresh.items():
            old = self._objects.get(key)
            if old is not None:
                if old.metadata.uid != item.metadata.uid:
                    self._set(key, None, changes)  # deleted and created anew between the last watch and this list
                elif old.metadata.resource_version == item.metadata.resource_version:
                    continue
            self._set(key, item, changes)
        return changes

    def apply(self, events: Sequence[WatchEvent[V]], resource_version: str) -> None:
        """Apply a batch of watch events to the copy, and notify handlers."""
        changes: list[Change[V]] = []
        objects, indexes = self._objects, self._indexes
        for event in events:
            item, type_ = event.object, event.type
            if type_ is _BOOKMARK:
                continue
            metadata = item.metadata
            key = metadata.namespace, metadata.name
            if indexes or type_ is _DELETED:
                self._set(key, None if type_ is _DELETED else item, changes)
            else:
                changes.append(_new(Change, (objects.get(key), item)))  # costs half of `Change(…)`
                objects[key] = item
        self._finish(changes, resource_version)

    def _set(self, key: _Pair, new: V | None, changes: _Changes[V]) -> None:
        objects = self._objects
        if new is None:
            old = objects.pop(key, None)
            if old is None:
                return  # a deletion of an object that the informer never had
        else:
            old = objects.get(key)
            objects[key] = new
        for index in self._indexes.values():
            index.update(key, old, new)
        changes.append(Change(old, new))

    def _finish(self, changes: _Changes[V], resource_version: str) -> None:
        self._resource_version = resource_version
        if changes:
            for handler in self._handlers:
                self._notify(handler, changes)

    def _notify(self, handler: BatchHandler[V], changes: Sequence[Change[V]]) -> None:
        try:
            handler(changes)
        except Exception as error:  # a failure of one handler must not keep the others from the batch
            _report(error, f"a handler of {self.view.__name__} failed")


class Informers:
    """Shares one informer per view and selector.

    Args:
        cluster: Where the informers read.
        clock: Times the reflectors' retries.
        random: Jitters the reflectors' delays.
        absent: Kinds that the cluster lacks on purpose; their informers stay empty.
    """

    def __init__(self, cluster: Cluster, clock: Clock, random: Random, *, absent: Collection[Kind] = ()) -> None:
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self.absent = frozenset(absent)
        """Kinds that the cluster lacks."""
        self._informers: dict[tuple[type[Object], str, str, str], Informer[Any]] = {}

    def informer(
        self, view: type[V], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Informer[V]:
        """Return the shared informer of a view and selectors, made on first use; `start` starts it."""
        key = (view, namespace, label_selector, field_selector)
        known = self._informers.get(key)
        if known is None:
            known = self._informers[key] = Informer(
                self._cluster,
                view,
                self._clock,
                self._random,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                is_absent=bool(self.absent) and kind_of(view) in self.absent,
            )
        return cast("Informer[V]", known)

    def drop(self, informer: Informer[Any]) -> None:
        """Stop an informer and share it no longer; its copy stays readable."""
        for key in [key for key, known in self._informers.items() if known is informer]:
            del self._informers[key]
        informer.cancel()

    def start(self) -> None:
        """Start every informer that does not run yet; call again after `informer` has made more."""
        for informer in list(self._informers.values()):
            informer.start()

    async def wait_synced(self) -> None:
        """Start every informer that does not run yet, and wait until all have their first list."""
        self.start()
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    async def stop(self) -> None:
        """Stop all informers."""
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))


def _report(error: BaseException, message: str) -> None:
    """Pass a bug to the loop's exception handler, which logs it in production and fails a test."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
