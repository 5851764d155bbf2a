"""The harness for handlers passes ours and finds each broken rule."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strato.agent.events import Action, ActionKind, ContainerEvent, HostEvent
from strato.agent.handlers import Handler
from strato.agent.handlers.suppress import SuppressOptions
from strato.agent.registry import BUILT_IN
from strato.testing.agent import BrokenPromise, check


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=BUILT_IN)
@pytest.mark.parametrize("seed", range(5))
def test_our_handlers_hold_it(kind: type[Handler], seed: int) -> None:
    check(kind, seed=seed)


def test_what_it_wanted_is_returned() -> None:
    assert any(action.kind is ActionKind.SET_QUOTA for action in check(BUILT_IN["suppress"], SuppressOptions(rounds=1)))


def quota(target: str, value: float | None) -> Action:
    return Action(kind=ActionKind.SET_QUOTA, target=target, value=value)


class Raises(Handler):
    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        raise KeyError("pod")


class Invents(Handler):
    def on_host(self, event: HostEvent) -> Sequence[Action]:
        return [quota("uid-99/main", 100)]


class Starves(Handler):
    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        return [quota(event.key, event.used_cores * 1000)]


class Repeats(Handler):
    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        return [quota(event.key, 100), quota(event.key, 200)]


class Empty(Handler):
    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        return [quota(event.key, None)]


class Scribbles(Handler):
    def on_host(self, event: HostEvent) -> Sequence[Action]:
        event.levels.clear()  # type: ignore[attr-defined] # what the rule forbids
        return ()


class Remembers(Handler):
    """Across instances, as a module's own variable does."""

    seen: list[int] = []  # noqa: RUF012 - the fault

    def on_container(self, event: ContainerEvent) -> Sequence[Action]:
        self.seen.append(1)
        return [quota(event.key, 100 + len(self.seen))]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Raises, "it raised KeyError"),
        (Invents, "no container 'uid-99/main' runs"),
        (Starves, "the kernel takes no less than 10"),
        (Repeats, "a second quota of one container"),
        (Empty, "a quota without a value"),
        (Scribbles, "it changed what it was given"),
        (Remembers, "the second time, from one seed"),
    ],
)
def test_a_broken_rule_is_found_with_its_round(kind: type[Handler], words: str) -> None:
    with pytest.raises(BrokenPromise, match=words) as found:
        check(kind)
    assert str(found.value).startswith("round ")
