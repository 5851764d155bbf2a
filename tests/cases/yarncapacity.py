"""Asks cases of the Capacity Scheduler (formats: the collection's README)."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from strato.errors import InvalidInput
from strato.interop.yarn.capacity import capacities, mappingrules
from strato.interop.yarn.capacity.arithmetic import BY_DOMINANT_SHARE, BY_MEMORY
from strato.interop.yarn.capacity.autocreation import CreationRefused, QueueCatalogue
from strato.interop.yarn.capacity.capacities import QueueCapacity
from strato.interop.yarn.capacity.configuration import CapacityConfiguration
from strato.interop.yarn.capacity.limits import am_limit, application_limits, user_am_limit
from strato.interop.yarn.capacity.mappingrules import MappingRules
from strato.interop.yarn.capacity.placement import ApplicationSubmission, PlacementRejected, place
from strato.interop.yarn.capacity.settings import SCHEDULER
from strato.interop.yarn.capacity.userlimits import UserLimitInputs, user_limit
from strato.interop.yarn.hadoopxml import HadoopSettings
from strato.interop.yarn.resources import add
from tests.cases.yarnpreemption import proportional_preemption

Json = dict[str, Any]

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "yarn"


@functools.cache
def _preemption_cases() -> tuple[Json, ...]:
    """Return all cases of preemption: later steps of a test recorded the events of earlier ones too."""
    found: list[Json] = []
    for path in sorted(_FOLDER.glob("*.json")):
        cases = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
        found += [case for case in cases if case["fn"] == "proportionalPreemption"]
    return tuple(found)


def check_preemption(case: Json) -> list[str]:
    """Compare one round of preemption."""
    return proportional_preemption(case, _preemption_cases())


def check_user_limit(case: Json) -> list[str]:
    """Compare the limits of a user of weight 1, among active and among all users."""
    given, want = case["input"], case["expect"]["result"]
    numbers = UserLimitInputs(
        partition=tuple(given["cluster"]),
        minimum_allocation=tuple(given["minimumAllocation"]),
        queue_capacity=tuple(given["queueCapacity"]),
        queue_maximum=tuple(given["queueMax"]),
        usage_ratio=given["usageRatio"],
        minimum_user_limit_percent=given["minimumUserLimitPercent"],
        user_limit_factor=given["userLimitFactor"],
        ignores_exclusivity=given.get("mode") == "IGNORE_PARTITION_EXCLUSIVITY",
    )
    arithmetic = BY_DOMINANT_SHARE if given.get("calculator") == "dominant" else BY_MEMORY
    used = tuple(given["usedByActiveUsers"])
    got = {
        "activeUsers": user_limit(numbers, arithmetic, used=used, weights=given["activeUsersWeightSum"]),
        "allUsers": user_limit(numbers, arithmetic, used=None, weights=given["allUsersWeightSum"]),
    }
    return [f"{name}: {got[name]}, expected {value}" for name, value in want.items() if got[name] != tuple(value)]


def check_capacity(case: Json) -> list[str]:
    """Compare capacities, limits and placement under a configuration."""
    given, expect = case["input"], case["expect"]
    conf = {key if key.startswith("yarn.") else SCHEDULER + key: value for key, value in given["conf"].items()}
    try:
        catalogue = QueueCatalogue.of(HadoopSettings.from_mapping(conf))
        rules = mappingrules.read(catalogue.settings)
    except InvalidInput as error:
        return [] if str(expect.get("error", "")).startswith("config") else [f"refused: {error}"]
    if str(expect.get("error", "")).startswith("config"):
        return [f"accepted, expected an error: {expect.get('about')}"]
    partitions: dict[str, tuple[int, ...]] = {}
    for node in given["nodes"]:
        numbers = tuple(part for part in node if isinstance(part, int))
        label = next((part for part in node if isinstance(part, str)), "")
        partitions[label] = add(partitions.get(label, (0,) * len(numbers)), numbers)
    want = expect.get("result", {})
    answers = []
    for request in given.get("requests", ()):
        answer, catalogue = _answer(request, rules, catalogue)
        answers.append(answer)
    differences = []
    for mine, theirs in zip(answers, want.get("answers", ()), strict=True):
        for key in {*mine, *theirs} - {"message", "queue", "user", "name"}:
            same = (key in mine) == (key in theirs) if "rror" in key else mine.get(key) == theirs.get(key)
            if not same:
                differences.append(f"{theirs}: {key} is {mine.get(key)!r}")
    if "queues" in want:
        differences += _capacity_differences(catalogue.configuration, partitions, want["queues"])
    return differences


def _answer(request: Json, rules: MappingRules, catalogue: QueueCatalogue) -> tuple[Json, QueueCatalogue]:
    user = request["user"]
    groups = (
        ["primarygrouponly"]
        if user == "nosecondarygroupuser"
        else [user + kind for kind in ("group", "subgroup1", "subgroup2")]
    )
    submission = ApplicationSubmission(
        queue=request["queue"], user=user, groups=groups, name=request.get("name", "app")
    )
    answer: Json = {}
    try:
        answer["placed"] = place(submission, rules, catalogue)
    except PlacementRejected as error:
        return {"error": str(error)}, catalogue
    if request.get("create") and answer["placed"] is not None:
        try:
            catalogue = catalogue.with_created(answer["placed"])
            answer["created"] = True
        except CreationRefused as error:
            answer["createError"] = str(error)
    return answer, catalogue


def _capacity_differences(configuration: CapacityConfiguration, partitions: Any, want: Json) -> list[str]:
    found = capacities.compute(configuration, partitions)
    differences = [f"{path} is {'missing' if path in want else 'too much'}" for path in {*want} ^ {*found}]
    for path, fields in want.items():
        if path not in found:
            continue
        mine = _queue_fields(configuration, path, found[path])
        for name, value in fields.items():
            got = mine.get(name)
            close = (
                isinstance(value, float) and got is not None and math.isclose(value, got, rel_tol=1e-6, abs_tol=1e-6)
            )
            if not close and got != (tuple(value) if isinstance(value, list) else value):
                differences.append(f"{path} {name}: {got}, expected {value}")
    return differences


def _queue_fields(configuration: CapacityConfiguration, path: str, partitions: Mapping[str, QueueCapacity]) -> Json:
    queue, numbers = configuration.by_path[path], partitions[""]
    limits = application_limits(configuration, queue, max(each.absolute for each in partitions.values()))
    ams = am_limit(queue, numbers, configuration)
    return {
        "capacity": numbers.capacity,
        "absoluteCapacity": numbers.absolute,
        "maximumCapacity": numbers.maximum,
        "absoluteMaximumCapacity": numbers.absolute_maximum,
        "weight": numbers.weight,
        "normalizedWeight": numbers.normalised_weight,
        "effectiveMin": numbers.effective_minimum,
        "effectiveMax": numbers.effective_maximum,
        "dynamic": queue.is_dynamic,
        "maxApplications": limits.maximum_applications,
        "maxApplicationsPerUser": limits.maximum_applications_per_user,
        "amLimit": ams,
        "userAmLimit": user_am_limit(queue, numbers, configuration, ams),
        "userLimit": queue.user_limit_percent,
        "userLimitFactor": queue.user_limit_factor,
        "orderingPolicy": queue.ordering_policy,
        "priority": queue.priority,
        "preemptionDisabled": queue.preemption_disabled,
        "maxLifetime": queue.maximum_lifetime_seconds,
        "defaultLifetime": queue.default_lifetime_seconds,
    }


CHECKS: dict[str, Callable[[Json], list[str]]] = {
    "proportionalPreemption": check_preemption,
    "userLimit": check_user_limit,
    "capacity": check_capacity,
}
"""By ``fn`` of a case what compares it."""
