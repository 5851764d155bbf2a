"""Base class of handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from strato.agent.events import Action, ContainerEvent, HostEvent


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a handler that has none."""


class Handler:
    """Decides on events of one node. The agent creates one instance per handler and keeps it until the policy changes.

    Args:
        options: The policy's options, as an instance of the class of `defaults`.
        random: Seeded generator for the handler's draws.

    A handler that raises is skipped for the round. It must not wait, read files or call the API; it only returns
    actions.
    """

    name: ClassVar[str] = ""
    """Key of the handler under ``handlers`` in the policy."""
    defaults: ClassVar[Any] = NoOptions()
    """Default options: an instance of a frozen dataclass with a default and a docstring for each field."""

    is_usual: ClassVar[bool] = True
    """Whether it is on if the policy does not name it. A named one is on unless ``enabled`` is false."""

    def __init__(self, options: Any, random: Random) -> None:
        self.options = options
        self.random = random

    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        """Return actions on one container; called for each container, after `on_host`."""
        return ()

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Return actions on the host and its containers, which are in the event."""
        return ()

    def may_skip(self) -> bool:
        """Return whether rounds with the same events as the last one may be skipped.

        True only if such rounds would neither return actions nor change state that later decisions read. Simulations
        call this after each round; a node's agent never skips rounds.
        """
        return False
