"""Rounds of Mesos' allocator: all agents free, after few changes, under quota, when everything was refused.

Each round is a batch run over all agents. The second column of seconds is of an allocator that visits every agent in
every round, although nothing of it has changed; its offers have to be the same.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable

from benchmarks.report import publish
from strato.interop.mesos.allocator import Allocator, AllocatorOptions, Offered
from strato.interop.mesos.quota import Quota
from strato.interop.mesos.resourcetext import parse
from strato.interop.mesos.specs import AgentId, AgentSpec, FrameworkId, FrameworkSpec

SEED = 7
FOREVER = 1e9


class Cluster:
    """A cluster, what its rounds offered, and how long they took."""

    def __init__(self, agents: int, frameworks: int, roles: list[str], skip_closed: bool, varied: bool = False) -> None:
        self._varied = varied
        self.allocator = Allocator(AllocatorOptions(skip_closed=skip_closed), random.Random(SEED))
        self.now = 0.0
        self.offered: list[Offered] = []
        self.rounds: dict[str, tuple[float, int]] = {}
        """By name the CPU seconds and the offers of the last round of that name."""
        self.roles = {FrameworkId(f"framework-{n:04}"): roles[n % len(roles)] for n in range(frameworks)}
        self.agents = {AgentId(f"agent-{n:05}"): self._spec(n) for n in range(agents)}
        for agent, spec in self.agents.items():
            self.allocator.add_agent(agent, spec)
        for framework, role in self.roles.items():
            self.allocator.add_framework(framework, FrameworkSpec((role,)))

    def _spec(self, number: int) -> AgentSpec:
        """Return one of two sizes of agents, or a size that no other one has."""
        size = "cpus:8;mem:32768" if number % 3 else "cpus:16;mem:65536"
        if self._varied:
            size = f"cpus:{8 + number % 8192 / 1000:.3f};mem:{32768 + number}"
        return AgentSpec(f"host-{number:05}", parse(f"{size};disk:100000;ports:[31000-32000]"))

    def round(self, name: str) -> Offered:
        self.now += 1.0
        gc.collect()
        began = time.process_time()
        offered = self.allocator.allocate(self.now)
        self.rounds[name] = (time.process_time() - began, len(offered.offers))
        self.offered.append(offered)
        return offered

    def recover(self, offered: Offered, first: int, last: int | None, refuse_seconds: float | None = None) -> None:
        for one in offered.offers[first:last]:
            self.allocator.recover_resources(
                one.framework, one.agent, one.role, one.resources, now=self.now, refuse_seconds=refuse_seconds
            )


def free(cluster: Cluster) -> None:
    first = cluster.round("all free")
    cluster.round("all held")
    cluster.recover(first, 0, 100)
    back = cluster.round("100 came back")
    cluster.recover(first, 100, None)
    rest = cluster.round("all others came back")
    cluster.recover(back, 0, None, 5.0)
    cluster.recover(rest, 0, None, 5.0)
    for number in range(12):  # every framework declines what it is offered, round after round
        declined = cluster.round("all declined for 5 s" if number == 0 else "... twelve times in a row")
        cluster.recover(declined, 0, None, 5.0)


def quota(cluster: Cluster) -> None:
    """Every second role has a guarantee, of which half is met in the first round, and a limit."""
    for role in sorted(set(cluster.roles.values()))[::2]:
        amounts = parse("cpus:1000;mem:4000000").scalars()
        cluster.allocator.set_quota(role, Quota(amounts, {name: 2 * millis for name, millis in amounts.items()}))
    first = cluster.round("all free")
    cluster.recover(first, 0, 100)
    cluster.round("100 came back")


def refused(cluster: Cluster) -> None:
    """Every framework has refused every agent, for ever."""
    for agent, spec in cluster.agents.items():
        holders = dict.fromkeys(cluster.roles.items(), spec.resources)
        cluster.allocator.add_agent(agent, spec, holders)
        for framework, role in cluster.roles.items():
            cluster.allocator.recover_resources(
                framework, agent, role, spec.resources, now=cluster.now, refuse_seconds=FOREVER
            )
    cluster.round("all refused")
    cluster.round("all refused, nothing changed")
    for agent in list(cluster.agents)[:100]:
        cluster.allocator.update_agent(agent, AgentSpec("host", parse("cpus:32;mem:131072;disk:100000")))
    cluster.round("all refused, 100 agents grew")
    cluster.allocator.revive(FrameworkId("framework-0007"))
    cluster.round("all refused, one framework revived")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--frameworks", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="1,000 agents, 50 frameworks")
    given = parser.parse_args()
    agents, frameworks = (1_000, 50) if given.quick else (given.agents, given.frameworks)
    one, many = ["team"], [f"team-{n:03}" for n in range(frameworks)]
    tree = [f"org-{n % 10}/team-{n:03}" for n in range(frameworks)]
    varied = "quota, 20 roles, no two agents alike"
    shapes: list[tuple[str, list[str], Callable[[Cluster], None]]] = [
        ("one role", one, free),
        ("a role each", many, free),
        ("tree of roles", tree, free),
        ("quota, 20 roles", many[:20], quota),
        (varied, many[:20], quota),
        ("one role", one, refused),
        ("a role each", many, refused),
    ]
    rows = []
    for shape, roles, work in shapes:
        clusters = [Cluster(agents, frameworks, roles, skip_closed, shape == varied) for skip_closed in (True, False)]
        for cluster in clusters:
            work(cluster)
        memoised, plain = clusters
        assert memoised.offered == plain.offered, f"{shape}: the offers differ"
        rows += [
            {
                "roles": shape,
                "round": name,
                "seconds": round(seconds, 3),
                "every agent visited": round(plain.rounds[name][0], 3),
                "offers": offers,
            }
            for name, (seconds, offers) in memoised.rounds.items()
        ]
    publish("mesos", rows, f"{agents} agents, {frameworks} frameworks; CPU seconds of one batch run")


if __name__ == "__main__":
    main()
