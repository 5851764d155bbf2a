"""Who is served next, who waits and who is refused; on a loop of which each request takes a known part."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from strato.api import catalog
from strato.api.wire import Response, User
from strato.clock import VirtualClock, run_virtual
from strato.http.headers import Head
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.server.flowcontrol import defaults, dispatch
from strato.server.flowcontrol.control import FlowControl
from strato.server.flowcontrol.dispatch import Dispatcher, Flow, PriorityLevel
from strato.server.http import create_app
from strato.server.seed import seed_flow_control
from strato.server.store import Store
from tests.server.asking import ADMIN, Client

ALICE = User("alice", ("system:authenticated",))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
ACCOUNT = User(
    "system:serviceaccount:ns:builder", ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
)
KUBE_ACCOUNT = User("system:serviceaccount:kube-system:gc", ("system:serviceaccounts", "system:authenticated"))
PODS = "/api/v1/namespaces/default/pods"


class Worked:
    """A timer that shows how much has been worked."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Served:
    """Requests of some flows, and in which order they were served."""

    def __init__(self) -> None:
        self.timer = Worked()
        self.dispatcher = Dispatcher(self.timer)
        self.order: list[str] = []
        self.refused: list[str] = []

    def ask(self, flow: Flow, seconds: float) -> None:
        """Ask as the server's HTTP does."""

        def start() -> None:
            self.timer.seconds += seconds
            self.order.append(flow.name)

        if self.dispatcher.has_room():
            start()
            self.dispatcher.served(flow, seconds)
        elif not self.dispatcher.enqueue(flow, start, lambda: self.refused.append(flow.name)):
            self.refused.append(flow.name)

    def work(self, flow: Flow, seconds: float, times: int) -> None:
        """Work on a collection in slices."""

        def slice_() -> None:
            nonlocal times
            self.timer.seconds += seconds
            self.order.append(flow.name)
            times -= 1
            if times:
                self.dispatcher.submit(flow, slice_)

        self.dispatcher.submit(flow, slice_)


def level(name: str = "l", shares: float = 1.0, length: int = 1 << 20) -> PriorityLevel:
    return PriorityLevel(name, shares, length, 1 << 20)


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(VirtualClock(), main())


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_request_that_finds_nobody_waiting_is_served_at_once() -> None:
    async def main() -> None:
        served, flow = Served(), Flow(level(), "a")
        for _ in range(100):
            served.ask(flow, 0.001)
            await rounds(2)
        assert (len(served.order), served.dispatcher.rounds) == (100, 0)

    in_virtual_time(main)


def test_one_turn_of_the_loop_serves_a_bounded_time_of_requests() -> None:
    async def main() -> None:
        served, one = Served(), level()
        for number in range(100):
            served.ask(Flow(one, str(number)), 0.001)
        counts = [len(served.order)]
        while counts[-1] < 100:
            await rounds(1)
            counts.append(len(served.order))
        assert all(after - before <= 6 for before, after in zip([0, *counts], counts, strict=False))

    in_virtual_time(main)


def test_a_small_request_of_another_does_not_wait_behind_a_flood() -> None:
    async def main() -> None:
        served, one = Served(), level()
        flood, other = Flow(one, "flood"), Flow(one, "other")
        for _ in range(1000):
            served.ask(flood, 0.001)
        await rounds(20)
        before = len(served.order)
        served.ask(other, 0.001)
        await rounds(2)
        assert "other" in served.order[before : before + 6]

    in_virtual_time(main)


def test_flows_get_the_same_time_however_much_each_asks_for_at_once() -> None:
    async def main() -> None:
        served, one = Served(), level()
        small, large = Flow(one, "small"), Flow(one, "large")
        for _ in range(600):
            served.ask(small, 0.0005)
        for _ in range(60):
            served.ask(large, 0.005)
        await rounds(20)
        counts = Counter(served.order)
        assert counts["small"] == pytest.approx(10 * counts["large"], rel=0.3)

    in_virtual_time(main)


def test_levels_share_the_time_by_their_shares() -> None:
    async def main() -> None:
        served = Served()
        high, low = Flow(level("high", 40), "high"), Flow(level("low", 10), "low")
        for _ in range(1000):
            served.ask(low, 0.001)
            served.ask(high, 0.001)
        await rounds(60)
        counts = Counter(served.order)
        assert counts["high"] == pytest.approx(4 * counts["low"], rel=0.2)

    in_virtual_time(main)


def test_requests_go_on_beside_work_on_collections_and_both_advance() -> None:
    async def main() -> None:
        served, one = Served(), level()
        heavy, light = Flow(one, "heavy"), Flow(one, "light")
        for _ in range(25):
            served.work(heavy, 0.003, 100)
        await rounds(3)
        for _ in range(50):
            before = len(served.order)
            served.ask(light, 0.0001)
            assert served.order[before] == "light"  # at once: only slices wait
            await rounds(1)
        assert Counter(served.order)["heavy"] >= 50

    in_virtual_time(main)


def test_work_on_collections_alternates_between_users_whatever_they_have_begun() -> None:
    async def main() -> None:
        served, one = Served(), level()
        many, few = Flow(one, "many"), Flow(one, "few")
        for _ in range(25):
            served.work(many, 0.003, 100)
        served.work(few, 0.003, 20)
        while "few" not in served.order or Counter(served.order)["few"] < 20:
            await rounds(1)
        assert Counter(served.order)["many"] <= 22

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("milliseconds", "in_one_round"),
    [
        pytest.param(0.3, 6, id="short ones share a round"),
        pytest.param(0.9, 2, id="as many as should fit"),
        pytest.param(1.5, 1, id="a second one would hold the loop for too long"),
        pytest.param(4.0, 1, id="long ones are alone"),
    ],
)
def test_a_round_has_as_many_slices_as_should_fit(milliseconds: float, in_one_round: int) -> None:
    async def main() -> None:
        served = Served()
        served.work(Flow(level(), "a"), milliseconds / 1e3, 20)
        await rounds(1)
        assert len(served.order) == in_one_round

    in_virtual_time(main)


def test_what_was_used_while_nobody_waited_is_not_held_against_anybody() -> None:
    async def main() -> None:
        served, one = Served(), level()
        old, new = Flow(one, "old"), Flow(one, "new")
        for _ in range(1000):
            served.ask(old, 0.004)
            await rounds(2)
        served.order.clear()
        for _ in range(100):
            served.ask(new, 0.001)
            served.ask(old, 0.001)
        await rounds(12)
        counts = Counter(served.order)
        assert counts["old"] == pytest.approx(counts["new"], rel=0.3)

    in_virtual_time(main)


def test_of_too_many_waiting_requests_the_flows_own_are_refused() -> None:
    async def main() -> None:
        served, one = Served(), level(length=10)
        flood, other = Flow(one, "flood"), Flow(one, "other")
        for _ in range(50):
            served.ask(flood, 0.005)
        served.ask(other, 0.001)
        assert (len(served.refused), one.refused) == (39, 39)
        await rounds(20)
        assert Counter(served.order) == {"flood": 11, "other": 1}

    in_virtual_time(main)


def test_requests_and_slices_that_give_rise_to_the_next_one_are_served_once() -> None:
    """As a connection does that was sent several requests, and a list that is one slice after another."""

    async def main() -> None:
        served, flow = Served(), Flow(level(), "a")
        served.ask(flow, 0.005)
        left = 10

        def start() -> None:
            nonlocal left
            served.timer.seconds += 0.001
            served.order.append("request")
            left -= 1
            if left:
                served.dispatcher.enqueue(flow, start, start)

        served.dispatcher.enqueue(flow, start, start)
        served.work(flow, 0.001, 10)
        await rounds(30)
        assert Counter(served.order) == {"a": 11, "request": 10}
        assert served.dispatcher.has_room()

    in_virtual_time(main)


def test_who_has_waited_for_too_long_is_refused() -> None:
    clock = VirtualClock()

    async def main() -> None:
        served, flow = Served(), Flow(level(), "a")
        served.ask(flow, 0.005)
        served.ask(flow, 0.005)
        clock.advance(dispatch.WAIT_SECONDS + 1)
        served.ask(flow, 0.005)
        await rounds(3)
        assert (served.order, served.refused) == (["a", "a"], ["a"])

    run_virtual(clock, main())


@pytest.mark.parametrize(
    ("user", "method", "path", "schema", "flow_level", "distinguisher"),
    [
        (ADMIN, "GET", PODS, "exempt", "exempt", ""),
        (ALICE, "GET", "/healthz", "probes", "exempt", ""),
        (ALICE, "GET", PODS, "global-default", "global-default", "alice"),
        (ALICE, "GET", "/version", "global-default", "global-default", "alice"),
        (NODE, "PATCH", "/api/v1/nodes/n1/status", "system-node-high", "node-high", "system:node:n1"),
        (
            NODE,
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
            "system-node-high",
            "node-high",
            "system:node:n1",
        ),
        (NODE, "GET", PODS, "system-nodes", "system", "system:node:n1"),
        (ACCOUNT, "GET", PODS, "service-accounts", "workload-low", ACCOUNT.name),
        (KUBE_ACCOUNT, "GET", PODS, "kube-system-service-accounts", "workload-high", "default"),
        (
            KUBE_ACCOUNT,
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gc",
            "system-leader-election",
            "leader-election",
            KUBE_ACCOUNT.name,
        ),
        (User("strato:scheduler", ("system:authenticated",)), "GET", PODS, "strato-components", "workload-high", None),
        (User("nobody"), "GET", PODS, "catch-all", "catch-all", "nobody"),
    ],
)
def test_requests_belong_to_the_flow_that_kubernetes_would_choose(
    user: User, method: str, path: str, schema: str, flow_level: str, distinguisher: str | None
) -> None:
    flow = FlowControl(Store(), Worked()).assigned(user, method, path).flow
    assert flow.level.name == flow_level
    name = user.name if distinguisher is None else distinguisher
    assert flow.name == f"{schema}/{name}"


def with_server(main: Callable[[ApiServer, Client], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        server = in_memory_server(clock, random.Random(1))
        seed_flow_control(server.state)
        await main(server, Client(server))

    run_virtual(clock, run())


GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_schemas_and_levels_are_configuration_that_is_followed() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        flows = server.state.flows
        assert flows.assigned(ALICE, "GET", PODS).flow.level.name == "global-default"
        limited = {
            "nominalConcurrencyShares": 7,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 3}},
        }
        await client.ask(
            "POST",
            f"{GROUP}/prioritylevelconfigurations",
            {"metadata": {"name": "batch"}, "spec": {"type": "Limited", "limited": limited}},
        )
        rules = [
            {
                "subjects": [{"kind": "User", "user": {"name": "alice"}}],
                "resourceRules": [
                    {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"]}
                ],
            }
        ]
        spec = {"priorityLevelConfiguration": {"name": "batch"}, "matchingPrecedence": 10, "rules": rules}
        made = await client.ask("POST", f"{GROUP}/flowschemas", {"metadata": {"name": "lists"}, "spec": spec})
        assigned = flows.assigned(ALICE, "GET", PODS)
        assert assigned.flow.level.name == "batch"
        assert made["metadata"]["uid"] in assigned.lines
        chosen = assigned.flow.level
        assert (chosen.shares, chosen.queue_length, chosen.total_length) == (7, 6, 12)
        assert flows.assigned(ALICE, "GET", f"{PODS}/p").flow.level.name == "global-default"
        await client.ask("DELETE", f"{GROUP}/flowschemas/lists")
        assert flows.assigned(ALICE, "GET", PODS).flow.level.name == "global-default"

    with_server(main)


def test_what_is_mandatory_stays_as_it_is_whatever_is_written() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await client.ask("DELETE", f"{GROUP}/flowschemas/exempt")
        await client.ask("DELETE", f"{GROUP}/prioritylevelconfigurations/catch-all")
        assert server.state.flows.assigned(ADMIN, "GET", PODS).flow.level.name == "exempt"
        assert server.state.flows.assigned(User("nobody"), "GET", PODS).flow.level.name == "catch-all"

    with_server(main)


def test_a_clusters_own_objects_are_valid_and_come_back() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        for kind, manifests in (
            (catalog.FLOWSCHEMA, defaults.SCHEMAS),
            (catalog.PRIORITYLEVELCONFIGURATION, defaults.LEVELS),
        ):
            for manifest in manifests:
                path = f"{GROUP}/{kind.plural}/{manifest['metadata']['name']}"
                found = await client.ask("GET", path)
                assert (await client.ask("PUT", path, found))["spec"] == manifest["spec"]
        await client.ask("DELETE", f"{GROUP}/flowschemas/service-accounts")
        seed_flow_control(server.state)
        assert (await client.ask("GET", f"{GROUP}/flowschemas/service-accounts"))["status"]["conditions"]

    with_server(main)


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("flowschemas", {"matchingPrecedence": 20000}, "spec.matchingPrecedence"),
        ("flowschemas", {"matchingPrecedence": 1}, "spec.matchingPrecedence"),
        ("flowschemas", {"distinguisherMethod": {"type": "ByMoon"}}, "spec.distinguisherMethod.type"),
        ("flowschemas", {"rules": [{"subjects": [{"kind": "User"}]}]}, "spec.rules[0].subjects[0].user"),
        ("prioritylevelconfigurations", {"type": "Exempt"}, "spec.type"),
        ("prioritylevelconfigurations", {"type": "Limited"}, "spec.limited"),
        (
            "prioritylevelconfigurations",
            {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}},
            "spec.limited.limitResponse.queuing",
        ),
    ],
)
def test_configuration_that_makes_no_sense_is_refused(plural: str, spec: dict[str, Any], field: str) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        answer = await client.ask("POST", f"{GROUP}/{plural}", {"metadata": {"name": "x"}, "spec": spec}, code=422)
        assert field in [cause["field"] for cause in answer["details"]["causes"]]

    with_server(main)


def test_a_user_who_floods_is_refused_and_told_when_to_come_back() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        timer = Worked()
        flows = FlowControl(server.store, timer)
        app = create_app(server, lambda headers, peer: ALICE, flows=flows)
        answers: list[Response] = []

        def ask(user: User) -> Head:
            head = Head(None)
            head.method, head.path = "GET", "/version"
            timer.seconds += 0.01  # each takes more than a turn has
            later = app.answer(head, user, b"", answers.append)
            if later is not None:
                asyncio.ensure_future(_answered(later, answers))  # noqa: RUF006 - read below
            return head

        head = ask(ALICE)
        assert "x-kubernetes-pf-flowschema-uid: " in head.answer_lines
        flows.dispatcher.served(flows.assigned(ALICE, "GET", "/version").flow, 1.0)  # the turn is over
        for _ in range(2000):
            ask(ALICE)
        ask(ADMIN)
        refused = [answer for answer in answers if answer.status == 429]
        assert len(refused) == 2000 - 300
        assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
        assert refused[0].body == b"Too many requests, please try again later.\n"
        while len(answers) < 2002:
            await asyncio.sleep(0.001)
        assert sum(answer.status == 200 for answer in answers) == 302
        assert json.loads(answers[-1].body)["major"] == "1"

    async def _answered(later: Any, answers: list[Response]) -> None:
        answers.append(await later)

    with_server(main)


LARGE_DATA = {f"key-{number:05}": "v" for number in range(30_000)}


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(json.dumps({"metadata": {"name": "large"}, "data": LARGE_DATA}), "application/json", id="JSON"),
        pytest.param(
            "metadata: {name: large}\ndata:\n" + "".join(f"  {key}: v\n" for key in LARGE_DATA),
            "application/yaml",
            id="YAML",
        ),
    ],
)
def test_a_large_body_is_decoded_in_slices(body: str, media: str) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        flows = server.state.flows
        app = create_app(server, lambda headers, peer: ADMIN, flows=flows)
        head = Head(None)
        head.method, head.path = "POST", "/api/v1/namespaces/default/configmaps"
        head.headers = {"content-type": media}
        answers: list[Response] = []
        before = flows.dispatcher.slices
        later = app.answer(head, ADMIN, body.encode(), answers.append)
        assert later is not None
        answer = await later
        assert answer.status == 201, answer.body
        assert json.loads(answer.body)["data"] == LARGE_DATA
        assert flows.dispatcher.slices - before >= 10
        assert flows.assigned(ADMIN, "POST", head.path).flow.is_idle, "its seat is free again"

    with_server(main)
