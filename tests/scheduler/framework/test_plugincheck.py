"""What a plugin's author mistyped is found in the source; what is right, whatever its style, is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.errors import InvalidInput
from strato.scheduler.config import parse_config
from strato.scheduler.framework import thirdparty
from strato.scheduler.framework.plugincheck import problems_of
from strato.scheduler.framework.reference import CLASSES, members_of
from strato.scheduler.registry import PLUGINS

HEAD = """
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import numpy as np
from strato.scheduler.framework import Job, NodeTable, Plugin, Queue, Reason, Rows, Task, TaskClass, Verdicts, arg

@dataclass(frozen=True)
class Args:
    weight: int = arg("weight", 1)

class Mine(Plugin):
    name = "mine"
    args_type = Args
"""
FIRST = HEAD.count("\n") + 1


def check(tmp_path: Path, body: str, head: str = HEAD) -> list[str]:
    file = tmp_path / "mine.py"
    file.write_text(head + body)
    plugin = thirdparty.from_file(file, "mine")
    found = problems_of(plugin, file)
    assert all(problem.where.startswith(f"{file}, line ") for problem in found)
    return [f"{int(problem.where.rpartition(' ')[2]) - FIRST}: {problem.message}" for problem in found]


WRONG = [
    pytest.param(
        "    def fliter(self, cls, nodes, rows): ...",
        "Mine.fliter is no extension point; did you mean 'filter'?",
        id="a point",
    ),
    pytest.param(
        "    def job_oder(self, job): ...",
        "Mine.job_oder is no extension point; did you mean 'job_order'?",
        id="an order",
    ),
    pytest.param(
        "    def opens(self, ssn): ...", "Mine.opens is no extension point; did you mean 'open'?", id="a frame"
    ),
    pytest.param(
        "    time_base = True", "Mine.time_base is no attribute of a plugin; did you mean 'time_based'?", id="a setting"
    ),
    pytest.param(
        "    def filter(self, task): ...",
        "Mine.filter is called with (self, cls, nodes, rows); take the same",
        id="too few",
    ),
    pytest.param(
        "    def job_order(self, job, queue): ...",
        "Mine.job_order is called with (self, job); take the same",
        id="too many",
    ),
    pytest.param(
        "    def job_order(self, j): return -j.prioritty",
        "j.prioritty: Job has no 'prioritty'; did you mean 'priority'?",
        id="of a parameter of an extension point, whatever it is called",
    ),
    pytest.param(
        "    def task_order(self, task): return task.job.queue.wieght",
        "task.job.queue.wieght: Queue has no 'wieght'; did you mean 'weight'?",
        id="of what is reached from one",
    ),
    pytest.param(
        "    def filter_task(self, task, nodes, rows): return task.pod.metadata.anotation('x')",
        "task.pod.metadata.anotation: ObjectMeta has no 'anotation'; did you mean 'annotation'?",
        id="of an API object",
    ),
    pytest.param(
        "    def score(self, cls, nodes, rows): return nodes.idel[rows]",
        "nodes.idel: NodeTable has no 'idel'; did you mean 'idle'?",
        id="of nodes",
    ),
    pytest.param(
        "    def overused(self, queue): return self.args.wait > 1",
        "self.args.wait: Args has no 'wait'; did you mean 'weight'?",
        id="of the own arguments",
    ),
    pytest.param(
        "    def job_order(self, job): return min(t.prio for t in job.tasks.values())",
        "t.prio: Task has no 'prio'; did you mean 'priority'?",
        id="in a comprehension",
    ),
    pytest.param(
        "    def victim_tasks(self, tasks):\n        for one in tasks:\n            print(one.roles)",
        "one.roles: Task has no 'roles'; did you mean 'role'?",
        id="in a loop",
    ),
    pytest.param(
        "    def job_order(self, job): return self._key(job)\n    def _key(self, job: Job): return job.quue",
        "job.quue: Job has no 'quue'; did you mean 'queue'?",
        id="of an annotated parameter of a helper",
    ),
    pytest.param(
        "    def queue_order(self, queue):\n        def key(q: Queue): return q.weigth\n        return key(queue)",
        "q.weigth: Queue has no 'weigth'; did you mean 'weight'?",
        id="in a function within",
    ),
]


@pytest.mark.parametrize(("body", "expected"), WRONG)
def test_what_is_mistyped_is_found_with_its_line(tmp_path: Path, body: str, expected: str) -> None:
    (found,) = check(tmp_path, body)
    line, _, message = found.partition(": ")
    assert message == expected
    assert 0 <= int(line) <= body.count("\n")


RIGHT = [
    pytest.param(
        "    def prices(self, job): ...\n    def job_order(self, job): return self.prices(job)", id="a helper"
    ),
    pytest.param(
        "    def filters(self): return []\n    def overused(self, queue): return bool(self.filters())",
        id="a helper nearly called like a point, which the file calls itself",
    ),
    pytest.param("    def filter(self, cls, nodes, rows, deep=False): ...", id="more arguments, with defaults"),
    pytest.param("    def filter(self, *given): ...", id="any arguments"),
    pytest.param("    def filter(self, c, n, r): ...", id="other names"),
    pytest.param("    def job_order(self, job): return getattr(job, 'rank', 0) or job.rank", id="what may be missing"),
    pytest.param(
        "    def job_order(self, job):\n        job = job.group\n        return job.spec.queue", id="a name used again"
    ),
    pytest.param(
        "    def job_order(self, job):\n        for job in [1j]:\n            print(job.imag)\n        return 0",
        id="a loop's own",
    ),
    pytest.param("    def job_order(self, job): return max((lambda job: job.real)(1), 0)", id="a lambda's own"),
    pytest.param("    def job_order(self, job): return [job.imag for job in [1j]][0]", id="a comprehension's own"),
    pytest.param(
        "    def task_order(self, task): return (task.granted('mine'), task.cls.spec.node_selector.get('a'))",
        id="all that there is",
    ),
    pytest.param("    def open(self, ssn): self.now = ssn.now + ssn.world.nodes.size", id="a cycle"),
    pytest.param("    job_factor = 3\n    def job_order(self, job): return self.job_factor", id="a constant"),
]


@pytest.mark.parametrize("body", RIGHT)
def test_what_is_right_is_left_alone(tmp_path: Path, body: str) -> None:
    assert check(tmp_path, body) == []


def test_arguments_that_no_configuration_could_set_are_found(tmp_path: Path) -> None:
    plain = HEAD.replace('arg("weight", 1)', "1")
    (found,) = check(tmp_path, "", plain)
    assert found.endswith("Args.weight has no key; declare it with arg('weight', DEFAULT)")
    (found,) = check(tmp_path, "", HEAD.replace("@dataclass(frozen=True)\n", ""))
    assert "Mine.args_type is no dataclass" in found


def test_a_configuration_with_such_a_plugin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HEAD + "    def job_oder(self, job): return job.prio\n")
    text = 'actions: "allocate"\ntiers: [{plugins: [{name: mine, path: mine.py, arguments: {wieght: 2}}]}]'
    with pytest.raises(InvalidInput) as caught:
        parse_config(text, base=tmp_path)
    (problem,) = caught.value.problems
    assert problem.where == f"{tmp_path / 'mine.py'}, line {FIRST}"
    (tmp_path / "mine.py").write_text(HEAD)
    with pytest.raises(InvalidInput, match=r"arguments\.wieght: no such argument; did you mean 'weight'\?"):
        parse_config(text, base=tmp_path)


@pytest.mark.parametrize("name", PLUGINS)
def test_nothing_is_found_in_our_own_plugins(name: str) -> None:
    assert problems_of(PLUGINS[name]) == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_attribute_has_a_type_and_a_description(cls: type) -> None:
    incomplete = [member.name for member in members_of(cls).values() if not (member.type and member.text)]
    assert incomplete == []
