"""Opens sessions on small worlds and asks single plugins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import yaml

from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.tasks import ALLOCATED
from strato.scheduler.placement.placer import Placer
from strato.scheduler.session import Session

NOW = 1_700_000_000.0


def config(*plugins: dict[str, Any] | str, actions: str = "allocate", **more: Any) -> Config:
    """Return a configuration of one tier."""
    made = [{"name": p} if isinstance(p, str) else p for p in plugins]
    document = {"actions": actions, "tiers": [{"plugins": made}], **more}
    return config_from(document, text=yaml.safe_dump(document))


def session(
    world: World, *plugins: dict[str, Any] | str, now: float = NOW, placer: Placer | None = None, **more: Any
) -> Session:
    """Open a session with one tier of plugins; ``more`` goes to the top of the configuration."""
    chosen = config(*plugins, **more)
    return Session(world, chosen, placer or Placer(world.nodes), now=now, rng=random.Random(0), uid="test")


def task(ssn: Session, name: str, namespace: str = "ns") -> Task:
    return ssn.world.tasks[f"{namespace}/{name}"]


def rows(ssn: Session) -> Rows:
    nodes = ssn.world.nodes
    return nodes.present[: nodes.size].nonzero()[0]


def scores(ssn: Session, name: str, digits: int = 6) -> dict[str, float]:
    """Return the total score of a pod on every node."""
    points = ssn.placer.score_rows(ssn, task(ssn, name), rows(ssn)).tolist()
    return {ssn.world.nodes.names[row]: round(p, digits) for row, p in zip(rows(ssn), points, strict=True)}


def refusals(ssn: Session, name: str) -> dict[str, tuple[str, bool]]:
    """Return per refusing node the first reason's text, and whether it is curable."""
    pod, nodes, out = task(ssn, name), ssn.world.nodes, {}
    answers = [judge(pod.cls, nodes, rows(ssn)) for judge in ssn.answers["filter"]]
    answers += [judge(pod, nodes, rows(ssn)) for judge in (*ssn.answers["filter_facet"], *ssn.answers["filter_task"])]
    for verdicts in answers:
        for row, code in zip(rows(ssn), verdicts.codes if verdicts is not None else (), strict=False):
            if code and verdicts is not None:
                reason = verdicts.reasons[int(code) - 1]
                out.setdefault(nodes.names[row], (reason.text, reason.curable))
    return out


def place(ssn: Session, name: str, node: str) -> None:
    """Give a pod a place, as a statement would."""
    pod, row = task(ssn, name), ssn.world.nodes.row_of[node]
    ssn.world.move(pod, ALLOCATED, row)
    ssn.fire_placed((pod,))


def keys(tasks: Sequence[Task]) -> list[str]:
    return [t.name for t in tasks]
