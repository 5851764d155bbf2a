"""The one class that a handler is."""

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
    """Decides on events of one node; the agent makes one of each kind and keeps it for as long as the policy does.

    Args:
        options: What the policy says, read into `defaults`' class.
        random: Seeded.

    A handler that raises is skipped for the round. It must not wait, read files or ask the API: it returns actions.
    """

    name: ClassVar[str] = ""
    """Its key under ``handlers`` in the policy."""
    defaults: ClassVar[Any] = NoOptions()
    """Its options, a frozen dataclass with a default and a docstring for each field, where the policy says nothing."""

    is_usual: ClassVar[bool] = True
    """Whether it is on where the policy does not name it; one that it names is, unless ``enabled`` is false."""

    def __init__(self, options: Any, random: Random) -> None:
        self.options = options
        self.random = random

    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        """Return what to do about one container; called for each after `on_host`."""
        return ()

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Return what to do about the host; its containers are in the event."""
        return ()

    def may_skip(self) -> bool:
        """Return whether rounds may be left out that would show what the last one showed.

        Only where they would ask for nothing and leave nothing behind that is decided upon later. A simulation asks
        after each round; a node's agent leaves none out.
        """
        return False
