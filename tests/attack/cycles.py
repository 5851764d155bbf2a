"""Objects that the API accepts and nobody meant, decided on by every plugin and action at once.

``python -m tests.attack.cycles --count N --seed S``. Each round makes a small cluster out of nodes, queues, groups,
pods, budgets, quotas, network domains and devices whose labels, annotations, amounts and rules are ordinary, extreme
or nonsense, and lets the scheduler decide on it in several cycles with a random configuration. What counts as a
finding: a plugin or action that raises and is left out (whoever wrote the object would have switched it off for
everybody), an object that ends the informers' feed, an error out of a cycle, and a cycle that takes more than two
seconds of CPU.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import yaml

from strato.errors import InvalidInput
from strato.scheduler.cache.usage import NodeUsage
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.tasks import BINDING, RUNNING
from strato.scheduler.optimal.loading import load
from strato.scheduler.placement.placer import Placer, warm_up
from strato.scheduler.registry import PLUGINS
from tests.scheduler import worlds

Json = dict[str, Any]
NOW: Final = 1_700_000_000.0
LIMIT_SECONDS: Final = 2.0
DIGITS: Final = "9" * 5000
WORDS: Final = (
    "", "x", "0", "1", "-1", "2", "10", "50%", "-5%", "1e9", "1e400", "nan", "inf", "-inf", "true", "false", "None",
    "null", "[]", "{}", "[" * 3000, '{"a":' * 3000, '{"cpu":1e400}', '{"cpu":-1}', '{"cpu":"x"}', '{"":{}}', "[1]",
    '"cpu"', DIGITS, f"-{DIGITS}", f"0.{DIGITS}", "٣", "²", "½", "1_000", " 1 ", "0x10", "10m", "9h9m", "1e3s",
    "99999999h", "-1h", "a,b", ",", ",,", ":", "::", ";", "a:b,c", "a,b;c,d", "a,b,c,d:e,f", "root", "root/a",
    "root//a", "/", "//", "root/" + "a/" * 2000, "1/x/2", "9" * 400, "*", "a;a", "\u0000", "ü", "/" * 1000,
    "," * 1000, ":" * 1000, "99999999999999999999", "1,,1,1,true,", "u,10,1000,NVIDIA,true,hami-core",
    f"u,{DIGITS},1,NVIDIA,true,hami-core", "u,0,0,NVIDIA,true,hami-core:", "best-effort", "single-numa-node",
    "restricted", '{"0":"0-3"}', '{"0":"0-99999999"}', "LeastAllocated", "MostAllocated", "spread", "binpack",
    '{"cpu": {"type":"MostAllocated","weight":1}}', "2023-11-14T22:13:20Z", "2023-13-99T99:99:99Z", "n0", "q0", "0,1",
    "a=b",
)  # fmt: skip
"""Texts of annotations."""
VALUES: Final = ("", "a", "b", "n0", "n1", "zone-1", "1", "-", "600s", "true", "x" * 63, "q0", "1h")
"""Values of labels: as long as the API lets them be."""
AMOUNTS: Final = (
    "0", "1", "2", "500m", "1n", "1", "3", "1Gi", "64", "1e3", "0.1", "1Ki", "9223372036854775807", "9E", "1e18",
    "1e-9", "100m",
)  # fmt: skip
RESOURCES: Final = (
    "cpu", "memory", "pods", "nvidia.com/gpu", "example.com/x", "ephemeral-storage", "volcano.sh/gpu-memory",
    "volcano.sh/gpu-number", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores",
    "volcano.sh/vgpu-memory-percentage", "hugepages-2Mi", "deviceclass/gpu", "memory.deviceclass/gpu",
)  # fmt: skip
POD_NOTES: Final = (
    "volcano.sh/task-spec", "volcano.sh/task-priority", "volcano.sh/preemptable", "volcano.sh/revocable-zone",
    "volcano.sh/cooldown-time", "volcano.sh/numa-topology-policy", "volcano.sh/resource-strategy-scoring-type",
    "volcano.sh/resource-strategy-weight", "volcano.sh/gpu-index", "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-mode",
    "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid", "volcano.sh/vgpu-podgroup-policy",
    "volcano.sh/topology-decision", "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable",
    "nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "strato.dev/expected-seconds",
    "kubernetes.io/config.mirror", "scheduling.volcano.sh/queue-allocation-gate",
)  # fmt: skip
GROUP_NOTES: Final = (
    "sla-waiting-time", "volcano.sh/sla-waiting-time", "volcano.sh/task-topology-affinity",
    "strato.dev/expected-seconds", "volcano.sh/task-topology-anti-affinity", "volcano.sh/task-topology-task-order",
    "volcano.sh/job-allocated-hypernode", "volcano.sh/preemptable", "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable", "volcano.sh/cooldown-time",
)  # fmt: skip
NODE_NOTES: Final = (
    "volcano.sh/node-vgpu-register", "volcano.sh/gpu-unhealthy-ids", "volcano.sh/oversubscription-cpu",
    "volcano.sh/oversubscription-memory",
)  # fmt: skip
QUEUE_NOTES: Final = (
    "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights", "volcano.sh/nodegroup-resource-limits",
)  # fmt: skip
LABELS: Final = (
    "app", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "volcano.sh/nodegroup-name",
    "volcano.sh/revocable-zone", "volcano.sh/cooldown-time", "volcano.sh/preemptable", "volcano.sh/task-spec",
)  # fmt: skip
ACTIONS: Final = (
    "enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill",
    "allocate, gangpreempt, gangreclaim", "enqueue, flow, backfill", "enqueue, allocate, backfill, shuffle",
    "preempt, reclaim, allocate",
)  # fmt: skip
ARGUMENTS: Final[dict[str, list[Json]]] = {
    "deviceshare": [
        {"deviceshare.VGPUEnable": True},
        {"deviceshare.GPUSharingEnable": True},
        {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"},
    ],
    "tdm": [{"tdm.revocable-zone.a": "00:00-23:59", "tdm.evict.period": "1s"}],
    "usage": [{"thresholds": {"cpu": 50, "mem": 50}}, {"estimator": {"risk_threshold": 0.3}}],
    "rescheduling": [{"interval": "1s", "metricsPeriod": "10m"}],
    "capacity": [{}, {"ancestorReclaimLevel": 2}, {"usageHalfLifeSeconds": 60}],
    "drf": [{}, {"usageHalfLifeSeconds": 60}],
    "proportion": [{}, {"usageHalfLifeSeconds": 60}],
    "nodegroup": [{}, {"strict": False}],
    "sla": [{}, {"sla-waiting-time": "1s"}],
    "binpack": [{"binpack.resources": "nvidia.com/gpu, example.com/x"}],
    "resource-strategy-fit": [{}],
    "overcommit": [{}, {"overcommit-factor": 2.5}],
}


class Maker:
    """Makes the objects of one round."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._strange = rng.choice((0.02, 0.1, 0.5))
        """How much of what may be strange is."""

    def _some(self, names: Sequence[str], most: int, values: Sequence[str]) -> dict[str, str]:
        rng = self._rng
        return {rng.choice(names): rng.choice(values) for _ in range(most) if rng.random() < self._strange}

    def _amounts(self, most: int) -> dict[str, str]:
        return self._some(RESOURCES, most, AMOUNTS)

    def _terms(self) -> list[Json]:
        rng = self._rng
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = [rng.choice(VALUES) for _ in range(rng.randint(1, 3))] if operator in ("In", "NotIn") else []
        expression = {"key": rng.choice(LABELS), "operator": operator, "values": values}
        selector = rng.choice((None, {}, {"matchLabels": {"app": "a"}}, {"matchExpressions": [expression]}))
        key = rng.choice(LABELS[:4])
        return [{"topologyKey": key, "labelSelector": selector, "namespaceSelector": rng.choice((None, {}))}]

    def _affinity(self) -> Json:
        rng, out = self._rng, {}
        for side in ("podAffinity", "podAntiAffinity"):
            if rng.random() < 0.5:
                hard = self._terms() if rng.random() < 0.5 else []
                soft = [{"weight": rng.randint(1, 100), "podAffinityTerm": term} for term in self._terms()]
                out[side] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": hard,
                    "preferredDuringSchedulingIgnoredDuringExecution": soft,
                }
        if rng.random() < 0.3:
            operator = rng.choice(("In", "Gt", "Lt", "Exists"))
            values = [] if operator == "Exists" else [rng.choice(("1", "a", "-1", "99"))]
            term = {"matchExpressions": [{"key": rng.choice(LABELS), "operator": operator, "values": values}]}
            soft = [{"weight": rng.randint(1, 100), "preference": term}]
            out["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": soft}
        return out

    def node(self, name: str) -> Json:
        rng = self._rng
        cpu, memory = ("8", "16Gi") if rng.random() > self._strange else (rng.choice(AMOUNTS), rng.choice(AMOUNTS))
        more = {key: value for key, value in self._amounts(5).items() if key not in ("cpu", "memory", "pods")}
        made = worlds.node(name, cpu=cpu, memory=memory, labels=self._some(LABELS, 3, VALUES), **more)
        made["metadata"]["annotations"] = self._some(NODE_NOTES, 2, WORDS)
        made["status"]["capacity"] = dict(made["status"]["allocatable"])
        if rng.random() < self._strange:
            effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            made["spec"]["taints"] = [{"key": rng.choice(LABELS), "value": rng.choice(VALUES), "effect": effect}]
        return made

    def queue(self, name: str) -> Json:
        rng = self._rng
        made = worlds.queue(
            name,
            weight=rng.choice((1, 2, 2**31 - 1)),
            state="Open" if rng.random() > self._strange else rng.choice(("Closed", "")),
        )
        made["metadata"]["annotations"] = self._some(QUEUE_NOTES, 2, WORDS)
        made["spec"] |= (
            {"capability": self._amounts(3), "deserved": self._amounts(3)} if rng.random() < self._strange else {}
        )
        if rng.random() < 0.3:
            made["spec"]["guarantee"] = {"resource": self._amounts(2)}
        if rng.random() < self._strange:
            made["spec"]["parent"] = rng.choice(("root", "q0", "q1", "gone"))
        if rng.random() < 0.2:
            made["spec"]["priority"] = rng.choice((-(2**31), 2**31 - 1, 5))
        if rng.random() < 0.2:
            lists = {"requiredDuringSchedulingIgnoredDuringExecution": [rng.choice(VALUES)]}
            made["spec"]["affinity"] = {rng.choice(("nodeGroupAffinity", "nodeGroupAntiAffinity")): lists}
        return made

    def group(self, name: str) -> Json:
        rng = self._rng
        spec: Json = {"queue": rng.choice(("q0", "q1", "q2") if rng.random() > self._strange else ("root", "gone"))}
        if rng.random() < 0.4:
            spec["minResources"] = self._amounts(3)
        if rng.random() < 0.3:
            spec["minTaskMember"] = {rng.choice(("w", "m", "")): rng.randint(0, 3) for _ in range(2)}
        if rng.random() < 0.2:
            tier = rng.choice((0, 1, 2, -1, 2**31 - 1))
            spec["networkTopology"] = {"mode": rng.choice(("hard", "soft")), "highestTierAllowed": tier}
        if rng.random() < 0.2:
            policy = {"name": "p", "matchLabelKeys": [rng.choice(LABELS)], "subGroupSize": rng.randint(0, 3)}
            spec["subGroupPolicy"] = [policy | {"minSubGroups": rng.randint(0, 3)}]
        if rng.random() < 0.3:
            spec["priorityClassName"] = rng.choice(("high", "gone"))
        phase = rng.choice(("", "Pending", "Inqueue", "Inqueue", "Running", "Unknown"))
        made = worlds.group(
            name, rng.choice((0, 1, 1, 2) if rng.random() > self._strange else (3, 2**31 - 1, -1)), phase=phase, **spec
        )
        made["metadata"]["annotations"] = self._some(GROUP_NOTES, 3, WORDS)
        made["metadata"]["creationTimestamp"] = rng.choice(("2023-11-14T22:00:00Z", "2030-01-01T00:00:00Z"))
        return made

    def pod(self, name: str, group: str, nodes: int) -> Json:
        rng, more = self._rng, Json()
        if rng.random() < 0.4:
            more |= {
                "phase": rng.choice(("Running", "Running", "Succeeded", "Unknown")),
                "nodeName": f"n{rng.randrange(nodes)}",
            }
        if rng.random() < self._strange:
            more["affinity"] = self._affinity()
        if rng.random() < 0.2:
            more["topologySpreadConstraints"] = [
                {
                    "maxSkew": rng.choice((1, 2**31 - 1)),
                    "topologyKey": rng.choice(LABELS),
                    "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                    "labelSelector": rng.choice(({}, {"matchLabels": {"app": "a"}})),
                }
            ]
        if rng.random() < 0.2:
            more["tolerations"] = [{"operator": "Exists"}]
        if rng.random() < 0.2:
            more["ports"] = [{"containerPort": 1, "hostPort": rng.choice((80, 65535))}]
        if rng.random() < self._strange:
            more["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice(("c0", "gone"))}}]
        if rng.random() < self._strange:
            more["resourceClaims"] = [{"name": "r", "resourceClaimName": rng.choice(("r0", "gone"))}]
        if rng.random() < 0.1:
            more["schedulingGates"] = [{"name": rng.choice(("x", "scheduling.volcano.sh/queue-allocation-gate"))}]
        more["priority"] = rng.choice((0, 5, -(2**31), 2**31 - 1))
        more["preemptionPolicy"] = rng.choice(("", "Never", "PreemptLowerPriority"))
        more["scheduler"] = rng.choice(("volcano", "volcano", "default-scheduler"))
        amounts = self._amounts(3)
        cpu = rng.choice(("1", "500m", "", amounts.pop("cpu", "")))
        memory = rng.choice(("1Gi", "", amounts.pop("memory", "")))
        notes = self._some(POD_NOTES, 4, WORDS)
        made = worlds.pod(
            name, group, cpu, memory, annotations=notes, labels=self._some(LABELS, 3, VALUES), resources=amounts,
            leaving=rng.random() < 0.1, **more,
        )  # fmt: skip
        main = made["spec"]["containers"][0]
        main["image"] = rng.choice(("", "a", "a:b", "a@sha256:1", ":", "/"))
        main["resources"]["limits"] = dict(main["resources"]["requests"])
        return made

    def others(self) -> list[Json]:
        """Return budgets, quotas, domains, classes, claims and devices."""
        rng = self._rng
        meta = {"namespace": "ns"}
        out: list[Json] = [
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": rng.choice((100, 2**31 - 1))}
        ]
        allowed = {"disruptionsAllowed": rng.choice((0, 1, -1)), "disruptedPods": {}}
        selector = rng.choice((None, {}, {"matchLabels": {"app": "a"}}))
        budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "b", **meta}}
        out.append({**budget, "spec": {"selector": selector}, "status": allowed})
        hard = self._amounts(3)
        quota = {"kind": "ResourceQuota", "metadata": {"name": "q", **meta}, "spec": {"hard": hard}}
        out.append({**quota, "status": {"hard": hard, "used": dict.fromkeys(hard, "1")}})
        for tier in (1, 2):
            kind = "Node" if tier == 1 else "HyperNode"
            names = [rng.choice(("n0", "n1", "h1", "h2", "gone")) for _ in range(2)]
            members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in names]
            members.append({"type": kind, "selector": {"regexMatch": {"pattern": rng.choice((".*", "n[0-1]", "("))}}})
            spec = {"tier": rng.choice((tier, tier, 0, 2**31 - 1)), "members": members}
            out.append({"kind": "HyperNode", "metadata": {"name": f"h{tier}"}, "spec": spec})
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": rng.choice(AMOUNTS)}}}
        made = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c0", **meta}, "spec": claim}
        out.append(made | {"status": {"phase": rng.choice(("Pending", "Bound", "Lost"))}})
        cpus = {
            str(i): {"numa": str(rng.choice((0, 1, 9))), "core": str(i), "socket": "0"}
            for i in range(rng.randint(0, 4))
        }
        ranges = rng.choice(("0-3", "", "0-99999999", "9" * 30, "x", "3-0", "0,,2"))
        numa = {"cpuDetail": cpus, "numares": {"cpu": {"allocatable": ranges, "capacity": 4}}}
        numa["policies"] = {
            "CPUManagerPolicy": "static",
            "TopologyManagerPolicy": rng.choice(("best-effort", "restricted", "x")),
        }
        out.append({"kind": "Numatopology", "metadata": {"name": "n0"}, "spec": numa})
        return out


def configuration(rng: random.Random) -> Config:
    """Return a random configuration; one that contradicts itself is drawn again."""
    while True:
        names = [name for name in PLUGINS if name != "extender" and rng.random() < 0.6]
        rng.shuffle(names)
        cut = rng.randint(0, len(names))
        tiers = []
        for part in (names[:cut], names[cut:]):
            plugins = []
            for name in part:
                plugin: Json = {"name": name, "arguments": rng.choice(ARGUMENTS.get(name, [{}]))}
                if rng.random() < 0.3:
                    plugin["enableHierarchy"] = True
                plugins.append(plugin)
            tiers.append({"plugins": plugins})
        document: Json = {"actions": rng.choice(ACTIONS), "tiers": tiers}
        if rng.random() < 0.3:
            arguments = {"enableTopologyAwarePreemption": True}
            document["configurations"] = [{"name": "preempt", "arguments": arguments}]
        try:
            return config_from(document, text=yaml.safe_dump(document))
        except InvalidInput:
            continue


def feed(world: World, objects: Sequence[Json], counts: Counter[str], seed: int) -> list[str]:
    """Let the world take objects as the informers' feed does: what cannot be read is left out, and says so."""
    found = []
    for obj in objects:
        try:
            worlds.feed(world, obj)
        except ValueError:
            counts["left out"] += 1
        except Exception as error:
            found.append(f"seed {seed}: {obj['kind']} is not taken: {type(error).__name__}: {error}"[:300])
    return found


def play(seed: int, counts: Counter[str]) -> list[str]:
    """Play one round; return what was found."""
    rng = random.Random(seed)
    config, maker, world = configuration(rng), Maker(rng), World()
    nodes, jobs = rng.randint(1, 4), rng.randint(1, 5)
    objects = [maker.node(f"n{i}") for i in range(nodes)]
    objects += [worlds.queue("root"), *(maker.queue(f"q{i}") for i in range(3)), *maker.others()]
    objects += [maker.group(f"g{i}") for i in range(jobs)]
    placer, found = Placer(world.nodes), feed(world, objects, counts, seed)
    for cycle in range(3):
        pods = [maker.pod(f"p{cycle}-{i}", f"g{rng.randrange(jobs)}", nodes) for i in range(rng.randint(1, 6))]
        found += feed(world, pods, counts, seed)
        for name in [f"n{i}" for i in range(nodes) if rng.random() < 0.5]:
            world.usages.take({name: NodeUsage({"10m": rng.choice((0.0, 80.0))}, {"10m": 60.0}, NOW)})
        began = time.process_time()
        try:
            plan = run_cycle(world, config, now=NOW + 60 * cycle, rng=random.Random(1), uid=f"c{cycle}", placer=placer)
        except Exception as error:
            return [*found, f"seed {seed}: the cycle ended with {type(error).__name__}: {error}"]
        seconds = time.process_time() - began
        counts["cycles"] += 1
        counts["binds"] += len(plan.binds)
        counts["evictions"] += len(plan.evictions)
        found += [f"seed {seed}: {failure.plugin} {failure.point}: {failure.error[:200]}" for failure in plan.failures]
        if seconds > LIMIT_SECONDS:
            found.append(f"seed {seed}: a cycle took {seconds:.1f} s of CPU")
        for bind in plan.binds:
            world.restatus((bind.task,), RUNNING if bind.task.status == BINDING else bind.task.status)
    return found


def load_fgd() -> None:
    """Load the kernels of the plugin ``fgd`` by placing a share of a card and a whole one."""
    config = config_from({"actions": "allocate", "tiers": [{"plugins": [{"name": "fgd"}, {"name": "gang"}]}]})
    card = {"volcano.sh/gpu-memory": "2000", "volcano.sh/gpu-number": "2"}
    world = worlds.world(worlds.queue(), worlds.group("g", 0), worlds.node("n", cpu="4", memory="1Gi", **card))
    for name, asked in (("p", {"volcano.sh/gpu-memory": "500"}), ("q", {"volcano.sh/gpu-number": "1"})):
        pod = worlds.pod(name, "g", cpu="1", resources=asked)
        pod["spec"]["containers"][0]["resources"]["limits"] = asked
        worlds.feed(world, pod)
    run_cycle(world, config, now=NOW, rng=random.Random(1), placer=Placer(world.nodes))


def attack(count: int, seed: int, *, progress: bool = False) -> tuple[Counter[str], list[str]]:
    """Play rounds; return counts and findings."""
    counts, findings = Counter[str](), list[str]()
    warm_up()  # the first cycle ever on a machine would count what compiling takes
    load()
    load_fgd()
    for number in range(count):
        findings += play(seed + number, counts)
        if progress and number % 200 == 199:
            print(f"  {number + 1}/{count} rounds, {len(findings)} findings", flush=True)
    return counts, findings


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, findings = attack(options.count, options.seed, progress=True)
    for name, value in sorted(counts.items()):
        print(f"{name:<12} {value:>9,}")
    for text, many in Counter(finding.partition(": ")[2] for finding in findings).most_common():
        print(f"FOUND {many} times: {text}; first: {next(f for f in findings if f.endswith(text)).partition(':')[0]}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
