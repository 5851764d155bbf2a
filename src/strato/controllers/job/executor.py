"""Carries out plans: sends the calls of several jobs together, and gives each plan the answers to its calls.

In the API server's process a batch of similar calls costs much less than single calls (`Cluster.at_once` is the size of
a batch). Over a network `at_once` is 1: each call is a request of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any

from strato.client.cluster import Cluster, Deletion, Patch
from strato.clock import Clock
from strato.controllers.job.calls import Call, Compute, Create, Delete, Get, PatchCall, Plan, Set, T
from strato.controllers.parallel import for_each, off_loop

CONCURRENT_CALLS = 32
"""Calls, or batches of them, in flight for all plans: enough to keep an API server busy. More would only wait there,
each on a connection of its own, whose TLS handshake costs the server more than a request."""


class Executor:
    """See the module."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._in_flight = asyncio.Semaphore(CONCURRENT_CALLS)
        self.batch = cluster.at_once
        """Most similar calls in a batch."""

    async def run(self, plans: Sequence[Plan[T]]) -> list[T | Exception]:
        """Carry out plans side by side, in rounds: each sends the calls that the plans have yielded.

        Returns what each plan returned, or the exception that it raised.
        """
        results: list[Any] = [None] * len(plans)
        answers: dict[int, Sequence[Any] | None] = dict.fromkeys(range(len(plans)))
        try:
            while answers:
                asked: dict[int, Sequence[Call]] = {}
                for number, answer in answers.items():
                    try:
                        asked[number] = plans[number].send(answer)  # type: ignore[arg-type] # None starts it
                    except StopIteration as stop:
                        results[number] = stop.value
                    except Exception as error:
                        results[number] = error
                answers = await self._round(asked)
        finally:
            for plan in plans:
                plan.close()
        return results

    async def _round(self, asked: dict[int, Sequence[Call]]) -> dict[int, Sequence[Any] | None]:
        if not asked:
            return {}
        found = iter(await self._send([call for calls in asked.values() for call in calls]))
        return {number: [next(found) for _ in calls] for number, calls in asked.items()}

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        answers: list[Any] = [None] * len(calls)
        by_key: dict[Hashable, list[int]] = {}
        for position, call in enumerate(calls):
            by_key.setdefault(_batch_key(call, position), []).append(position)
        batches = [
            some[start : start + self.batch] for some in by_key.values() for start in range(0, len(some), self.batch)
        ]

        async def send(batch: list[int]) -> None:
            try:
                async with self._in_flight:
                    found = await self._send_batch([calls[position] for position in batch])
            except Exception as error:
                found = [error] * len(batch)
            for position, answer in zip(batch, found, strict=True):
                answers[position] = answer

        await for_each(batches, send, CONCURRENT_CALLS)
        return answers

    async def _send_batch(self, calls: Sequence[Any]) -> Sequence[Any]:
        """Send calls with the same `_batch_key`."""
        first, cluster = calls[0], self._cluster
        match first:
            case Create():
                found = await cluster.create_all(first.kind, [call.body for call in calls], first.namespace)
                for call, answer in zip(calls, found, strict=True):
                    if call.on_answer is not None:
                        call.on_answer(answer)
                return found
            case Set(kind, _, _, _, patch_type, subresource):
                return await cluster.patch_all(kind, _patches(calls), patch_type=patch_type, subresource=subresource)
            case PatchCall(view, _, _, _, patch_type, subresource):
                return await cluster.change_all(view, _patches(calls), patch_type=patch_type, subresource=subresource)
            case Delete():
                deletions = [Deletion(call.namespace, call.name, call.uid) for call in calls]
                return await cluster.delete_all(first.view, deletions)
            case Get(view, namespace, name):
                return [await cluster.get(view, name, namespace)]
            case Compute(work):
                return [await off_loop(self._clock, work)]
        raise TypeError(f"no call: {first!r}")


def _patches(calls: Sequence[Set | PatchCall]) -> list[Patch]:
    return [Patch(call.namespace, call.name, call.body) for call in calls]


def _batch_key(call: Call, position: int) -> Hashable:
    """Return the key of the batch that a call may be sent in; most kinds of call are sent by themselves."""
    match call:
        case Create(kind, namespace):
            return Create, kind, namespace
        case Set(what, _, _, _, patch_type, subresource) | PatchCall(what, _, _, _, patch_type, subresource):
            return type(call), what, patch_type, subresource
        case Delete(view):
            return Delete, view
    return position
