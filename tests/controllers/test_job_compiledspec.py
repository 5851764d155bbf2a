"""What is computed once of a job's spec: at the edges of what is small, common to all its pods, or unnamed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.volcano.batch import Job
from strato.controllers.job.compiledspec import _SMALL, CACHED_SPECS, CompiledSpec, CompiledSpecs
from tests.controllers.world import task, vcjob

Json = dict[str, Any]


def job(*tasks: Json, name: str = "j", **spec: Any) -> Job:
    return msgspec.convert(vcjob(name, *tasks, **spec), Job)


@pytest.mark.parametrize(
    ("tasks", "spec", "small"),
    [
        pytest.param([task(replicas=_SMALL)], {}, True, id="as many pods as may be"),
        pytest.param([task(replicas=_SMALL + 1)], {}, False, id="one more"),
        pytest.param([task("a", _SMALL - 1), task("b", 1)], {}, True, id="of two tasks together"),
        pytest.param([task("a", _SMALL), task("b", 1)], {}, False, id="of two tasks one more"),
        pytest.param([task(replicas=1)], {"plugins": {"ssh": []}}, False, id="a plugin that computes keys"),
        pytest.param([task(replicas=1)], {"plugins": {"env": []}}, True, id="a plugin that does not"),
    ],
)
def test_which_plans_are_short(tasks: list[Json], spec: Json, small: bool) -> None:
    assert CompiledSpec(job(*tasks, **spec)).is_small is small


@pytest.mark.parametrize(
    ("tasks", "spec", "common"),
    [
        pytest.param([task()], {}, True, id="plain"),
        pytest.param([task("a"), task("b")], {}, True, id="two tasks"),
        pytest.param([task("a"), task("a")], {}, False, id="two tasks of one name"),
        pytest.param([task()], {"plugins": {"env": []}}, False, id="a plugin"),
        pytest.param([task()], {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}]}, False, id="a volume"),
        pytest.param(
            [task("a"), task("b", partitionPolicy={"totalPartitions": 1, "partitionSize": 2})], {}, False,
            id="partitions of one of two tasks",
        ),
    ],
)  # fmt: skip
def test_whose_pods_differ_only_in_names(tasks: list[Json], spec: Json, common: bool) -> None:
    assert CompiledSpec(job(*tasks, **spec)).has_common_pods is common


def test_a_task_without_a_name_has_one_of_its_place() -> None:
    assert CompiledSpec(job(task("", 3), task("b", 2))).replicas == {"default0": 3, "b": 2}


@pytest.mark.parametrize(
    ("tasks", "waits"),
    [
        ([task("a"), task("b")], False),
        ([task("a"), task("b", dependsOn={"name": ["a"]})], True),
        ([task("b", dependsOn={"name": ["a"]}), task("a")], True),
    ],
)
def test_which_jobs_have_tasks_that_wait(tasks: list[Json], waits: bool) -> None:
    assert CompiledSpec(job(*tasks)).has_dependencies is waits


def test_a_group_is_computed_anew_when_a_priority_it_names_changes() -> None:
    def named(priority: str) -> Job:
        one = task()
        one["template"]["spec"]["priorityClassName"] = priority
        return job(one)

    for priority, changes in (("", False), ("p", True)):
        made = CompiledSpec(named(priority))
        first = made.group(named(priority), lambda _: 1)
        assert made.group(named(priority), lambda _: 1) is first
        assert (made.group(named(priority), lambda _: 2) is not first) is changes


def test_equal_specs_are_compiled_once_while_they_are_cached() -> None:
    specs = CompiledSpecs()
    first = specs.of(job(name="a"))
    assert specs.of(job(name="b")) is first
    assert specs.of(job(task(replicas=5))) is not first
    for number in range(CACHED_SPECS):
        specs.of(job(task(replicas=100 + number)))
    assert specs.of(job(name="c")) is not first
