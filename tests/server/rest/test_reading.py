"""Lists, pages and watches through the API against a plain dictionary."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock, VirtualTimeLoop
from strato.server import store as stores
from strato.server.embedded import in_memory_server
from tests.profiles import examples

NAMES = st.sampled_from("abcdef")
MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS_KEPT = 8
Contents = dict[str, str]


class ReadingMachine(RuleBasedStateMachine):
    """Clients write, list, turn pages long after the first, and watch from revisions of their choice."""

    def __init__(self) -> None:
        super().__init__()
        clock = VirtualClock()
        self.loop = VirtualTimeLoop(clock)

        async def start() -> Any:
            return in_memory_server(clock, random.Random(1))

        self.server = self.loop.run_until_complete(start())
        self.contents: Contents = {}
        self.history: dict[int, Contents] = {self.server.store.published: {}}
        self.writes = 0
        self.pages: list[tuple[str, str, int]] = []
        """Continue token, the last name seen, and the revision of the first page."""

    @initialize()
    def keep_few_events(self) -> None:
        self.kept, stores.EVENTS_KEPT = stores.EVENTS_KEPT, EVENTS_KEPT

    def teardown(self) -> None:
        stores.EVENTS_KEPT = self.kept
        self.loop.close()

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        async def handle() -> tuple[Response, bytes]:
            sent = b"" if body is None else json.dumps(body).encode()
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            asked = {name: [value] for name, value in query.items()}
            answer = await self.server.handle(Request(method, path, asked, {"content-type": media}, sent, User("u")))
            if answer.stream is None:
                return answer, answer.body
            return answer, b"".join([chunk async for chunk in answer.stream])

        answer, content = self.loop.run_until_complete(handle())
        if answer.stream is not None:
            return answer.status, [json.loads(line) for line in content.splitlines()]
        return answer.status, json.loads(content)

    # writes

    @rule(name=NAMES, value=st.sampled_from("12"))
    def write(self, name: str, value: str) -> None:
        if name in self.contents:
            code, answer = self.ask("PATCH", f"{MAPS}/{name}", {"data": {"v": value}})
            assert code == 200
        else:
            code, answer = self.ask("POST", MAPS, {"metadata": {"name": name}, "data": {"v": value}})
            assert code == 201
        if self.contents.get(name) != value:
            self._record({**self.contents, name: value})
        assert int(answer["metadata"]["resourceVersion"]) <= max(self.history)

    @precondition(lambda self: self.contents)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.contents)))
        assert self.ask("DELETE", f"{MAPS}/{name}")[0] == 200
        self._record({key: value for key, value in self.contents.items() if key != name})

    def _record(self, contents: Contents) -> None:
        self.contents, self.writes = contents, self.writes + 1
        self.history[self.server.store.published] = contents

    # reads

    @rule(limit=st.integers(1, 3))
    def first_page(self, limit: int) -> None:
        code, page = self.ask("GET", MAPS, limit=str(limit))
        assert code == 200
        self._check_page(page, "", limit, max(self.history))

    @precondition(lambda self: self.pages)
    @rule(data=st.data(), limit=st.integers(1, 3))
    def a_further_page_shows_the_state_of_the_first(self, data: st.DataObject, limit: int) -> None:
        token, last, revision = self.pages.pop(data.draw(st.integers(0, len(self.pages) - 1)))
        code, page = self.ask("GET", MAPS, limit=str(limit), **{"continue": token})
        if code == 410:
            assert self._is_compacted(revision)
            # the token in the answer goes on with whatever there is now
            code, page = self.ask("GET", MAPS, limit=str(limit), **{"continue": page["metadata"]["continue"]})
            revision = max(self.history)
        assert code == 200
        self._check_page(page, last, limit, revision)

    def _check_page(self, page: Any, last: str, limit: int, revision: int) -> None:
        wanted = [(name, value) for name, value in sorted(self.history[revision].items()) if name > last]
        found = [(item["metadata"]["name"], item["data"]["v"]) for item in page["items"]]
        assert found == wanted[:limit]
        token = page["metadata"].get("continue", "")
        assert bool(token) == (len(wanted) > limit)
        if token:
            assert page["metadata"]["remainingItemCount"] == len(wanted) - limit
            self.pages.append((token, found[-1][0], revision))

    @rule(data=st.data())
    def list_exactly_at_a_revision(self, data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from(sorted(self.history)))
        code, answer = self.ask("GET", MAPS, resourceVersion=str(revision), resourceVersionMatch="Exact")
        if code == 410:
            assert self._is_compacted(revision)
            return
        assert {item["metadata"]["name"]: item["data"]["v"] for item in answer["items"]} == self.history[revision]

    @rule(data=st.data())
    def a_watch_replays_to_the_present(self, data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from(sorted(self.history)))
        code, frames = self.ask("GET", MAPS, watch="true", timeoutSeconds="1", resourceVersion=str(revision))
        assert code == 200
        if frames and frames[0]["type"] == "ERROR":
            assert (len(frames), frames[0]["object"]["code"], frames[0]["object"]["reason"]) == (1, 410, "Expired")
            assert self._is_compacted(revision)
            return
        seen = dict(self.history[revision])
        for frame in frames:
            name, value = frame["object"]["metadata"]["name"], frame["object"]["data"]["v"]
            assert (frame["type"] == "ADDED") == (name not in seen)
            if frame["type"] == "DELETED":
                del seen[name]
            else:
                seen[name] = value
        assert seen == self.contents

    def _is_compacted(self, revision: int) -> bool:
        return sum(1 for one in self.history if one > revision) > EVENTS_KEPT


TestReadingMachine = ReadingMachine.TestCase
TestReadingMachine.settings = settings(max_examples=examples(20), stateful_step_count=40, deadline=None)
