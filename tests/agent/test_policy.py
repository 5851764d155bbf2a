"""The policy: defaults, parts for some nodes, and every problem of a document at once, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.agent.handlers.suppress import SuppressOptions
from strato.agent.policy import AgentPolicy, read_policy
from strato.agent.registry import HandlerRegistry
from strato.errors import InvalidInput

HANDLER = """
from dataclasses import dataclass
from strato.agent.events import Action, ActionKind
from strato.agent.handlers import Handler

@dataclass(frozen=True)
class Options:
    line: float = 0.5

class Mine(Handler):
    name = "mine"
    defaults = Options()

    def on_host(self, event):
        return [Action(kind=ActionKind.EVENT, reason="Mine")] if event.cpu > self.options.line else []
"""


def read(text: str, labels: dict[str, str] | None = None, directory: Path | None = None) -> AgentPolicy:
    return read_policy(text, labels or {}, HandlerRegistry(directory))


def test_nothing_is_the_defaults() -> None:
    policy = read("")
    assert list(policy.handlers) == ["suppress", "burst", "hotspots"]
    assert policy.handlers["suppress"].options == SuppressOptions()
    assert (policy.sampling.interval_seconds, policy.sampling.round_seconds) == (1, 5)


def test_what_is_unusual_is_on_where_it_is_named() -> None:
    text = "handlers: {bestEffort: {thresholdPercent: 50}, suppress: {enabled: false}}"
    assert list(read(text).handlers) == ["burst", "hotspots", "bestEffort"]
    assert "bestEffort" in read("handlers: {bestEffort: {}}").handlers
    assert "bestEffort" not in read("handlers: {bestEffort: {enabled: false}}").handlers


def test_the_last_block_that_matches_a_node_counts() -> None:
    text = """
handlers: {suppress: {overload: 0.95, warning: 0.7}, burst: {enabled: false}}
nodes:
- selector: {matchLabels: {pool: a}}
  handlers: {suppress: {warning: 0.6}}
- selector: {matchExpressions: [{key: pool, operator: Exists}]}
  handlers: {suppress: {minCores: 1}}
"""
    assert read(text).handlers["suppress"].options.warning == 0.7
    options = read(text, {"pool": "a"}).handlers["suppress"].options
    assert (options.overload, options.warning, options.min_cores) == (0.95, 0.7, 1)
    assert "burst" not in read(text, {"pool": "a"}).handlers


BAD = [
    pytest.param("a: [", [""], id="no YAML"),
    pytest.param("[]", [""], id="no mapping"),
    pytest.param("nodes: {}", ["nodes"], id="an empty mapping is no list"),
    pytest.param("nodes: [{selector: []}]", ["nodes[0].selector"], id="an empty list is no selector"),
    pytest.param("handlers: {suppress: {warning: 0.95}}", ["handlers.suppress.warning"], id="lines crossed"),
    pytest.param("handlers: {suppress: {overload: 1.5, cutFraction: 0}}",
                 ["handlers.suppress.overload", "handlers.suppress.cutFraction"], id="two at once"),
    pytest.param("handlers: {supress: {}}", ["handlers.supress"], id="no such handler"),
    pytest.param("handlers: {suppress: {overlaod: 1}}", ["handlers.suppress.overlaod"], id="a misspelt key"),
    pytest.param("handlers: {suppress: {rounds: 1.5}}", ["handlers.suppress.rounds"], id="no whole number"),
    pytest.param("handlers: {suppress: {overload: .nan}}", [""], id="no number"),
    pytest.param("handlers: {mine: {file: ../mine.py}}", ["handlers.mine"], id="a file elsewhere"),
    pytest.param("handlers: {bestEffort: {thresholdPercent: 40, minPercent: 50}}", ["handlers.bestEffort.minPercent"],
                 id="a floor over the line"),
    pytest.param("handlers: {bestEffort: {evictLowerPercent: 50, evictUpperPercent: 40}}",
                 ["handlers.bestEffort.evictLowerPercent"], id="lines of evictions crossed"),
    pytest.param("apply: cri", ["apply"], id="no such backend"),
    pytest.param("trafficWebhook: {url: 'file:///etc/passwd'}", ["trafficWebhook.url"], id="no URL to call"),
    pytest.param("sampling: {intervalSeconds: 0}", ["sampling.intervalSeconds"], id="no interval"),
    pytest.param("{handlers: {suppress: 3}, nodes: [{selector: {}}, {selector: {}, handlers: {burst: 4}}]}",
                 ["handlers.suppress", "nodes[1].handlers.burst"], id="each where it is written, and once"),
    pytest.param("nodes: [{selector: {matchExpressions: [{key: a, operator: Near}]}}, 3]",
                 ["nodes[0].selector", "nodes[1]"], id="blocks of other nodes"),
]  # fmt: skip


@pytest.mark.parametrize("url", ["http://a/b", "https://a", ""])
def test_a_hook_is_called_by_http(url: str, tmp_path: Path) -> None:
    assert read(f"trafficWebhook: {{url: '{url}'}}", directory=tmp_path).webhook.url == url


@pytest.mark.parametrize(("text", "places"), BAD)
def test_every_problem_is_reported_with_its_place(text: str, places: list[str], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text, directory=tmp_path)
    assert [problem.where for problem in caught.value.problems] == places


def test_handlers_of_files_are_read_anew_when_they_change(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(HANDLER)
    registry = HandlerRegistry(tmp_path)
    text = "handlers: {mine: {file: mine.py, line: 0.25}}"
    policy = read_policy(text, {}, registry)
    assert policy.handlers["mine"].options.line == 0.25
    assert not registry.has_changed()
    file.write_text(HANDLER.replace("line: float", "other: float"))
    assert registry.has_changed()
    with pytest.raises(InvalidInput, match="no such key"):
        read_policy(text, {}, registry)
    file.write_text("raise RuntimeError('broken')")
    with pytest.raises(InvalidInput, match=r"RuntimeError: broken \(line 1\)"):
        read_policy(text, {}, registry)
