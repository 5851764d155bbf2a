"""Which queues there are: those files declare, those that applications made, and what a reload makes of them (A9)."""

from __future__ import annotations

from strato.interop.yarn.fair.allocation import ROOT, Allocations, parent_of
from strato.interop.yarn.fair.policies import Policy
from strato.interop.yarn.fair.tree import FairQueue, QueueTree


class Catalogue:
    """Adds queues to a tree and takes them out.

    Args:
        tree: The tree; only its root is there.
        allocations: The allocation file.
    """

    def __init__(self, tree: QueueTree, allocations: Allocations) -> None:
        self.tree = tree
        self.allocations = allocations
        self._postponed: dict[str, bool] = {}
        """Queues that a file wants as leaf (true) or parent, where one of the other type still has applications."""
        self.reload(allocations)

    # -- applications --------------------------------------------------------------------------------------------------

    def leaf(self, name: str, *, steady: bool = True) -> FairQueue | None:
        """Return a leaf queue by its full name, made when it is not there; None when that is not possible.

        Args:
            name: Its full name.
            steady: Whether steady shares are wanted; they change with every queue that is made.
        """
        queue = self.tree.queues.get(name)
        if queue is None:
            queue = self._create(name, is_leaf=True)
            if queue is not None and steady:
                self.tree.update_steady_shares()
        return queue if queue is not None and queue.is_leaf else None

    def is_configured(self, name: str) -> bool:
        """Return whether there is such a queue and a file declares it."""
        queue = self.tree.queues.get(name)
        return queue is not None and not queue.dynamic

    def is_leaf(self, name: str) -> bool:
        """Return whether there is such a queue and it is a leaf."""
        queue = self.tree.queues.get(name)
        return queue is not None and queue.is_leaf

    def _create(self, name: str, *, is_leaf: bool) -> FairQueue | None:
        """Make a queue and the parents it lacks; None when a leaf is among them or a policy is not allowed."""
        missing = []
        above = name
        while above not in self.tree.queues:
            missing.append(above)
            above = parent_of(above)
            if not above:
                return None
        parent = self.tree.queues[above]
        if parent.is_leaf:
            return None
        for path in reversed(missing):
            settings = self.allocations.settings_of(path)
            leaf = is_leaf and path == name
            if not parent.policy.allows_child(settings.policy) or (settings.policy is Policy.FIFO and not leaf):
                return None
            queue = self.tree.add_queue(settings, is_leaf=leaf)
            self._limit_undeclared(queue)
            parent = queue
        return parent

    def _limit_undeclared(self, queue: FairQueue) -> None:
        if queue.name not in self.allocations.queues and queue.parent is not None:
            given = queue.parent.settings.max_child
            if given is not None:
                queue.limit = given

    # -- reloads -------------------------------------------------------------------------------------------------------

    def reload(self, allocations: Allocations) -> None:
        """Take over another file: its queues are made, others become dynamic, settings hold at once."""
        self.allocations = allocations
        for queue in self.tree.queues.values():
            if queue.name not in allocations.queues and queue.name != ROOT:
                queue.dynamic = True
        self._set_policies(self.tree.root)
        self._postponed = {}
        for is_leaf in (True, False):
            for name, declared in allocations.queues.items():
                if declared.is_parent != is_leaf and name != ROOT:
                    self._ensure(name, is_leaf=is_leaf)
        for queue in list(self.tree.queues.values()):
            queue.configure(allocations.settings_of(queue.name))
            self._limit_undeclared(queue)

    def _set_policies(self, queue: FairQueue) -> bool:
        """Set policies from the bottom up; where one is not allowed, it and what is above stay as they were."""
        policy = self.allocations.settings_of(queue.name).policy
        for child in queue.children:
            allowed = policy.allows_child(self.allocations.settings_of(child.name).policy)
            if not allowed or not self._set_policies(child):
                return False
        queue.policy = policy
        return True

    def _ensure(self, name: str, *, is_leaf: bool) -> None:
        """Let a queue exist as a leaf or a parent, or note that it has to wait until another one is empty."""
        if not self._make_way(name, is_leaf=is_leaf):
            self._postponed[name] = is_leaf
            return
        queue = self.tree.queues.get(name) or self._create(name, is_leaf=is_leaf)
        if queue is not None:
            queue.dynamic = False

    def _make_way(self, name: str, *, is_leaf: bool) -> bool:
        """Remove what is in a queue's way if it is empty, and return whether nothing is left in it."""
        queue = self.tree.queues.get(name)
        if queue is not None:
            return queue.is_leaf == is_leaf or self._remove_if_empty(queue)
        above = parent_of(name)
        while above:
            queue = self.tree.queues.get(above)
            if queue is not None and queue.is_leaf:
                return self._remove_if_empty(queue)
            above = parent_of(above)
        return True

    def _remove_if_empty(self, queue: FairQueue) -> bool:
        if not queue.is_empty or queue.name == ROOT:
            return False
        self.tree.remove_queue(queue)
        return True

    def clean(self) -> None:
        """Remove dynamic queues without applications; make what had to wait for others to become empty."""
        for queue in sorted(self.tree.queues.values(), key=lambda queue: -queue.name.count(".")):
            if queue.dynamic and queue.is_empty and not queue.children:
                self.tree.remove_queue(queue)
        for name, is_leaf in list(self._postponed.items()):
            if self._make_way(name, is_leaf=is_leaf):
                if name not in self.tree.queues:
                    made = self._create(name, is_leaf=is_leaf)
                    if made is not None:
                        made.dynamic = False
                del self._postponed[name]
