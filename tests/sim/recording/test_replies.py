"""A scheduler that asks an extender can be replayed when that is gone: what it answered is in the log."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from strato.scheduler.cache.replies import KnownReplies, Reply, question_of
from strato.scheduler.config import parse_config
from strato.sim.recording import entries as e
from strato.sim.recording.anonymise import Anonymiser
from strato.sim.recording.log import open_log
from strato.sim.recording.recorder import Hiding
from strato.sim.recording.replay import ReplayTally, replay
from strato.testing.harness import Harness
from strato.testing.manifests import vcjob
from tests.scheduler.plugins.test_extender import plugin, serving
from tests.sim.recording.recordings import record


async def few_jobs(h: Harness) -> None:
    for number in range(6):
        await h.apply(vcjob(f"job-{number}", queue="a", min_available=2).task("w", 2, cpu="1", run_seconds=30))
        await h.clock.sleep(7.0)
    await h.clock.sleep(200.0)


def config(url: str, *verbs: str) -> str:
    tiers = [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "predicates"}, plugin(url, *verbs)]}]
    return json.dumps({"actions": "enqueue, allocate, backfill", "tiers": tiers})


def moody() -> Callable[[str, Any], Any]:
    """Return an extender whose answers do not follow from its questions, and that breaks down now and then."""
    count = 0

    def answer(verb: str, body: Any) -> Any:
        nonlocal count
        count += 1
        if count % 11 == 0:
            return None
        if verb == "predicate":
            return {} if count % 3 else {"status": "not in the mood", "code": 2}
        if verb == "prioritize":
            return {
                "nodeScore": {node["Name"]: (count * 7 + 3 * place) % 5 for place, node in enumerate(body["nodes"])}
            }
        return {}

    return answer


Story = Callable[[Harness], Awaitable[None]]


def recorded(path: Path, story: Story = few_jobs, hiding: Hiding | None = None) -> list[str]:
    with serving(moody()) as (url, asked):
        record(path, story, config=config(url, "predicate", "prioritize", "onSessionOpen"), hiding=hiding)
        return asked


def test_a_replay_decides_by_what_an_extender_answered_that_is_gone(tmp_path: Path) -> None:
    asked = recorded(tmp_path / "log")
    assert {"predicate", "prioritize", "onSessionOpen"} <= set(asked)
    found = [entry for entry in open_log(tmp_path / "log").entries() if isinstance(entry, e.Replied)]
    assert len(found) == len(asked)
    assert any(reply.problem for reply in found)
    tally = ReplayTally()
    assert list(replay(open_log(tmp_path / "log"), tally=tally)) == []
    assert tally.is_exact
    assert tally.notes == []
    assert tally.binds == tally.same_binds >= 8


def test_another_policy_has_the_answers_to_the_same_questions_only(tmp_path: Path) -> None:
    recorded(tmp_path / "log")
    log = open_log(tmp_path / "log")
    tally = ReplayTally()
    list(replay(log, parse_config(config("http://127.0.0.1:9/other", "predicate")), tally=tally))
    (note,) = tally.notes
    assert note.startswith("the log has no answer to some questions")
    assert not tally.is_exact


def test_hashed_names_are_not_told_by_answers(tmp_path: Path) -> None:
    recorded(tmp_path / "log", hiding=Anonymiser(b"secret"))
    assert not [entry for entry in open_log(tmp_path / "log").entries() if isinstance(entry, e.Replied)]


@pytest.mark.parametrize("text", ["{}", '{"status": 1}'])
def test_a_question_asked_twice_has_its_answers_in_their_order(text: str) -> None:
    known = KnownReplies()
    first, second = Reply(text, "", 1.0), Reply("", "no answer", 2.0)
    known.add(question_of("http://x/a", b"q"), first)
    known.add(question_of("http://x/a", b"q"), second)
    assert [known.take("http://x/a", b"q") for _ in range(2)] == [first, second]
    assert known.missed == 0
    assert known.take("http://x/a", b"q").problem.startswith("http://x/a: the log has no answer")
    assert known.take("http://x/b", b"q").problem
    assert known.missed == 2
