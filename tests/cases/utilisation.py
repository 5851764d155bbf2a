"""Asks the utilisation layer what a case asks, one function a kind; `CHECKS` is the table of them.

A check gets the case's input and returns what it answers; only the keys that the case lists are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from strato.agent.decisions.release import ReleaseOptions, choose_releases
from strato.agent.decisions.suppression import SuppressionOptions, choose_cuts
from strato.agent.decisions.tokens import TokenBucket, capacity_of
from strato.agent.events import ContainerEvent, Suppression, Workload
from strato.agent.koordinator import besteffort, bursting, cpusets, evictions
from tests.cases import adviceruns, overcommit

Json = dict[str, Any]
Check = Callable[[Json], Any]

_TOLERANCE = 1e-12


def differences(expected: Any, answer: Any, *, relative: float = _TOLERANCE, where: str = "expect") -> list[str]:
    """Return what of an answer is not as expected; keys that are not listed are not compared."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        missing = [f"{where}.{key}: no answer" for key in expected if key not in answer]
        return missing + [
            problem
            for key in expected.keys() & answer.keys()
            for problem in differences(expected[key], answer[key], relative=relative, where=f"{where}.{key}")
        ]
    if isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        return [
            problem
            for number, pair in enumerate(zip(expected, answer, strict=True))
            for problem in differences(*pair, relative=relative, where=f"{where}[{number}]")
        ]
    if _is_number(expected) and _is_number(answer):
        same = math.isclose(expected, answer, rel_tol=relative, abs_tol=relative)
    else:
        same = type(expected) is type(answer) and expected == answer
    return [] if same else [f"{where}: want {expected!r}, got {answer!r}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check(kind: str, case: Json) -> list[str]:
    """Return what is wrong with the answer to a case."""
    given, expected, relative = case["input"], case["expect"], _TOLERANCE
    if isinstance(expected, dict):
        expected = dict(expected)
        relative = expected.pop("relativeTolerance", _TOLERANCE)
    answer = CHECKS[f"{kind}/{given['do']}" if kind == "strato" else kind](given)
    if not isinstance(expected, dict):
        return differences(expected, answer, relative=relative)
    extra = set(answer.get("limits", ())) - set(expected.get("limits", answer.get("limits", ())))
    return differences(expected, answer, relative=relative) + [f"limited as well: {name}" for name in sorted(extra)]


def _suppress(given: Json) -> Json:
    containers = [_container(one) for one in given["containers"]]
    options = SuppressionOptions(overload=given["overload"], warning=given["warning"], **_options(given))
    cuts = choose_cuts(given["capacityCores"], given["cpu"], containers, options)
    return {"limits": _by_name(cuts.limits_milli), "unmetCores": cuts.unmet_cores}


def _options(given: Json) -> Json:
    names = {
        "minCores": "min_cores",
        "cutFraction": "cut_fraction",
        "minRequestFraction": "min_request_fraction",
        "gangAware": "gang_aware",
    }
    return {name: given[key] for key, name in names.items() if key in given}


def _container(one: Json) -> ContainerEvent:
    limit = one.get("limitCores")
    cut = Suppression(id="", from_milli=None, to_milli=0, at=0) if one.get("suppressed") else None
    return ContainerEvent(
        at=0,
        namespace=one.get("namespace", ""),
        pod=one.get("pod", one["name"]),
        pod_uid=one["name"],
        container="",
        priority=one.get("priority", 0),
        workload=Workload.TRAINING if one.get("training", True) else Workload.ONLINE,
        used_cores=one.get("usedCores", 0.0),
        limit_milli=None if limit is None else round(limit * 1000),
        request_milli=round(one.get("requestCores", 0) * 1000),
        start_time=one.get("startTime", 0),
        is_guaranteed=one.get("guaranteed", False),
        has_exclusive_cpus=one.get("exclusiveCpus", False),
        is_sidecar=one.get("sidecar", False),
        suppression=cut,
    )


def _by_name(limits: Any) -> Json:
    return {key.removesuffix("/"): "max" if value is None else value for key, value in limits.items()}


def _release(given: Json) -> Json:
    pairs = []
    for one in given["suppressed"]:
        origin = one["fromCores"]
        record = Suppression(
            id="",
            from_milli=None if origin in (None, "max") else round(origin * 1000),
            to_milli=round(one["nowCores"] * 1000),
            at=one["at"],
            used_milli=round(one.get("usedCores", 0) * 1000),
        )
        pairs.append((_container(one), record))
    options = ReleaseOptions(warning=given["warning"])
    limits = choose_releases(given["capacityCores"], given["cpu"], given["coolRounds"], pairs, options)
    return {"limits": _by_name(limits)}


def _best_effort(given: Json) -> Json:
    if "cpus" in given:
        return {"cpuset": cpusets.choose_cpus(given["cpus"], _processors(given))}
    if "processors" in given:
        sets = {key: cpusets.parse_cpus(given[key]) for key in given if key.endswith(("Cpus", "Cpuset"))}
        chosen = cpusets.next_cpus(
            given["suppressMilli"],
            _processors(given),
            sets["currentCpuset"],
            shared_exclusive=sets["lsrCpus"],
            unusable={*sets["lseCpus"], *sets["reservedCpus"], *sets["systemExclusiveCpus"]},
        )
        return {"cpuset": None if chosen is None else cpusets.format_cpus(chosen)}
    if "currentQuotaUs" in given:
        quota = besteffort.next_quota_microseconds(
            given["capacityCores"], given["suppressMilli"], given["currentQuotaUs"]
        )
        return {"quotaUs": quota}
    pods = [_consumer(one, best_effort=one["qos"] == "BE") for one in given["pods"]]
    apps = [
        _consumer(one, best_effort=one["qos"] == "BE" and one.get("underBestEffort", False))
        for one in given["hostApps"]
    ]
    if "nodeUsed" in given:
        usage = besteffort.split_usage(given["nodeUsed"], given["nodeReserved"], pods, apps)
        return {"podsNonBE": usage.pods, "appsNonBE": usage.applications, "system": usage.system}
    usage = besteffort.split_usage(given["nodeUsedCores"], given["nodeReservedCores"], pods, apps)
    capacity = round(given["capacityCores"] * 1000)
    return {
        "suppressMilli": besteffort.budget_milli(capacity, usage, given["thresholdPercent"], given.get("minPercent"))
    }


def _processors(given: Json) -> list[cpusets.Processor]:
    return [cpusets.Processor(*one) for one in given["processors"]]


def _consumer(one: Json, *, best_effort: bool) -> besteffort.Consumer:
    return besteffort.Consumer(used_cores=one["usedCores"], qos=one["qos"] or "", is_best_effort=best_effort)


def _settings(given: Json | None) -> bursting.BurstSettings | None:
    if given is None:
        return None
    return bursting.BurstSettings(
        policy=bursting.BurstPolicy(given["policy"]) if given.get("policy") is not None else None,
        cpu_burst_percent=given.get("cpuBurstPercent"),
        quota_burst_percent=given.get("cfsQuotaBurstPercent"),
        quota_burst_period_seconds=given.get("cfsQuotaBurstPeriodSeconds"),
    )


def _burst(given: Json) -> Json:
    if "nodeUsedCores" in given:
        pods = [
            bursting.SharingPod(
                qos=one.get("qos") or "", request_cores=one.get("requestCores", 0), used_cores=one.get("usedCores", 0)
            )
            for one in given["pods"]
        ]
        state = bursting.node_state(given["nodeUsedCores"], given["cpus"], pods, given["thresholdPercent"])
        return {"state": str(state)}
    if "pod" in given:
        own, node = _settings(given["pod"]), _settings(given["node"])
        merged = node if own is None else own.over(node)
        if merged is None:
            return {"config": None}
        values = {
            "policy": None if merged.policy is None else str(merged.policy),
            "cpuBurstPercent": merged.cpu_burst_percent,
            "cfsQuotaBurstPercent": merged.quota_burst_percent,
            "cfsQuotaBurstPeriodSeconds": merged.quota_burst_period_seconds,
        }
        return {"config": values}
    if "limitsMilli" in given:
        settings = _settings(given)
        assert settings is not None
        saved = [bursting.saved_microseconds(limit, settings) for limit in given["limitsMilli"]]
        return {"containerBurstUs": saved, "podBurstUs": sum(saved)}
    if "containers" in given:
        return _quota_burst(given)
    if "elapsedSeconds" in given:
        bucket = TokenBucket(
            capacity_of(given["periodSeconds"], given["maxPercent"]), at=0.0, initial=given["initialFraction"]
        )
        allowed = bucket.allows(given["elapsedSeconds"], given["usagePercent"])
        return {"allowed": allowed, "tokens": bucket.tokens}
    return {"capacity": capacity_of(*given["new"])}


def _quota_burst(given: Json) -> Json:
    settings = _settings(given["config"])
    assert settings is not None
    quotas, pod = bursting.next_quotas(
        bursting.NodeState(given["nodeState"]),
        settings,
        [
            (one["limitMilli"], one["quotaUs"], one.get("throttled") or 0.0, one.get("allowed", True))
            for one in given["containers"]
        ],
        given["podQuotaUs"],
    )
    return {"containerQuotaUs": quotas, "podQuotaUs": pod}


def _cpu_evict(given: Json) -> Json:
    if "mode" in given:
        pods = [_candidate(one, "usedMilli") for one in given["pods"]]
        if given["mode"] == "be":
            found = evictions.best_effort_victims(pods, "cpu")
        else:
            found = evictions.victims_by_priority(pods, given["priorityThreshold"])
        return {"order": [one.name for one in found]}
    if "capacityCores" in given:
        capacity, used = round(given["capacityCores"] * 1000), round(given["usedCores"] * 1000)
        lines = given["thresholdPercent"], given["lowerPercent"]
        return {"releaseMilli": evictions.amount_over_threshold(capacity, used, *lines)}
    if "allocatable" in given:
        found_amounts = evictions.amounts_over_allocatable(
            given["allocatable"],
            [_candidate(one, "usedMilli") for one in given["pods"]],
            threshold_percent=given["thresholdPercent"],
            lower_percent=given["lowerPercent"],
            priority_threshold=given["priorityThreshold"],
        )
        return {"release": found_amounts}
    lines_ = evictions.Satisfaction(
        lower_percent=given["lowerPercent"],
        upper_percent=given["upperPercent"],
        used_percent=given.get("usageThresholdPercent"),
    )
    if "average" not in given:
        return {"valid": not lines_.problem()}
    by_limit = given["policy"] == evictions.REAL_LIMIT
    mean = _use(given["average"])
    assert mean is not None
    released = evictions.milli_to_satisfy(
        lines_,
        mean,
        _use(given["current"]),
        window_seconds=given["windowSeconds"],
        interval_seconds=given["collectIntervalSeconds"],
        allocatable_milli=None if by_limit else given["batchAllocatableMilli"] or 1,
    )
    return {"releaseMilli": released}


def _use(given: Json | None) -> evictions.BestEffortUse | None:
    if given is None:
        return None
    return evictions.BestEffortUse(
        count=given["count"],
        limit_milli=given["realLimitMilli"],
        used_milli=given["usedMilli"],
        request_milli=given["requestMilli"],
    )


def _candidate(one: Json, used: str) -> evictions.Candidate:
    request = one.get("request", {"cpu": one.get("requestMilli", 0)})
    return evictions.Candidate(
        name=one["name"],
        qos=one.get("qos") or "",
        priority=one.get("priority") or 0,
        label_priority=one.get("labelPriority"),
        eviction_priority=str(one.get("evictionPriority") or ""),
        used=one.get(used) or 0,
        request=request,
    )


def _memory_evict(given: Json) -> Json:
    if "tasks" in given:
        tasks = [evictions.ReleaseTask(**one) for one in given["tasks"]]
        releases = {
            one["name"]: {"used": {"memory": one.get("usedBytes", 0)}, "request": one.get("request", {})}
            for one in given["pods"]
        }
        evicted, released = evictions.carry_out(tasks, releases)
        return {"evicted": evicted, "released": released}
    need = evictions.amount_over_threshold(
        given["capacityBytes"], given["usedBytes"], given["thresholdPercent"], given.get("lowerPercent")
    )
    if "pods" not in given:
        return {"releaseBytes": need}
    pods = evictions.best_effort_victims(_candidate(one, "usedBytes") for one in given["pods"])
    task = evictions.ReleaseTask(target="used", need={"memory": need}, order=[one.name for one in pods])
    gone, _ = evictions.carry_out([task], {one.name: {"used": {"memory": one.used}} for one in pods})
    return {"releaseBytes": need, "evicted": gone}


CHECKS: dict[str, Check] = {
    "suppress": _best_effort,
    "burst": _burst,
    "cpu-evict": _cpu_evict,
    "memory-evict": _memory_evict,
    "histogram": adviceruns.histogram,
    "container-state": adviceruns.container_state,
    "estimate": adviceruns.estimate,
    "amplification": overcommit.amplification,
    "strato/amplify": overcommit.amplify,
    "strato/pools": overcommit.pools,
    "strato/suppress": _suppress,
    "strato/release": _release,
    "strato/stats": adviceruns.stats,
}
"""By the file's kind; of kind ``strato``, by what the case is to ``do``."""
