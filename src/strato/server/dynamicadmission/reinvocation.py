"""Decide which mutating webhooks and policies are called a second time for one write.

As in Kubernetes, all policies and then all webhooks are called once, in order. If any changed the object, those with
``reinvocationPolicy: IfNeeded`` are called once more, if the object was changed after their first call.
"""

from __future__ import annotations

from collections.abc import Hashable

from strato.server.dynamicadmission.matching import Json


class Reinvocation:
    """The state of the first round, of either the webhooks or the policies."""

    def __init__(self) -> None:
        self.is_second = False
        self._invoked: set[Hashable] = set()
        self._due: set[Hashable] = set()
        self._output: Json | None = None

    def skips(self, one: Hashable) -> bool:
        """Whether this is the second round, and a webhook or policy is not called in it."""
        return self.is_second and one not in self._due

    def begin_second(self, obj: Json | None) -> None:
        """Begin the second round, with an object that the policies or webhooks of the other kind may have changed."""
        self.is_second = True
        if obj != self._output:
            self.changed()

    def changed(self) -> None:
        """Note that the object has changed, so those called so far may be called again."""
        self._due |= self._invoked
        self._invoked = set()

    def asked(self, one: Hashable) -> None:
        """Note the call of a webhook or policy with ``IfNeeded``."""
        self._invoked.add(one)

    def end(self, obj: Json | None) -> None:
        """End a round, and remember its object."""
        self._output = obj
