"""Capacities, limits and what a configuration has to agree on: the specification's tables, and what always holds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.interop.yarn.capacity import capacities, notation, reader
from strato.interop.yarn.capacity.arithmetic import BY_DOMINANT_SHARE, BY_MEMORY
from strato.interop.yarn.capacity.capacities import QueueCapacity
from strato.interop.yarn.capacity.configuration import CapacityConfiguration
from strato.interop.yarn.capacity.limits import am_limit, application_limits, lifetime_seconds, user_am_limit
from strato.interop.yarn.capacity.order import ApplicationStanding, QueueStanding, application_key, queue_key
from strato.interop.yarn.capacity.settings import SCHEDULER
from strato.interop.yarn.capacity.userlimits import UserLimitInputs, limit_of_user, user_limit
from strato.interop.yarn.hadoopxml import HadoopSettings
from strato.interop.yarn.resources import ResourceTypes, fits

CLUSTER = (102400, 100)


def read(**settings: str) -> CapacityConfiguration:
    """Read settings, with ``__`` for a dot and ``_`` for a dash in their names."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
    return read_all(named)


def read_all(settings: dict[str, str]) -> CapacityConfiguration:
    named = {name if name.startswith("yarn.") else SCHEDULER + name: value for name, value in settings.items()}
    return reader.read(HadoopSettings.from_mapping(named))


def numbers(settings: dict[str, str], cluster: tuple[int, ...] = CLUSTER) -> dict[str, QueueCapacity]:
    found = capacities.compute(read_all(settings), {"": cluster})
    return {path: one[""] for path, one in found.items()}


def flat(**capacity: str) -> dict[str, str]:
    return {
        "root.queues": ",".join(capacity),
        **{f"root.{name}.capacity": value for name, value in capacity.items()},
    }


def minima(settings: dict[str, str], cluster: tuple[int, ...] = CLUSTER) -> dict[str, tuple[int, ...]]:
    return {path: one.effective_minimum for path, one in numbers(settings, cluster).items() if path != "root"}


# -- capacities --------------------------------------------------------------------------------------------------------


def test_weights_share_by_their_sum() -> None:
    assert minima(flat(a="1w", b="2w", c="3w")) == {
        "root.a": (17066, 16),
        "root.b": (34133, 33),
        "root.c": (51200, 50),
    }


def test_absolute_capacities_are_scaled_down_together() -> None:
    given_ = flat(a="[memory=40960,vcores=40]", b="[memory=61440,vcores=60]")
    assert minima(given_, (51200, 50)) == {"root.a": (20480, 20), "root.b": (30720, 30)}
    assert minima(given_) == {"root.a": (40960, 40), "root.b": (61440, 60)}


def test_maxima_multiply_down_the_tree() -> None:
    found = numbers(
        {
            **flat(a="50", b="50"), "root.a.maximum-capacity": "30", "root.a.queues": "a1,a2",
            "root.a.a1.capacity": "50", "root.a.a2.capacity": "50", "root.a.a1.maximum-capacity": "50",
        }
    )  # fmt: skip
    assert found["root.a.a1"].absolute_maximum == pytest.approx(0.15)
    assert found["root.a.a1"].effective_maximum == (15360, 15)


def test_labels_have_capacities_of_their_own() -> None:
    settings = {
        **flat(a="10", b="90"), "root.a.accessible-node-labels": "gpu", "root.b.accessible-node-labels": " ",
        "root.a.accessible-node-labels.gpu.capacity": "100", "root.a.accessible-node-labels.gpu.maximum-capacity": "80",
    }  # fmt: skip
    found = capacities.compute(read_all(settings), {"": CLUSTER, "gpu": (4096, 4)})
    assert found["root.a"]["gpu"].effective_minimum == (4096, 4)
    assert found["root.a"]["gpu"].effective_maximum == (3276, 3)
    assert found["root.b"]["gpu"].effective_minimum == (0, 0)
    assert not read_all(settings).by_path["root.b"].accesses("gpu")


COUNTS = st.integers(min_value=0, max_value=10**7)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8), st.tuples(COUNTS, COUNTS))
def test_siblings_never_have_more_than_their_parent(weights: list[int], cluster: tuple[int, int]) -> None:
    found = numbers(flat(**{f"q{at}": f"{weight}w" for at, weight in enumerate(weights)}), cluster)
    children = [one for path, one in found.items() if path != "root"]
    assert sum(one.normalised_weight for one in children) == pytest.approx(1, abs=1e-5)
    for at in range(2):
        total = sum(one.effective_minimum[at] for one in children)
        assert total <= cluster[at] * (1 + 1e-6) + 1
        assert total >= cluster[at] * (1 - 1e-6) - len(children)
    assert all(fits(one.effective_maximum, cluster) for one in children)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), min_size=1, max_size=8), st.tuples(COUNTS, COUNTS)
)
def test_absolute_capacities_stay_within_the_cluster(asked: list[tuple[int, int]], cluster: tuple[int, int]) -> None:
    given_ = flat(**{f"q{at}": f"[memory={memory},vcores={cores}]" for at, (memory, cores) in enumerate(asked)})
    found = minima(given_, cluster)
    for at in range(2):
        assert sum(one[at] for one in found.values()) <= cluster[at] * (1 + 1e-6) + 1
    assert all(fits(found[f"root.q{at}"], one) for at, one in enumerate(asked))


PARTS = st.sampled_from(["{}", "{}%", "{}w"])


@given(st.lists(st.tuples(PARTS, st.integers(0, 60)), min_size=1, max_size=6), st.integers(1, 10**6))
def test_vectors_hand_out_no_more_than_there_is(parts: list[tuple[str, int]], memory: int) -> None:
    percents = sum(number for form, number in parts if form == "{}%")
    parts = [(form, number * 100 // percents if percents > 100 and form == "{}%" else number) for form, number in parts]
    given_ = {
        "legacy-queue-mode.enabled": "false",
        **flat(**{f"q{at}": f"[memory={form.format(n)},vcores=1w]" for at, (form, n) in enumerate(parts)}),
    }
    assert sum(one[0] for one in minima(given_, (memory, 100)).values()) <= memory


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(flat(a="20", b="89.5"), "sum up to 109.5 %", id="sum"),
        pytest.param(flat(a="50", b="1w"), "different ways", id="mixed"),
        pytest.param(flat(a="[memory=50%,vcores=1w]"), "legacy-queue-mode.enabled=false", id="a vector in legacy mode"),
        pytest.param({"root.queues": "a"}, "root.a.capacity: is not set", id="no capacity"),
        pytest.param({}, "root.queues: names no queues", id="no queues"),
        pytest.param({**flat(a="100"), "root.a.state": "OFF"}, "expected RUNNING or STOPPED", id="state"),
        pytest.param({**flat(a="101"), "root.b.capacity": "1"}, "between 0 and 100", id="percent"),
        pytest.param(flat(a="[memory=1,gpu=1]"), "'gpu' is no type of resource", id="unknown type"),
        pytest.param(flat(a="[memory=1"), "the closing ] is missing", id="bracket"),
        pytest.param(flat(a="nan"), "'nan' is no number", id="nan"),
        pytest.param(
            {**flat(a="100"), "root.a.minimum-user-limit-percent": "50", "root.a.user-settings.ada.weight": "3"},
            "is above 2",
            id="user weight",
        ),
        pytest.param(
            {**flat(a="100"), "root.a.maximum-application-lifetime": "5", "root.a.default-application-lifetime": "9"},
            "above the maximum lifetime",
            id="lifetime",
        ),
        pytest.param(
            {**flat(a="100"), "root.a.maximum-allocation-mb": "9999999"}, "above the cluster's maximum", id="allocation"
        ),
        pytest.param(
            {**flat(a="[memory=10,vcores=1]"), "root.a.queues": "x", "root.a.x.capacity": "[memory=20,vcores=1]"},
            "sum up to",
            id="absolute sum",
        ),
        pytest.param(
            {
                **flat(a="100"),
                "root.a.queues": "x",
                "root.a.x.capacity": "100",
                "root.a.auto-create-child-queue.enabled": "true",
            },
            "cannot have queues of its own",
            id="managed parent with queues",
        ),
    ],
)
def test_configurations_that_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_all(settings)
    assert words in str(caught.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_all({**flat(a="x", b="y"), "root.a.priority": "z"})
    assert len(caught.value.problems) == 3


def test_thirds_sum_up_closely_enough() -> None:
    assert read_all(flat(a="33.33", b="33.33", c="33.33"))


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        pytest.param("[memory=10Gi,vcores=12]", (10240, 12), id="binary unit"),
        pytest.param("[memory-mb=512]", (512, 0), id="unnamed types are 0"),
        pytest.param("[ memory = 1G , vcores = 2k ]", (953, 2000), id="decimal units and blanks"),
    ],
)
def test_absolute_notation(text: str, amounts: tuple[int, ...]) -> None:
    assert notation.parse(text, ResourceTypes()).amounts == amounts


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    with contextlib.suppress(notation.NotationError):
        assert len(notation.parse(text, ResourceTypes()).parts) == 2


# -- limits ------------------------------------------------------------------------------------------------------------


def test_application_and_master_limits() -> None:
    settings = {
        **flat(a="25", b="75"), "maximum-applications": "1000", "maximum-am-resource-percent": "0.2",
        "root.a.minimum-user-limit-percent": "50", "root.a.user-limit-factor": "0.5",
    }  # fmt: skip
    configuration = read_all(settings)
    queue, capacity = configuration.by_path["root.a"], numbers(settings)["root.a"]
    limits = application_limits(configuration, queue, capacity.absolute)
    assert (limits.maximum_applications, limits.maximum_applications_per_user) == (250, 62)
    whole = am_limit(queue, capacity, configuration)
    assert whole == (20480, 1)
    assert user_am_limit(queue, capacity, configuration, whole) == (3072, 1)


@pytest.mark.parametrize(
    ("requested", "settings", "seconds"),
    [
        pytest.param(0, {}, -1, id="none"),
        pytest.param(50, {}, 50, id="asked for"),
        pytest.param(0, {"maximum": "100"}, 100, id="the maximum is the default"),
        pytest.param(0, {"maximum": "100", "default": "30"}, 30, id="the default"),
        pytest.param(500, {"maximum": "100"}, 100, id="cut"),
    ],
)
def test_lifetimes(requested: int, settings: dict[str, str], seconds: int) -> None:
    named = {f"root.a.{name}-application-lifetime": value for name, value in settings.items()}
    queue = read_all({**flat(a="100"), **named}).by_path["root.a"]
    assert lifetime_seconds(queue, requested) == seconds


def limit_inputs(**changes: Any) -> UserLimitInputs:
    return UserLimitInputs(
        **{
            "partition": (16384, 16),
            "minimum_allocation": (1024, 1),
            "queue_capacity": (8192, 8),
            "queue_maximum": (16384, 16),
            "usage_ratio": 0.0,
            "minimum_user_limit_percent": 100.0,
            "user_limit_factor": 1.0,
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("users", "used", "changes", "limit"),
    [
        pytest.param(1, 0, {}, 8192, id="one user, idle"),
        pytest.param(2, 4096, {"minimum_user_limit_percent": 50, "usage_ratio": 0.25}, 4096, id="two users"),
        pytest.param(4, 8192, {"minimum_user_limit_percent": 25, "usage_ratio": 0.5}, 3072, id="four users, full"),
        pytest.param(5, 8192, {"minimum_user_limit_percent": 25, "usage_ratio": 0.5}, 3072, id="five users"),
        pytest.param(
            2, 12288, {"minimum_user_limit_percent": 50, "user_limit_factor": 2.0, "usage_ratio": 0.75}, 7168, id="over"
        ),
        pytest.param(1, 12288, {"user_limit_factor": -1.0, "usage_ratio": 0.75}, 13312, id="no factor"),
        pytest.param(1, 0, {"user_limit_factor": 0.3}, 3072, id="a third"),
        pytest.param(1, 4096, {"ignores_exclusivity": True, "usage_ratio": 0.25}, 8192, id="ignoring exclusivity"),
        pytest.param(
            0, 0, {"queue_capacity": (0, 0), "queue_maximum": (9216, 9), "usage_ratio": 0.5}, 9216, id="no capacity"
        ),
    ],
)
def test_user_limits(users: int, used: int, changes: dict[str, Any], limit: int) -> None:
    found = user_limit(limit_inputs(**changes), BY_MEMORY, used=(used, used // 1024), weights=users)
    assert found == (limit, 1)


def test_weights_of_users_are_rounded_down() -> None:
    given_ = limit_inputs(minimum_user_limit_percent=50.0, user_limit_factor=2.0, usage_ratio=0.5)
    limit = user_limit(given_, BY_MEMORY, used=(8192, 8), weights=2.5)
    assert limit == (5120, 1)
    assert limit_of_user(limit, 1.5, (1024, 1), BY_MEMORY) == (7168, 1)


@given(st.integers(1, 20), st.integers(0, 16384), st.integers(1, 100), st.floats(0.1, 4.0), st.booleans())
def test_a_user_limit_is_never_below_one_container_nor_above_the_cap(
    users: int, used: int, percent: int, factor: float, dominant: bool
) -> None:
    arithmetic = BY_DOMINANT_SHARE if dominant else BY_MEMORY
    given_ = limit_inputs(minimum_user_limit_percent=percent, user_limit_factor=factor, usage_ratio=used / 16384)
    limit = user_limit(given_, arithmetic, used=(used, used // 1024), weights=users)
    assert 0 < limit[0] <= max(1024, -(-int(8192 * factor) // 1024) * 1024)


# -- order -------------------------------------------------------------------------------------------------------------


def standing(name: str, used: float, priority: int = 0, capacity: float = 0.5, absolute_used: float = 0.0) -> Any:
    return QueueStanding(
        name=name,
        priority=priority,
        capacity=capacity,
        absolute_capacity=capacity,
        used_capacity=used,
        absolute_used=absolute_used,
    )


@pytest.mark.parametrize(
    ("policy", "queues", "first"),
    [
        pytest.param("utilization", [standing("a", 0.5), standing("b", 0.4, -9)], "b", id="less used"),
        pytest.param("utilization", [standing("a", 0, capacity=0.0), standing("b", 3.0)], "b", id="no guarantee last"),
        pytest.param("utilization", [standing("a", 0.5), standing("b", 0.5, capacity=0.9)], "b", id="larger guarantee"),
        pytest.param("priority-utilization", [standing("a", 0.1), standing("b", 0.9, 1)], "b", id="priority"),
        pytest.param(
            "priority-utilization", [standing("a", 0.9), standing("b", 1.0, 1)], "a", id="below its guarantee"
        ),
        pytest.param("priority-utilization", [standing("a", 1.5), standing("b", 2.5, 1)], "b", id="both above"),
    ],
)
def test_queue_order(policy: str, queues: list[QueueStanding], first: str) -> None:
    assert min(queues, key=lambda queue: queue_key(policy, queue)).name == first


def application(name: str, **fields: Any) -> ApplicationStanding:
    return ApplicationStanding(**{"name": name, "priority": 0, "submitted": "1", **fields})


@pytest.mark.parametrize(
    ("policy", "size_based", "applications", "order"),
    [
        pytest.param("fifo", False, [application("a"), application("b", priority=1)], "ba", id="priority"),
        pytest.param("fifo", False, [application("a", submitted="2"), application("b")], "ba", id="first come"),
        pytest.param(
            "fair", False, [application("a", used_memory_mb=9), application("b", used_memory_mb=8, priority=-1)], "ba",
            id="less used, whatever the priority",
        ),
        pytest.param(
            "fair", True,
            [application("a", used_memory_mb=10, demand_memory_mb=9),
             application("b", used_memory_mb=12, demand_memory_mb=999)],
            "ba", id="weighed by size",
        ),
        pytest.param("fair", False, [application("a"), application("b", demand_memory_mb=1)], "ba", id="demand first"),
    ],
)  # fmt: skip
def test_application_order(policy: str, size_based: bool, applications: list[ApplicationStanding], order: str) -> None:
    found = sorted(applications, key=lambda one: application_key(policy, one, size_based=size_based))
    assert "".join(one.name for one in found) == order
