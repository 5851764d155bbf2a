"""Asks cases of the Fair Scheduler (formats: the collection's README)."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from strato.errors import InvalidInput, UsageError
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile, notation, order, placement, shares
from strato.interop.yarn.fair.allocation import Allocations, QueueSettings
from strato.interop.yarn.fair.catalogue import Catalogue
from strato.interop.yarn.fair.engine import FairScheduler, MoveRefused, RequestRejected
from strato.interop.yarn.fair.options import PREFIX, FairOptions, options_of
from strato.interop.yarn.fair.policies import policy_of
from strato.interop.yarn.fair.tree import QueueTree
from strato.interop.yarn.resources import MEMORY, MOST, MOST_INT, VCORES, ResourceTypes

Json = dict[str, Any]

_CLASSES = {
    "specified": "SpecifiedPlacementRule",
    "user": "UserPlacementRule",
    "primaryGroup": "PrimaryGroupPlacementRule",
    "secondaryGroupExistingQueue": "SecondaryGroupExistingPlacementRule",
    "default": "DefaultPlacementRule",
    "reject": "RejectPlacementRule",
}
_UNLIMITED = (MOST, MOST_INT)


def _types(case_input: Json) -> ResourceTypes:
    named = case_input.get("resourceTypes") or (case_input.get("conf") or {}).get("yarn.resource-types") or ""
    return ResourceTypes.with_others(named.split(",") if isinstance(named, str) else named)


def _differences(wanted: Any, got: Any, path: str = "") -> list[str]:
    """Return where an answer is not as expected; what is not expected at all is not looked at."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        out = [f"{path}: unexpected {key}" for key in got.keys() - wanted.keys() if path.endswith((".queues", ".apps"))]
        for key, value in wanted.items():
            out += _differences(value, got[key], f"{path}.{key}") if key in got else [f"{path}: no {key}"]
        return out
    if isinstance(wanted, list) and isinstance(got, list | tuple):
        if len(wanted) != len(got):
            return [f"{path}: want {wanted} got {list(got)}"]
        return [
            text
            for at, pair in enumerate(zip(wanted, got, strict=True))
            for text in _differences(*pair, f"{path}[{at}]")
        ]
    if isinstance(wanted, float) and isinstance(got, int | float):
        same = math.isclose(wanted, got, rel_tol=1e-6, abs_tol=1e-9)
    else:
        same = wanted == got and isinstance(wanted, bool) == isinstance(got, bool)
    return [] if same else [f"{path}: want {wanted!r} got {got!r}"]


def _limited(numbers: Sequence[int]) -> list[Any]:
    """Return amounts with MAX for what is not limited."""
    return ["MAX" if number in _UNLIMITED else number for number in numbers]


def _answer(case: Json, ask: Callable[[Json], Any]) -> list[str]:
    """Ask, and compare the answer or the error."""
    wanted = case["expect"]
    try:
        got = ask(case["input"])
    except RequestRejected as error:
        return [] if wanted.get("error") == "request-rejected" else [f"rejected: {error}"]
    except UsageError as error:
        return [] if str(wanted.get("error", "")).startswith("config") else [f"refused: {error}"]
    return [f"want the error {wanted['error']}"] if "error" in wanted else _differences(wanted["result"], got)


# -- formulas ----------------------------------------------------------------------------------------------------------


def _shares(case_input: Json) -> list[int]:
    column = {MEMORY: 0, VCORES: 1}.get(case_input["type"])
    if column is None:
        column = _types(case_input).index[case_input["type"]]
    claims = [
        shares.Claim(one.get("weight", 1.0), one["min"][column], one["max"][column])
        for one in case_input["schedulables"]
    ]
    return shares.fair_shares(case_input["total"][column], claims)


def _compare(case_input: Json) -> int:
    sides = []
    for one in (case_input["left"], case_input["right"]):
        usage = tuple(one["usage"])
        demand = tuple(one["demand"]) if "demand" in one else tuple(2 * number for number in usage)
        least = tuple(one.get("min", [0] * len(usage)))
        sides.append(
            order.Standing(one.get("name", "x"), usage, demand, least, one.get("weight", 1.0), one.get("startTime", 0))
        )
    return order.comparator(policy_of(case_input["policy"]), tuple(case_input["cluster"]))(*sides)


def _notation(case_input: Json) -> Json:
    limit = notation.parse(case_input["value"], _types(case_input), case_input.get("missing", MOST))
    out: Json = {
        "parsed": {"percent": list(limit.fractions)} if limit.is_percent else {"absolute": _limited(limit.amounts)}
    }
    if "cluster" in case_input:
        out["onCluster"] = _limited(limit.on(tuple(case_input["cluster"])))
    return out


# -- files -------------------------------------------------------------------------------------------------------------


def _options(case_input: Json, base: Json | None = None) -> FairOptions:
    conf = {**(base or {}), **(case_input.get("conf") or {})}
    settings = hadoopxml.HadoopSettings.from_mapping({name: str(value) for name, value in conf.items()})
    return options_of(settings, _types(case_input))


def _allocations(xml: str | None, options: FairOptions) -> Allocations:
    root = hadoopxml.parse(xml or "<allocations/>", "allocations")
    return allocationfile.read(root, options.types, "allocations", check_rules=options.check_rules)


def _limit(limit: notation.Limit | None) -> Json | None:
    if limit is None:
        return None
    return {"percent": list(limit.fractions)} if limit.is_percent else {"absolute": _limited(limit.amounts)}


def _milliseconds(number: int) -> str:
    return "MAX" if number == MOST else str(number)


def _settings(one: QueueSettings) -> Json:
    return {
        "min": list(one.min_share),
        "max": _limit(one.max_share),
        "maxChild": _limit(one.max_child),
        "maxContainerAllocation": _limited(one.max_container),
        "maxApps": one.max_apps,
        "maxAMShare": one.max_am_share,
        "policy": one.policy.value,
        "minSharePreemptionTimeoutMs": _milliseconds(one.min_timeout_ms),
        "fairSharePreemptionTimeoutMs": _milliseconds(one.fair_timeout_ms),
        "fairSharePreemptionThreshold": one.fair_threshold,
        "preemptable": one.preemptable,
        "reservable": one.reservable,
        "weight": one.weight,
        "acl": dict(one.acls),
    }


def _rule(rule: placement.PlacementRule) -> Json:
    out: Json = {"rule": _CLASSES[rule.kind], "create": rule.create}
    if rule.queue:
        out["queue"] = rule.queue
    if rule.parent is not None:
        out["parent"] = _rule(rule.parent)
    return out


def _file(case_input: Json) -> Json:
    options = _options(case_input)
    read = _allocations(case_input.get("xml"), options)
    names = sorted({"root", "root.default", "root.undeclared", *read.queues})
    return {
        "configuredQueues": {
            "LEAF": sorted(name for name, one in read.queues.items() if not one.is_parent),
            "PARENT": sorted(name for name, one in read.queues.items() if one.is_parent),
        },
        "userMaxAppsDefault": read.defaults.user_max_apps,
        "userMaxApps": dict(read.user_max_apps),
        "defaultSchedulingPolicy": read.defaults.policy.value,
        "queues": {name: _settings(read.settings_of(name)) for name in names},
        "placementRules": [_rule(rule) for rule in read.placement or options.default_rules],
    }


# -- placement ---------------------------------------------------------------------------------------------------------


def _groups(user: str) -> list[str]:
    if user == "nosecondarygroupuser":
        return ["primarygrouponly"]
    return [f"{user}group", f"{user}subgroup1", f"{user}subgroup2"]


def _placement(case_input: Json) -> Json:
    options = _options(case_input)
    rules = options.default_rules
    if case_input.get("policy"):
        found = placement.rules_from(hadoopxml.parse(case_input["policy"]), check_ends=options.check_rules)
        rules = found or rules
    allocations = Allocations(types=options.types)
    queues = Catalogue(QueueTree(allocations.settings_of("root"), options.types.filled(0)), allocations)
    for one in case_input.get("queues", []):
        _declare(queues, one)
    answers = []
    for request in case_input.get("requests", []):
        if "addQueue" in request:
            _declare(queues, request["addQueue"])
            continue
        answer: Json = {"queue": request["queue"], "user": request["user"]}
        try:
            answer["placed"] = placement.place(rules, request["queue"], request["user"], _groups, queues)
        except placement.PlacementRefused:
            answer["error"] = "YarnException"
        answers.append(answer)
    return {"rules": [_rule(rule) for rule in rules], "answers": answers}


def _declare(queues: Catalogue, one: Json) -> None:
    """Make a queue; neither it nor the parents made for it are dynamic."""
    name = placement.full_name(one["name"])
    path = ""
    for part in name.split("."):
        path = f"{path}.{part}" if path else part
        if path not in queues.tree.queues:
            queues.tree.add_queue(
                queues.allocations.settings_of(path), is_leaf=path == name and one.get("type", "LEAF") == "LEAF"
            ).dynamic = False


# -- the whole scheduler -----------------------------------------------------------------------------------------------

_BASE = {
    "yarn.scheduler.minimum-allocation-mb": "0",
    "yarn.scheduler.minimum-allocation-vcores": "0",
    "yarn.scheduler.maximum-allocation-mb": "10240",
    "yarn.scheduler.reservation-threshold.increment-multiple": "0.09",
    PREFIX + "preemption.cluster-utilization-threshold": "0",
}


class Scenario:
    """One run of the whole scheduler, step by step."""

    def __init__(self, case_input: Json) -> None:
        self.options = _options(case_input, _BASE)
        self.scheduler = FairScheduler(_allocations(case_input.get("xml"), self.options), self.options)
        self.numbers = itertools.count(1)
        self.apps: dict[str, Any] = {}
        self.result: list[Json] = []

    def run(self, steps: list[Json]) -> list[Json]:
        """Take every step, and return the snapshots."""
        for step in steps:
            getattr(self, f"_{step['op']}")(step)
        return self.result

    def _node(self, step: Json) -> None:
        name = f"127.0.0.{len(self.scheduler.nodes) + 1}"
        total = self.options.types.padded(step["resource"])
        self.scheduler.add_node(name, f"rack{step.get('rack', 1)}", total)

    def _submit(self, step: Json) -> None:
        name = f"application_0_{next(self.numbers):04d}"
        app = self.scheduler.submit(name, step.get("user", "user"), step["queue"])
        self.apps[step["app"]] = app
        if app is not None and "resource" in step:
            size = self.options.types.padded(step["resource"])
            self.scheduler.request(app, size, step.get("count", 1), priority=step.get("priority", 1))

    def _update(self, step: Json) -> None:
        self.scheduler.update()

    def _heartbeat(self, step: Json) -> None:
        nodes = list(self.scheduler.nodes.values())
        if "node" in step:
            chosen = step["node"]
            nodes = [nodes[chosen]] if isinstance(chosen, int) else [self.scheduler.nodes[chosen]]
        for _ in range(step.get("times", 1)):
            for node in nodes:
                self.scheduler.heartbeat(node)

    def _tick(self, step: Json) -> None:
        self.scheduler.now_ms += step["ms"]

    def _sleep(self, step: Json) -> None:
        self.scheduler.preemptor.kill_after(step["ms"])

    def _finish(self, step: Json) -> None:
        if self.apps[step["app"]] is not None:
            self.scheduler.finish(self.apps[step["app"]])

    def _move(self, step: Json) -> None:
        try:
            if self.apps[step["app"]] is None:
                raise MoveRefused("there is no such application")
            self.scheduler.move(self.apps[step["app"]], step["queue"])
        except MoveRefused as error:
            self.result.append({"op": "move", "error": str(error)})

    def _reload(self, step: Json) -> None:
        with contextlib.suppress(InvalidInput):  # a bad file keeps the old one
            self.scheduler.reload(_allocations(step["xml"], self.options))

    def _reinit(self, step: Json) -> None:
        self.scheduler.reload(self.scheduler.allocations)

    def _reloadCheck(self, step: Json) -> None:  # noqa: N802 - named like the step
        self.scheduler.check_queues()

    def _snapshot(self, step: Json) -> None:
        queues = {}
        for name, queue in self.scheduler.tree.queues.items():
            queues[name] = {
                "fairShare": list(queue.fair_share),
                "steadyFairShare": list(queue.steady_share),
                "demand": list(queue.demand),
                "usage": list(queue.usage),
                "maxShare": _limited(queue.max_share),
                "runnableApps": queue.runnable_count,
                "dynamic": queue.dynamic,
                "leaf": queue.is_leaf,
            }
            if queue.is_leaf:
                queues[name]["nonRunnableApps"] = len(queue.waiting)
        apps = {label: self._app(app) for label, app in self.apps.items()}
        self.result.append({"queues": queues, "apps": apps, "name": step.get("name", "")})

    @staticmethod
    def _app(app: Any) -> Any:
        if app is None:
            return "rejected-or-removed"
        return {
            "queue": app.queue.name,
            "running": len(app.containers),
            "reserved": len(app.reservations),
            "usage": list(app.usage),
            "fairShare": list(app.fair_share),
            "demand": list(app.demand),
            "weight": app.weight,
            "markedForPreemption": len(app.marked),
            "starvation": list(app.starvation),
        }


def _scenario(case_input: Json) -> list[Json]:
    return Scenario(case_input).run(case_input["steps"])


def _check_scenario(case: Json) -> list[str]:
    wanted = case["expect"].get("result", [])
    for snapshot in wanted:
        if "error" in snapshot:
            snapshot["error"] = ""  # the wording is not part of the contract

    def ask(case_input: Json) -> list[Json]:
        return [{**one, "error": ""} if "error" in one else one for one in _scenario(case_input)]

    return _answer(case, ask)


CHECKS: dict[str, Callable[[Json], list[str]]] = {
    "computeShares": lambda case: _answer(case, _shares),
    "compare": lambda case: _answer(case, _compare),
    "parseResource": lambda case: _answer(case, _notation),
    "allocFile": lambda case: _answer(case, _file),
    "placement": lambda case: _answer(case, _placement),
    "scenario": _check_scenario,
}
