"""The ConfigMap ``volcano-agent-configuration``: enabled functions and thresholds, for all nodes and for some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from strato.agent.options import between, field_key, read_options
from strato.agent.volcano.lending import CPU, MEMORY, RESOURCES
from strato.agent.volcano.pressure import Watermarks
from strato.agent.volcano.throttling import Throttle
from strato.api.configtext import read_mapping
from strato.api.selectors import InvalidSelector, from_label_selector
from strato.api.shapes import LabelSelector
from strato.errors import InvalidInput, Problem, called, nearest, one_line

CONFIGMAP: Final = "volcano-agent-configuration"
KEY: Final = "colocation-config"
COLOCATION_LABEL: Final = "volcano.sh/colocation"
LENDING_LABEL: Final = "volcano.sh/oversubscription"
_COMMON, _SOME = "globalConfig", "nodesConfig"
_LABELS_SECTION: Final = "nodeLabelConfig"
_FILLED_IN: Final = ("overSubscriptionConfig", "evictingConfig")
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_MOST_PERCENT: Final = 1000


class Feature(StrEnum):
    """Feature of an agent, as ``--supported-features`` names it."""

    CPU_QOS = "CPUQoS"
    CPU_BURST = "CPUBurst"
    MEMORY_QOS = "MemoryQoS"
    MEMORY_QOS_V2 = "MemoryQoSV2"
    NETWORK_QOS = "NetworkQoS"
    OVERSUBSCRIPTION = "OverSubscription"
    EVICTION = "Eviction"
    RESOURCES = "Resources"
    CPU_THROTTLE = "CPUThrottle"


DEFAULT_FEATURES: Final = frozenset((Feature.OVERSUBSCRIPTION, Feature.EVICTION, Feature.RESOURCES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A section with only a switch."""

    enable: bool = False
    """Whether it is on, on nodes with one of the labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """``nodeLabelConfig``: defaults for nodes without the labels, which override it."""

    node_colocation_enable: bool = True
    """Whether the node runs offline pods beside online ones."""
    node_over_subscription_enable: bool = False
    """Whether the node also lends its unused resources to offline pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkQos:
    """``networkQosConfig``: percents of the node's bandwidth."""

    enable: bool = False
    """Whether the bandwidth of offline pods is limited."""
    online_bandwidth_watermark_percent: int = 80
    """Use by online pods at which offline pods get the low bandwidth. Range [1, 1000]."""
    offline_low_bandwidth_percent: int = 10
    """Bandwidth of offline pods at or above the watermark. Range [1, offlineHighBandwidthPercent]."""
    offline_high_bandwidth_percent: int = 40
    """Bandwidth of offline pods below the watermark. Range [offlineLowBandwidthPercent, 1000]."""
    qos_check_interval: int = 10_000_000
    """Interval of checks in nanoseconds. Above 0."""

    def problems(self) -> list[tuple[str, str]]:
        """Return what is out of range or contradicts itself."""
        percents = ("online_bandwidth_watermark_percent", "offline_low_bandwidth_percent")
        bounds = dict.fromkeys((*percents, "offline_high_bandwidth_percent"), (1, _MOST_PERCENT))
        found = list(between(self, {**bounds, "qos_check_interval": (1, 1e18)}))
        if self.offline_low_bandwidth_percent > self.offline_high_bandwidth_percent:
            high = self.offline_high_bandwidth_percent
            text = f"{self.offline_low_bandwidth_percent} must be at most offlineHighBandwidthPercent, {high}"
            found.append(("offline_low_bandwidth_percent", text))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSubscription:
    """``overSubscriptionConfig``."""

    enable: bool = True
    """Whether nodes with the label lend unused resources."""
    over_subscription_types: str = "cpu,memory"
    """Lent resources: ``cpu``, ``memory`` or both."""

    def problems(self) -> list[tuple[str, str]]:
        """Return unknown types."""
        unknown = sorted(set(types_of(self.over_subscription_types)) - set(RESOURCES))
        text = f"{', '.join(map(repr, unknown))} must be cpu, memory or both"
        return [("over_subscription_types", text)] if unknown else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicting:
    """``evictingConfig``: percentages of the allocatable resources."""

    cpu_high: int = field(default=80, metadata={"key": "evictingCPUHighWatermark"})
    """Use of CPU at which an offline pod is evicted. Above evictingCPULowWatermark."""
    memory_high: int = field(default=60, metadata={"key": "evictingMemoryHighWatermark"})
    """The same for memory."""
    cpu_low: int = field(default=30, metadata={"key": "evictingCPULowWatermark"})
    """Use of CPU at which offline pods may return. Above 0."""
    memory_low: int = field(default=30, metadata={"key": "evictingMemoryLowWatermark"})
    """The same for memory."""

    def problems(self) -> list[tuple[str, str]]:
        """Return what is out of range or contradicts itself."""
        found = list(between(self, {one.name: (1, 1e9) for one in fields(self)}))
        for low, high in (("cpu_low", "cpu_high"), ("memory_low", "memory_high")):
            if getattr(self, low) > getattr(self, high):
                found.append((low, f"{getattr(self, low)} must be at most the high watermark, {getattr(self, high)}"))
        return found

    @property
    def marks(self) -> Mapping[str, Watermarks]:
        """Return the watermarks by resource."""
        return {
            CPU: Watermarks(high=self.cpu_high, low=self.cpu_low),
            MEMORY: Watermarks(high=self.memory_high, low=self.memory_low),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuThrottling:
    """``cpuThrottlingConfig``."""

    enable: bool = False
    """Whether best-effort pods together are limited to the CPU that others leave."""
    cpu_throttling_threshold: int = 80
    """Percent of the allocatable CPU for all pods together. Range [1, 100]."""
    cpu_jitter_limit_percent: int = 1
    """Percent of the last quota; smaller changes are not written. At least 0."""
    cpu_recover_limit_percent: int = 10
    """Percent of the last quota by which it may grow at once. Above 0."""

    def problems(self) -> list[tuple[str, str]]:
        """Return what is out of range."""
        bounds: dict[str, tuple[float, float]] = {"cpu_throttling_threshold": (1, 100)}
        bounds |= {"cpu_jitter_limit_percent": (0, 1e9), "cpu_recover_limit_percent": (1, 1e9)}
        return list(between(self, bounds))

    @property
    def lines(self) -> Throttle:
        """Return the thresholds for the decision."""
        return Throttle(
            threshold=self.cpu_throttling_threshold,
            jitter=self.cpu_jitter_limit_percent,
            recover=self.cpu_recover_limit_percent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocationConfig:
    """The configuration of one node."""

    labels: NodeLabels = NodeLabels(node_colocation_enable=False)
    cpu_qos: Switch = Switch()
    cpu_burst: Switch = Switch()
    memory_qos: Switch = Switch()
    memory_qos_v2: Switch = Switch()
    network_qos: NetworkQos = NetworkQos()
    lending: OverSubscription = OverSubscription()
    evicting: Evicting = Evicting()
    throttling: CpuThrottling = CpuThrottling()

    def active(self, supported: Collection[Feature]) -> frozenset[Feature]:
        """Return the active features: supported, enabled, and wanted by the node's labels."""
        found = {Feature.EVICTION, Feature.RESOURCES}
        if self.labels.node_colocation_enable:
            switches: dict[Feature, Switch | NetworkQos] = {
                Feature.CPU_QOS: self.cpu_qos,
                Feature.CPU_BURST: self.cpu_burst,
                Feature.MEMORY_QOS: self.memory_qos,
                Feature.MEMORY_QOS_V2: self.memory_qos_v2,
                Feature.NETWORK_QOS: self.network_qos,
            }
            found |= {feature for feature, section in switches.items() if section.enable}
        if self.labels.node_over_subscription_enable:
            found |= {Feature.OVERSUBSCRIPTION} if self.lending.enable else set()
            found |= {Feature.CPU_THROTTLE} if self.throttling.enable else set()
        return frozenset(found & set(supported))


_SECTIONS: Final = {
    _LABELS_SECTION: "labels",
    "cpuQosConfig": "cpu_qos",
    "cpuBurstConfig": "cpu_burst",
    "memoryQosConfig": "memory_qos",
    "memoryQosV2Config": "memory_qos_v2",
    "networkQosConfig": "network_qos",
    "overSubscriptionConfig": "lending",
    "evictingConfig": "evicting",
    "cpuThrottlingConfig": "throttling",
}
"""Fields of `ColocationConfig` by key of a block."""


def default_text() -> str:
    """Return the text of a newly created ConfigMap."""
    common = {key: _written(getattr(ColocationConfig(), name)) for key, name in _SECTIONS.items()}
    common[_LABELS_SECTION] = _written(NodeLabels())
    return msgspec.json.format(msgspec.json.encode({_COMMON: common}), indent=2).decode()


def completed(text: str) -> str | None:
    """Return a configuration completed by sections that older versions lack; None if complete or invalid."""
    try:
        document = read_mapping(text, KEY)
    except InvalidInput:
        return None
    common = document.get(_COMMON)
    if not isinstance(common, dict):
        return None
    lacking = [key for key in _FILLED_IN if common.get(key) is None]
    if not lacking:
        return None
    document[_COMMON] = {**common, **{key: _written(getattr(ColocationConfig(), _SECTIONS[key])) for key in lacking}}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def read_colocation(text: str, labels: Mapping[str, str]) -> ColocationConfig:
    """Return a node's configuration: the common block, overridden by the last matching block, then by the labels.

    Args:
        text: Text of the ConfigMap.
        labels: Labels of the node.

    Raises:
        InvalidInput: Lists all problems, including those of blocks for other nodes.
    """
    document = read_mapping(text, KEY)
    problems = [
        Problem(str(key), f"no such key{nearest(str(key), (_COMMON, _SOME))}")
        for key in document
        if key not in (_COMMON, _SOME)
    ]
    common = document.get(_COMMON)
    if common is None:
        problems.append(Problem(_COMMON, "is missing; write {} for the defaults"))
    config, more = _read_block(ColocationConfig(), common, _COMMON)
    problems += more
    found = config
    blocks = document.get(_SOME) or []
    if not isinstance(blocks, list):
        problems.append(Problem(_SOME, f"must be a list, not {called(blocks)}"))
        blocks = []
    for number, block in enumerate(blocks):
        where = f"{_SOME}[{number}]"
        own, more = _read_block(config, block, where, extra=("selector",))
        problems += more
        try:
            chosen = block.get("selector") if isinstance(block, dict) else None
            selector = from_label_selector(msgspec.convert({} if chosen is None else chosen, LabelSelector))
            found = own if selector.matches(labels) else found
        except (InvalidSelector, msgspec.ValidationError) as error:
            problems.append(Problem(f"{where}.selector", one_line(error)))
    if problems:
        raise InvalidInput(KEY, problems)
    return replace(found, labels=labels_of(labels))


def labels_of(labels: Mapping[str, str]) -> NodeLabels:
    """Return the switches in a node's labels; lending includes running offline pods."""
    lends = labels.get(LENDING_LABEL, "") in _TRUE
    shares = labels.get(COLOCATION_LABEL, "") in _TRUE
    return NodeLabels(node_colocation_enable=lends or shares, node_over_subscription_enable=lends)


def types_of(text: str) -> tuple[str, ...]:
    """Return the resources in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def supported_features(text: str) -> frozenset[Feature]:
    """Return the features that ``--supported-features`` names: ``*`` is all, ``-NAME`` excludes one.

    Raises:
        InvalidInput: A name is unknown.
    """
    names = types_of(text)
    known = {str(feature): feature for feature in Feature}
    problems = [
        Problem(name, f"no such feature{nearest(bare, known)}; there are {', '.join(known)}")
        for name in names
        if (bare := name.removeprefix("-")) not in known and bare != "*"
    ]
    if problems:
        raise InvalidInput("--supported-features", problems)
    found = set(Feature) if "*" in names else {known[name] for name in names if name in known}
    return frozenset(found - {known[name[1:]] for name in names if name.startswith("-") and name[1:] in known})


def _read_block(
    base: ColocationConfig, given: Any, where: str, extra: Collection[str] = ()
) -> tuple[ColocationConfig, list[Problem]]:
    if given is None:
        return base, []
    if not isinstance(given, dict):
        return base, [Problem(where, f"must be a mapping, not {called(given)}")]
    allowed = (*_SECTIONS, *extra)
    problems = [
        Problem(f"{where}.{key}", f"no such key{nearest(str(key), allowed)}") for key in given if key not in allowed
    ]
    sections: dict[str, Any] = {}
    for key, name in _SECTIONS.items():
        section = given.get(key)
        if isinstance(section, dict):  # null means not set, as for Go's nil pointer
            section = {field: value for field, value in section.items() if value is not None}
        sections[name], more = read_options(getattr(base, name), section, f"{where}.{key}")
        problems += more
    return replace(base, **sections), problems


def _written(section: Any) -> dict[str, Any]:
    return {field_key(one): getattr(section, one.name) for one in fields(section)}
