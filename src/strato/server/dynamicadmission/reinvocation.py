"""Which mutating webhooks and policies are asked a second time about one write.

As in Kubernetes' chain, all that may change an object come once in order: policies, then webhooks. Where any changed
it, those that ask for it (``reinvocationPolicy: IfNeeded``) come once more, if something was changed after they were
asked.
"""

from __future__ import annotations

from collections.abc import Hashable

from strato.server.dynamicadmission.matching import Json


class Reinvocation:
    """What either the webhooks or the policies know of the first round."""

    def __init__(self) -> None:
        self.is_second = False
        self._invoked: set[Hashable] = set()
        self._due: set[Hashable] = set()
        self._output: Json | None = None

    def skips(self, one: Hashable) -> bool:
        """Whether it is the second round, and a webhook or policy need not be asked in it."""
        return self.is_second and one not in self._due

    def begin_second(self, obj: Json | None) -> None:
        """Begin the second round, with an object that others may have changed."""
        self.is_second = True
        if obj != self._output:
            self.changed()

    def changed(self) -> None:
        """Note that the object is another one now for those that were asked about it."""
        self._due |= self._invoked
        self._invoked = set()

    def asked(self, one: Hashable) -> None:
        """Note that a webhook or policy was asked, which wants to see later changes."""
        self._invoked.add(one)

    def end(self, obj: Json | None) -> None:
        """End a round."""
        self._output = obj
