"""Commands that users give to jobs and queues: each is carried out at most once.

A controller deletes a command first and carries it out only if that delete succeeded. If the answer to the delete was
lost and a retry finds the command gone, this process has deleted it, because only the leader works on commands: it
carries the command out. A process that dies between the two steps loses the command.

Source: volcano-controllers A3.
"""

from __future__ import annotations

from collections.abc import Callable

from strato.api.meta import Key
from strato.api.volcano.bus import Command
from strato.client.informer import Change
from strato.client.retry import is_outcome_unknown
from strato.client.workqueue import WorkQueue, run_workers
from strato.controllers.context import ControllerContext
from strato.errors import ApiError, NotFound


class Commands:
    """The commands to objects of one kind.

    Args:
        carry_out: Called with each command once it is deleted; must not fail.
    """

    def __init__(
        self, context: ControllerContext, api_version: str, kind: str, carry_out: Callable[[Command], None]
    ) -> None:
        self._cluster = context.cluster
        self._target = api_version, kind
        self._carry_out = carry_out
        self._queue: WorkQueue[Key] = WorkQueue(context.clock)
        self._unanswered: dict[Key, Command] = {}
        """Commands whose delete was sent but not answered: the server may have deleted them."""
        self._commands = context.informers.informer(Command)
        self._commands.add_handler(self._on_command)

    async def run(self, *, workers: int, name: str) -> None:
        """Work until cancelled."""
        await run_workers(self._queue, self._consume, workers, name=name)

    def _on_command(self, change: Change[Command]) -> None:
        command = change.new
        if command is None or command.target is None:
            return
        if (command.target.api_version, command.target.kind) == self._target:
            self._queue.add(command.key)

    async def _consume(self, key: Key) -> float | None:
        """Delete a command, and only then carry it out.

        A Conflict means that a newer command has this name and the informer has not shown it yet; it is retried.
        """
        unanswered = self._unanswered.pop(key, None)
        command = self._commands.get(key) or unanswered
        if command is None or command.target is None:
            return None
        try:
            await self._cluster.delete(Command, key.name, key.namespace, uid=command.metadata.uid)
        except NotFound:
            if unanswered is None or unanswered.metadata.uid != command.metadata.uid:
                return None  # another process has deleted it and carries it out
        except ApiError as error:
            if is_outcome_unknown(error):
                self._unanswered[key] = command
            raise
        self._carry_out(command)
        return None
