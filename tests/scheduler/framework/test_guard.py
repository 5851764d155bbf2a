"""Plugins that fail are left out of the cycle, whatever they do wrong; jobs that fail cost no other job its turn."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strato.errors import InvalidInput
from strato.scheduler import session
from strato.scheduler.actions.allocate import Allocate
from strato.scheduler.cache.world import World
from strato.scheduler.config import parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework import pluginanswers, thirdparty
from strato.scheduler.framework.contract import WrongAnswer, checked
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import POINTS, TOGGLES, Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement import candidates
from strato.scheduler.placement import placer as placement
from strato.scheduler.plugins.gang import Gang
from strato.scheduler.statement import Statement
from tests.scheduler import worlds

BASE = "actions: 'enqueue, allocate, backfill, preempt, reclaim'\ntiers:\n- plugins: [{name: gang}, {name: predicates}]"


def with_plugin(plugin: type[Plugin]) -> Config:
    config = parse_config(BASE)
    option = PluginOption(plugin.name, plugin, None, TOGGLES | {"enableHierarchy": False})
    return Config(config.actions, ((option, *config.tiers[0]),))


def small() -> World:
    objects = [
        worlds.queue(),
        worlds.node("n", cpu="4"),
        worlds.group("g", 2, phase="Pending", minResources={"cpu": "2"}),
    ]
    return worlds.world(*objects, worlds.pod("a", "g"), worlds.pod("b", "g"), worlds.pod("large", cpu="99"))


def cycle(world: World, config: Config) -> Plan:
    return run_cycle(world, config, now=0.0, rng=random.Random(0), uid="test")


def boom(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("boom")


ASKED = ["open", "close", "__init__", "resources", "job_order", "task_order", "queue_order", "filter", "filter_task"]
ASKED += [
    "pre_filter",
    "static_scores",
    "resource_terms",
    "score",
    "batch_score",
    "overused",
    "allocatable",
    "job_valid",
]
ASKED += ["job_ready", "job_enqueueable", "job_enqueued", "on_place"]


@pytest.mark.parametrize("point", ASKED)
def test_a_plugin_that_raises_is_left_out_and_told(point: str) -> None:
    bad = type("Bad", (Plugin,), {"name": "bad", point: boom})
    world = small()  # and a second queue, for nobody asks where the only one stands
    second = [worlds.queue("second"), worlds.group("h", 1, queue="second"), worlds.pod("c", "h", cpu="99")]
    worlds.feed(world, *second)
    plan = cycle(world, with_plugin(bad))
    assert worlds.binds(plan) == {"ns/a": "n", "ns/b": "n"}
    (failure,) = plan.failures
    assert (failure.plugin, failure.point) == ("bad", point)
    assert "ZeroDivisionError: boom (test_guard.py:" in failure.error


@pytest.mark.parametrize("point", sorted(POINTS))
def test_no_extension_point_can_stop_scheduling(point: str) -> None:
    bad = type("Bad", (Plugin,), {"name": "bad", point: boom})
    assert worlds.binds(cycle(small(), with_plugin(bad))) == {"ns/a": "n", "ns/b": "n"}


WRONG: list[Any] = [
    pytest.param("filter", lambda *_: np.zeros(5), id="a filter's bare array"),
    pytest.param("filter", lambda *_: Verdicts(np.zeros(9, np.uint8), ()), id="verdicts of the wrong length"),
    pytest.param(
        "filter", lambda s, c, n, rows: Verdicts(np.ones(len(rows), np.uint8), ()), id="a code without reason"
    ),
    pytest.param("score", lambda *_: np.zeros(9), id="scores of the wrong length"),
    pytest.param("score", lambda s, c, n, rows: np.full(len(rows), np.nan), id="scores that are no numbers"),
    pytest.param("static_scores", lambda *_: 5, id="a static score that is a number"),
    pytest.param("batch_score", lambda *_: "high", id="a batch score that is text"),
    pytest.param("job_order", lambda *_: None, id="no sort key"),
    pytest.param("job_enqueueable", lambda *_: "yes", id="a vote that is text"),
    pytest.param("allocatable", lambda *_: None, id="no count"),
    pytest.param("pre_filter", lambda *_: "no", id="a reason that is text"),
    pytest.param("job_valid", lambda *_: False, id="a validity that is a truth value"),
]


@pytest.mark.parametrize(("point", "answer"), WRONG)
def test_a_wrong_answer_is_the_plugins_failure(point: str, answer: Any) -> None:
    bad = type("Bad", (Plugin,), {"name": "bad", point: answer})
    plan = cycle(small(), with_plugin(bad))
    assert worlds.binds(plan) == {"ns/a": "n", "ns/b": "n"}
    assert [failure.point for failure in plan.failures] == [point]


CHECKED: list[Any] = [
    pytest.param("hyper_node_order", ("sub", [4, 7], False), [1.0, 2.0], [1.0, 2.0], id="scores of domains"),
    pytest.param("hyper_node_order", ("sub", [4, 7], False), [1.0], WrongAnswer, id="too few scores of domains"),
    pytest.param("sub_job_ready", ("sub",), 1, True, id="a sub-job that is ready"),
    pytest.param("sub_job_ready", ("sub",), 0, False, id="a sub-job that is not"),
    pytest.param("sub_job_pipelined", ("sub",), "yes", WrongAnswer, id="a vote that is text"),
    pytest.param("missing_until_sub_ready", ("sub",), 0, 1, id="a count below one"),
    pytest.param("unified_evictable", ("evictor", ()), (["a"], 1), WrongAnswer, id="victims that are text"),
    pytest.param("job_order", ("job",), (2, "late"), (2, "late"), id="a sort key of several parts"),
]


@pytest.mark.parametrize(("point", "args", "answer", "counts"), CHECKED)
def test_what_others_answer_counts_as_they_say(point: str, args: tuple[Any, ...], answer: Any, counts: Any) -> None:
    asked = checked(lambda *_: answer, POINTS[point])
    if counts is WrongAnswer:
        with pytest.raises(WrongAnswer):
            asked(*args)
    else:
        found = asked(*args)
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == counts


def test_whatever_the_session_asks_for_is_declared_and_the_other_way_round() -> None:
    source = "".join(Path(module.__file__).read_text() for module in (pluginanswers, session, candidates, placement))
    ways = r"answers\[|_asked\(|tiers\[|_vote\(|_victims\(|(?:wrap|wrap_each|call|answers)\(plugin, "
    asked = {*re.findall(f'(?:{ways})"([a-z_]+)"', source), *pluginanswers._BY_PODS}
    assert asked - {"resources", "open"} == POINTS.keys()  # these two have every plugin called that is built
    assert all(vars(Plugin)[name].__doc__ for name in POINTS)
    assert {toggle for found in POINTS.values() for toggle in found.toggles} <= TOGGLES.keys()


def test_sort_keys_that_do_not_compare_are_the_plugins_failure() -> None:
    class Bad(Plugin):
        name = "bad"

        def task_order(self, task: Any) -> Any:
            return 1 if task.name == "a" else "one"

    plan = cycle(small(), with_plugin(Bad))
    assert worlds.binds(plan) == {"ns/a": "n", "ns/b": "n"}
    assert [failure.point for failure in plan.failures] == ["task_order"]


@pytest.mark.parametrize("culprit", ["", "a", "m", "z"], ids=lambda name: f"at {name}" if name else "at none")
def test_a_plugin_that_raises_at_one_task_has_no_say_about_any(culprit: str) -> None:
    """Half of its keys would make an order that nobody meant."""

    class Backwards(Plugin):
        name = "backwards"

        def task_order(self, task: Any) -> Any:
            if task.name == culprit:
                raise ZeroDivisionError
            return -ord(task.name)

    pods = [worlds.pod(name, "g") for name in "amz"]
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="1"), worlds.group("g", 1), *pods)
    plan = cycle(world, with_plugin(Backwards))
    assert list(worlds.binds(plan)) == ["ns/a" if culprit else "ns/z"]
    assert [failure.point for failure in plan.failures] == (["task_order"] if culprit else [])


def test_it_is_asked_again_in_the_next_cycle() -> None:
    answers: list[int] = []

    class Once(Plugin):
        name = "once"

        def filter(self, cls: Any, nodes: Any, rows: Any) -> Verdicts | None:
            answers.append(len(rows))
            if len(answers) == 1:
                raise ValueError
            return None

    world = small()
    config = with_plugin(Once)
    assert len(cycle(world, config).failures) == 1
    assert len(answers) == 1
    worlds.feed(world, worlds.pod("c", "g"))
    assert cycle(world, config).failures == []
    assert len(answers) > 1


def test_without_gang_there_is_still_no_half_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gang, "job_ready", boom)
    world = small()
    worlds.feed(world, worlds.group("too-large", 5), *(worlds.pod(f"t{i}", "too-large") for i in range(5)))
    plan = cycle(world, parse_config(BASE))
    assert worlds.binds(plan) == {"ns/a": "n", "ns/b": "n"}
    assert [failure.plugin for failure in plan.failures] == ["gang"]


def test_an_error_over_one_job_costs_no_other_job_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = Statement.placed

    def fragile(self: Statement, tasks: Any, *rest: Any, **more: Any) -> None:
        placed(self, tasks, *rest, **more)
        if tasks[0].job.key == "ns/bad":
            raise RuntimeError("an error of ours")

    monkeypatch.setattr(Statement, "placed", fragile)
    world, twin = small(), small()
    worlds.feed(world, worlds.group("bad", 1), worlds.pod("x", "bad"))
    worlds.feed(twin, worlds.group("bad", 1), worlds.pod("x", "bad", cpu="50"))
    plan = cycle(world, parse_config(BASE))
    assert worlds.binds(plan) == {"ns/a": "n", "ns/b": "n"}
    assert [failure.point for failure in plan.failures] == ["job"]
    assert plan.verdicts["ns/bad"][0].code == "Error"
    cycle(twin, parse_config(BASE))
    assert worlds.fingerprint(world)["nodes"] == worlds.fingerprint(twin)["nodes"]


def test_an_error_of_an_action_leaves_the_others_and_the_world_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Allocate, "execute", boom)
    plan = cycle(small(), parse_config(BASE))
    assert [(f.plugin, f.point) for f in plan.failures] == [("core", "action allocate")]
    assert plan.binds == []


def test_a_plugin_from_a_file_is_read_checked_and_named(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from strato.scheduler.framework.arguments import arg\n"
        "from strato.scheduler.framework.plugin import Plugin\n"
        "@dataclass(frozen=True)\n"
        "class Args:\n"
        "    weight: int = arg('mine.weight', 3)\n"
        "class Mine(Plugin):\n"
        "    name = 'mine'\n"
        "    args_type = Args\n"
    )
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "typo.py").write_text("def f(:\n")

    def read(plugin: str) -> Config:
        return parse_config(f"actions: allocate\ntiers:\n- plugins:\n  - {plugin}", base=tmp_path)

    (option,) = read("{name: mine, path: mine.py, arguments: {mine.weight: 5}}").tiers[0]
    assert (option.name, option.args.weight, option.file) == ("mine", 5, tmp_path / "mine.py")
    for plugin, words in {
        "{name: yours, path: mine.py}": "defines no plugin called 'yours'; it has 'mine'",
        "{name: mine, path: absent.py}": "No such file",
        "{name: mine, path: broken.py}": "ModuleNotFoundError: No module named 'nothing_of_that_name' (line 1)",
        "{name: mine, path: typo.py}": "typo.py, line 1",
        "{name: mine, path: mine.py, arguments: {mine.wieght: 5}}": "did you mean 'mine.weight'?",
    }.items():
        with pytest.raises(InvalidInput, match="1 problem") as caught:
            read(plugin)
        assert words in str(caught.value)


def test_an_installed_package_offers_its_plugin_by_name(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_plugins.py").write_text(
        "from strato.scheduler.framework.plugin import Plugin\nclass Acme(Plugin):\n    name = 'acme'\nNOTHING = 5\n"
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    entries = ["acme = acme_plugins:Acme", "odd = acme_plugins:NOTHING", "gone = acme_nowhere:Acme"]
    (info / "entry_points.txt").write_text("[strato.plugins]\n" + "\n".join(entries))
    monkeypatch.syspath_prepend(tmp_path)
    thirdparty.forget_installed()
    try:
        config = parse_config("actions: allocate\ntiers: [{plugins: [{name: acme}]}]")
        assert config.tiers[0][0].plugin.__name__ == "Acme"
        for name, words in {
            "odd": "is not a subclass",
            "gone": "cannot be imported",
            "acne": "did you mean 'acme'?",
        }.items():
            with pytest.raises(InvalidInput) as caught:
                parse_config(f"actions: allocate\ntiers: [{{plugins: [{{name: {name}}}]}}]")
            assert words in str(caught.value)
    finally:
        thirdparty.forget_installed()
