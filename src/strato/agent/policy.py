"""The policy of all agents: ``policy.yaml`` of a ConfigMap, decoded strictly, with optional blocks for some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from strato.agent.handlers import Handler
from strato.agent.options import between, read_options
from strato.agent.registry import BUILT_IN, HandlerRegistry
from strato.api.configtext import read_mapping
from strato.api.selectors import InvalidSelector, from_label_selector
from strato.api.shapes import LabelSelector
from strato.errors import InvalidInput, Problem, called, nearest, one_line
from strato.thirdparty import NotLoaded

KEY: Final = "policy.yaml"
_BACKENDS: Final = ("cgroup", "resize")
_SECTIONS: Final = ("sampling", "trafficWebhook", "apply", "handlers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Intervals of samples and decisions."""

    interval_seconds: float = 1.0
    """Interval of samples. Range [0.1, 60]."""
    round_seconds: float = 5.0
    """Interval of decisions, which use the mean of the samples in it. At least ``intervalSeconds``."""

    def problems(self) -> list[tuple[str, str]]:
        """Return values that are out of range."""
        found = list(between(self, {"interval_seconds": (0.1, 60)}))
        return found + list(between(self, {"round_seconds": (self.interval_seconds, 3600)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """The load balancer's hook that requests for less traffic are sent to."""

    url: str = ""
    """URL of the hook; empty sends no requests."""
    target: float = 0.80
    """Used fraction of the resource to be reached by less traffic. Range (0, 1)."""

    def problems(self) -> list[tuple[str, str]]:
        """Return values that cannot be used."""
        found = list(between(self, {"target": (0.01, 0.99)}))
        if self.url and not self.url.startswith(("http://", "https://")):
            found.append(("url", f"{self.url!r} must begin with http:// or https://"))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerPolicy:
    """An enabled handler: its class and options."""

    kind: type[Handler]
    options: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """The policy of one node's agent."""

    sampling: Sampling = Sampling()
    webhook: WebhookOptions = WebhookOptions()
    backend: str = "cgroup"
    """``cgroup`` writes quotas to the kernel; ``resize`` changes the pod's limit by the API where possible."""
    handlers: Mapping[str, HandlerPolicy] = field(default_factory=dict)
    """Enabled handlers, in calling order."""


def read_policy(text: str, labels: Mapping[str, str], registry: HandlerRegistry) -> AgentPolicy:
    """Return the policy for a node.

    Args:
        text: YAML; empty means all defaults. Of ``nodes[]``, the last block whose selector matches applies.
        labels: Labels of the node.
        registry: Finds handlers.

    Raises:
        InvalidInput: Lists the problems of all blocks, including those for other nodes.
    """
    document = read_mapping(text, KEY)
    blocks = document.get("nodes", [])
    common = {key: value for key, value in document.items() if key != "nodes"}
    policy, problems = _read_block({}, common, "", registry, allowed=(*_SECTIONS, "nodes"))
    if blocks is not None and not isinstance(blocks, list):
        problems.append(Problem("nodes", f"must be a list, not {called(blocks)}"))
        blocks = []
    for number, block in enumerate(blocks or ()):
        where = f"nodes[{number}]"
        if not isinstance(block, dict):
            problems.append(Problem(where, f"must be a mapping, not {called(block)}"))
            continue
        own = {key: value for key, value in block.items() if key != "selector"}
        found, more = _read_block(common, own, f"{where}.", registry, allowed=(*_SECTIONS, "selector"))
        problems += more
        try:
            chosen = block.get("selector")
            selector = from_label_selector(msgspec.convert({} if chosen is None else chosen, LabelSelector))
            policy = found if selector.matches(labels) else policy
        except (InvalidSelector, msgspec.ValidationError) as error:
            problems.append(Problem(f"{where}.selector", one_line(error)))
    if problems:
        raise InvalidInput(KEY, problems)
    return policy


def _read_block(
    common: Mapping[str, Any], own: Mapping[str, Any], where: str, registry: HandlerRegistry, allowed: tuple[str, ...]
) -> tuple[AgentPolicy, list[Problem]]:
    """Return a block's values merged over the common block's, and the block's own problems."""
    problems = [
        Problem(f"{where}{key}", f"no such key{nearest(str(key), allowed)}") for key in own if key not in allowed
    ]
    base_sampling, _ = read_options(Sampling(), common.get("sampling"), "sampling")
    sampling, more = read_options(base_sampling, own.get("sampling"), f"{where}sampling")
    problems += more
    base_webhook, _ = read_options(WebhookOptions(), common.get("trafficWebhook"), "trafficWebhook")
    webhook, more = read_options(base_webhook, own.get("trafficWebhook"), f"{where}trafficWebhook")
    problems += more
    backend = own.get("apply", common.get("apply", _BACKENDS[0]))
    if backend not in _BACKENDS:
        problems.append(Problem(f"{where}apply", f"{backend!r} must be one of {', '.join(_BACKENDS)}"))
    handlers, more = _read_handlers(common.get("handlers"), own.get("handlers"), f"{where}handlers", registry)
    policy = AgentPolicy(sampling=sampling, webhook=webhook, backend=str(backend), handlers=handlers)
    return policy, problems + more


def _read_handlers(
    common: Any, own: Any, where: str, registry: HandlerRegistry
) -> tuple[dict[str, HandlerPolicy], list[Problem]]:
    problems = []
    if own is not None and not isinstance(own, dict):
        problems.append(Problem(where, f"must be a mapping, not {called(own)}"))
    common, own = (one if isinstance(one, dict) else {} for one in (common, own))
    found = {}
    for name in dict.fromkeys([*BUILT_IN, *map(str, common), *map(str, own)]):
        merged: dict[str, Any] = {}
        for given, is_own in ((common.get(name), False), (own.get(name), True)):
            if isinstance(given, dict):
                merged |= given
            elif given is not None and is_own:
                problems.append(Problem(f"{where}.{name}", f"must be a mapping, not {called(given)}"))
        is_enabled, file = merged.pop("enabled", None), merged.pop("file", "")
        if is_enabled is not None and not isinstance(is_enabled, bool):
            problems.append(Problem(f"{where}.{name}.enabled", f"must be true or false, not {is_enabled!r}"))
        try:
            kind = registry.find(name, str(file))
        except NotLoaded as error:
            problems.append(Problem(f"{where}.{name}", str(error)))
            continue
        options, more = read_options(kind.defaults, merged, f"{where}.{name}")
        problems += more
        if is_enabled or (is_enabled is None and (kind.is_usual or name in common or name in own)):
            found[name] = HandlerPolicy(kind=kind, options=options)
    return found, problems
