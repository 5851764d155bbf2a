"""The configuration in Volcano's form: every mistake at once, last matching block, labels of the node over all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.volcano.config import (
    DEFAULT_FEATURES,
    ColocationConfig,
    Feature,
    completed,
    default_text,
    read_colocation,
    supported_features,
)
from strato.agent.volcano.pressure import Watermarks
from strato.errors import InvalidInput

SHARES = {"volcano.sh/colocation": "true"}
LENDS = {"volcano.sh/oversubscription": "true"}
ALL = supported_features("*")


def read(labels: dict[str, str] | None = None, nodes: list[Any] | None = None, **sections: Any) -> ColocationConfig:
    return read_colocation(json.dumps({"globalConfig": sections, "nodesConfig": nodes or []}), labels or {})


def test_what_nobody_has_changed_is_what_volcano_s_agent_has() -> None:
    assert read_colocation(default_text(), {}) == ColocationConfig()
    written = json.loads(default_text())["globalConfig"]
    assert written["evictingConfig"] == {
        "evictingCPUHighWatermark": 80,
        "evictingMemoryHighWatermark": 60,
        "evictingCPULowWatermark": 30,
        "evictingMemoryLowWatermark": 30,
    }
    assert written["nodeLabelConfig"] == {"nodeColocationEnable": True, "nodeOverSubscriptionEnable": False}
    assert written["networkQosConfig"]["qosCheckInterval"] == 10_000_000


@pytest.mark.parametrize(
    ("labels", "sections", "want"),
    [
        pytest.param({}, {"cpuQosConfig": {"enable": True}}, set(), id="no label, nothing but what is always on"),
        pytest.param(SHARES, {"cpuQosConfig": {"enable": True}}, {Feature.CPU_QOS}, id="colocation"),
        pytest.param(LENDS, {}, {Feature.OVERSUBSCRIPTION}, id="lending is on by default"),
        pytest.param(
            LENDS,
            {"overSubscriptionConfig": {"enable": False}, "cpuThrottlingConfig": {"enable": True}},
            {Feature.CPU_THROTTLE},
            id="lending off, throttling on",
        ),
        pytest.param(
            SHARES, {"cpuThrottlingConfig": {"enable": True}}, set(), id="throttling needs the label of lending"
        ),
        pytest.param(
            LENDS,
            {"cpuBurstConfig": {"enable": True}},
            {Feature.OVERSUBSCRIPTION, Feature.CPU_BURST},
            id="lending colocates",
        ),
        pytest.param(
            {"volcano.sh/oversubscription": "yes"}, {}, set(), id="a label that is no truth value says nothing"
        ),
        pytest.param(
            SHARES,
            {"nodeLabelConfig": {"nodeOverSubscriptionEnable": True}},
            set(),
            id="labels overrule what the configuration says of them",
        ),
    ],
)
def test_features_are_on_where_labels_and_sections_want_them(
    labels: dict[str, str], sections: dict[str, Any], want: set[Feature]
) -> None:
    assert read(labels, **sections).active(ALL) == want | {Feature.EVICTION, Feature.RESOURCES}


def test_the_last_block_that_matches_counts_over_the_common_one() -> None:
    blocks = [
        {"selector": {"matchLabels": {"pool": "a"}}, "evictingConfig": {"evictingCPUHighWatermark": 70}},
        {"selector": {"matchLabels": {"pool": "a"}}, "cpuQosConfig": {"enable": True}},
        {"selector": {"matchLabels": {"pool": "b"}}, "cpuBurstConfig": {"enable": True}},
    ]
    found = read(
        {"pool": "a"}, blocks, evictingConfig={"evictingCPUHighWatermark": 90, "evictingCPULowWatermark": None}
    )
    assert found.cpu_qos.enable
    assert not found.cpu_burst.enable
    assert found.evicting.marks["cpu"] == Watermarks(high=90, low=30), "not the first block's"


def test_all_that_is_wrong_is_said_at_once_with_its_place() -> None:
    text = json.dumps(
        {
            "globalConfig": {
                "cpuQosConfi": {},
                "overSubscriptionConfig": {"overSubscriptionTypes": "cpu,gpu"},
                "networkQosConfig": {"offlineLowBandwidthPercent": 50, "qosCheckInterval": 0},
                "cpuThrottlingConfig": {"cpuThrottlingThreshold": 101, "cpuRecoverLimitPercent": 0},
            },
            "nodesConfig": [{"selector": 3}, 7, {"evictingConfig": {"evictingMemoryLowWatermark": 61}}],
        }
    )
    with pytest.raises(InvalidInput) as refused:
        read_colocation(text, {})
    for part in (
        "globalConfig.cpuQosConfi: no such key; did you mean 'cpuQosConfig'?",
        "overSubscriptionConfig.overSubscriptionTypes: 'gpu' must be cpu, memory or both",
        "networkQosConfig.offlineLowBandwidthPercent: 50 must be at most offlineHighBandwidthPercent, 40",
        "networkQosConfig.qosCheckInterval: 0 must be at least 1",
        "cpuThrottlingConfig.cpuThrottlingThreshold: 101",
        "cpuThrottlingConfig.cpuRecoverLimitPercent: 0",
        "nodesConfig[0].selector",
        "nodesConfig[1]: must be a mapping",
        "nodesConfig[2].evictingConfig.evictingMemoryLowWatermark: 61 must be at most the high watermark, 60",
    ):
        assert part in str(refused.value)


def test_the_ends_of_the_ranges_of_throttling_can_be_used() -> None:
    section = {"cpuThrottlingThreshold": 100, "cpuJitterLimitPercent": 0, "cpuRecoverLimitPercent": 1}
    lines = read(cpuThrottlingConfig=section).throttling.lines
    assert (lines.threshold, lines.jitter, lines.recover) == (100, 0, 1)


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"globalConfig": 3}', '{"nodesConfig": 3}', "[" * 50_000])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_colocation(text, {})
    assert completed(text) is None


def test_sections_that_older_configurations_lack_are_filled_in() -> None:
    filled = completed('{"globalConfig": {"cpuQosConfig": {"enable": true}}, "nodesConfig": []}')
    assert filled is not None
    assert set(json.loads(filled)["globalConfig"]) == {"cpuQosConfig", "overSubscriptionConfig", "evictingConfig"}
    assert completed(filled) is None
    assert completed(default_text()) is None


def test_features_are_named_as_on_volcano_s_command_line() -> None:
    assert supported_features("OverSubscription,Eviction,Resources") == DEFAULT_FEATURES
    assert supported_features("*,-NetworkQoS") == frozenset(Feature) - {Feature.NETWORK_QOS}
    assert supported_features("Eviction,-*") == {Feature.EVICTION}, "it excludes nothing, as there"
    with pytest.raises(InvalidInput, match="CPUQos: no such feature; did you mean 'CPUQoS'"):
        supported_features("CPUQos,Eviction")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SECTION = st.sampled_from([*json.loads(default_text())["globalConfig"], "other"])


@given(st.dictionaries(SECTION, JSON, max_size=4), st.lists(st.dictionaries(SECTION, JSON, max_size=2), max_size=2))
def test_anything_is_either_read_or_refused(common: Any, blocks: Any) -> None:
    text = json.dumps({"globalConfig": common, "nodesConfig": blocks})
    try:
        found = read_colocation(text, LENDS)
    except InvalidInput:
        return
    assert all(mark.low <= mark.high for mark in found.evicting.marks.values())
