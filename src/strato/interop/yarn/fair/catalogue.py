"""Create and remove queues: declared by a file or created for applications; also on reloads of the file (A9)."""

from __future__ import annotations

from strato.interop.yarn.fair.allocation import ROOT, Allocations, parent_of
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.fair.tree import FairQueue, QueueTree


class Catalogue:
    """Adds queues to a tree and removes them.

    Args:
        tree: The tree, which has only its root yet.
        allocations: The allocation file.
    """

    def __init__(self, tree: QueueTree, allocations: Allocations) -> None:
        self.tree = tree
        self.allocations = allocations
        self._postponed: dict[str, bool] = {}
        """Queues to be created as leaf (true) or parent once the queue of the other type is without applications."""
        self.reload(allocations)

    # -- applications --------------------------------------------------------------------------------------------------

    def leaf(self, name: str, *, steady: bool = True) -> FairQueue | None:
        """Return a leaf queue by its full name, created if it does not exist; None if it cannot be created.

        Args:
            name: Its full name.
            steady: Whether to recompute steady shares when a queue is created.
        """
        queue = self.tree.queues.get(name)
        if queue is None:
            queue = self._create(name, is_leaf=True)
            if queue is not None and steady:
                self.tree.update_steady_shares()
        return queue if queue is not None and queue.is_leaf else None

    def is_configured(self, name: str) -> bool:
        """Return whether the queue exists and the file declares it."""
        queue = self.tree.queues.get(name)
        return queue is not None and not queue.dynamic

    def is_leaf(self, name: str) -> bool:
        """Return whether the queue exists and is a leaf."""
        queue = self.tree.queues.get(name)
        return queue is not None and queue.is_leaf

    def _create(self, name: str, *, is_leaf: bool) -> FairQueue | None:
        """Create a queue and missing parents; None if an ancestor is a leaf or a policy is not allowed there."""
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
            if not parent.policy.allows_child(settings.policy) or (settings.policy is QueuePolicy.FIFO and not leaf):
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
        """Apply a new file: create its queues, mark all others as dynamic, apply settings at once."""
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
        """Set policies from the bottom up; if one is not allowed, that queue and its ancestors keep theirs."""
        policy = self.allocations.settings_of(queue.name).policy
        for child in queue.children:
            allowed = policy.allows_child(self.allocations.settings_of(child.name).policy)
            if not allowed or not self._set_policies(child):
                return False
        queue.policy = policy
        return True

    def _ensure(self, name: str, *, is_leaf: bool) -> None:
        """Create a queue as a leaf or a parent, or postpone that until a queue in its way has no applications."""
        if not self._make_way(name, is_leaf=is_leaf):
            self._postponed[name] = is_leaf
            return
        queue = self.tree.queues.get(name) or self._create(name, is_leaf=is_leaf)
        if queue is not None:
            queue.dynamic = False

    def _make_way(self, name: str, *, is_leaf: bool) -> bool:
        """Remove queues of the wrong type from a queue's path if they are empty; return whether the path is free."""
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
        """Remove dynamic queues without applications; create postponed queues whose path has become free."""
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
