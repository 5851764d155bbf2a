"""Nobody grants what they do not hold: roles and bindings, on every way they can be written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from strato.api.wire import User
from strato.clock import VirtualClock
from strato.server import bootstrap
from strato.server.auth.escalation import MAX_COMPARED, TooManyRights, missing
from strato.server.auth.policy import compile_rule
from strato.server.embedded import open_server
from tests.server.asking import ADMIN, MERGE, Client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
JANE = User("jane", ("dev", "system:authenticated"))
ALL = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
EVERYTHING = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
PODS = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]
ROLE_WRITER = {
    "verbs": ALL,
    "apiGroups": [GROUP],
    "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
}


def role(rules: list[Any], name: str = "r", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": rules, **more}


def binding(
    name: str = "b", kind: str = "ClusterRole", to: str = "cluster-admin", user: str = "jane"
) -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": to}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [{"kind": "User", "name": user}]}


class World:
    """A server where Jane holds some rules everywhere."""

    def __init__(self) -> None:
        server, _ = open_server(VirtualClock(), random.Random(1), None, rbac=True, bootstrap=bootstrap.objects())
        self.admin, self.jane = Client(server, ADMIN), Client(server, JANE)

    async def give(self, *rules: dict[str, Any]) -> None:
        await self.admin.ask("POST", CLUSTER_ROLES, role(list(rules), "jane"))
        await self.admin.ask("POST", CLUSTER_BINDINGS, binding("jane", to="jane"))


@pytest.fixture
async def world() -> World:
    made = World()
    await made.give(ROLE_WRITER, *PODS)
    return made


def denied(answer: Any) -> str:
    assert answer["reason"] == "Forbidden", answer
    return str(answer["message"])


async def test_a_role_with_more_rights_is_refused_in_the_words_of_kubernetes(world: World) -> None:
    rules = [
        *PODS,
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]},
        {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["d"]},
    ]
    answer = await world.jane.ask("POST", ROLES, role(rules), code=403)
    assert denied(answer) == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["dev" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}\n'
        '{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["d"], Verbs:["get"]}'
    )
    assert answer["details"] == {"name": "r", "group": GROUP, "kind": "roles"}


async def test_paths_are_rights_too(world: World) -> None:
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/version"]}]
    text = denied(await world.jane.ask("POST", CLUSTER_ROLES, role(rules), code=403))
    assert text.endswith('held:\n{NonResourceURLs:["/metrics"], Verbs:["get"]}')


@pytest.mark.parametrize(("place", "name"), [(ROLES, "r"), (CLUSTER_ROLES, "r")])
async def test_no_way_of_writing_a_role_widens_it(world: World, place: str, name: str) -> None:
    await world.jane.ask("POST", place, role(PODS, name))
    one = f"{place}/{name}"
    stored = await world.admin.ask("GET", one)
    denied(await world.jane.ask("PUT", one, {**stored, "rules": EVERYTHING}, code=403))
    denied(await world.jane.ask("PATCH", one, {"rules": EVERYTHING}, MERGE, code=403))
    strategic = "application/strategic-merge-patch+json"
    denied(await world.jane.ask("PATCH", one, {"rules": EVERYTHING}, strategic, code=403))
    steps = [{"op": "replace", "path": "/rules", "value": EVERYTHING}]
    denied(await world.jane.ask("PATCH", one, steps, "application/json-patch+json", code=403))
    denied(await world.jane.ask("PUT", f"{place}/new", role(EVERYTHING, "new"), code=403))
    denied(await world.jane.ask("POST", place, role(EVERYTHING, "dry"), dryRun="All", code=403))
    assert (await world.admin.ask("GET", one))["rules"] == PODS


async def test_what_one_holds_one_may_write_and_bind(world: World) -> None:
    await world.jane.ask("POST", ROLES, role([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]))
    await world.jane.ask("POST", BINDINGS, binding(kind="Role", to="r", user="joe"))
    await world.jane.ask("PATCH", f"{ROLES}/r", {"metadata": {"labels": {"a": "b"}}}, MERGE)


@pytest.mark.parametrize("place", [BINDINGS, CLUSTER_BINDINGS])
async def test_a_binding_to_more_rights_is_refused(world: World, place: str) -> None:
    text = denied(await world.jane.ask("POST", place, binding(), code=403))
    assert "is attempting to grant RBAC permissions not currently held" in text
    denied(await world.jane.ask("PUT", f"{place}/b", binding(), code=403))


async def test_subjects_are_not_added_to_a_binding_of_more_rights(world: World) -> None:
    await world.admin.ask("POST", CLUSTER_BINDINGS, binding("strong", user="root"))
    change = {"subjects": [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]}
    denied(await world.jane.ask("PATCH", f"{CLUSTER_BINDINGS}/strong", change, MERGE, code=403))


async def test_the_role_of_a_binding_stays(world: World) -> None:
    await world.jane.ask("POST", ROLES, role(PODS))
    await world.jane.ask("POST", BINDINGS, binding(kind="Role", to="r"))
    change = {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}}
    denied(await world.jane.ask("PATCH", f"{BINDINGS}/b", change, MERGE, code=403))
    answer = await world.admin.ask("PATCH", f"{BINDINGS}/b", change, MERGE, code=422)
    assert "cannot change roleRef" in answer["message"]


async def test_a_binding_of_a_role_that_is_not_there_waits_for_nobody(world: World) -> None:
    answer = await world.jane.ask("POST", BINDINGS, binding(kind="Role", to="later"), code=404)
    assert answer["message"] == 'roles.rbac.authorization.k8s.io "later" not found'


async def test_escalate_and_bind_free_from_the_check() -> None:
    world = World()
    free = [
        {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["known"]},
        {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]},
    ]
    await world.give(ROLE_WRITER, *free)
    denied(await world.jane.ask("POST", ROLES, role(EVERYTHING, "known"), code=403))  # a name is not known yet
    await world.admin.ask("POST", ROLES, role(PODS, "known"))
    await world.jane.ask("PATCH", f"{ROLES}/known", {"rules": EVERYTHING}, MERGE)
    await world.jane.ask("POST", BINDINGS, binding(to="view", user="joe"))
    denied(await world.jane.ask("POST", BINDINGS, binding("c", to="edit", user="joe"), code=403))


async def test_aggregation_takes_all_rights(world: World) -> None:
    gathers = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}}
    text = denied(await world.jane.ask("POST", CLUSTER_ROLES, role([], **gathers), code=403))
    assert text.endswith(": must have cluster-admin privileges to use the aggregationRule")
    await world.admin.ask("POST", CLUSTER_ROLES, role([], "gathering", **gathers))
    denied(await world.jane.ask("PATCH", f"{CLUSTER_ROLES}/gathering", {"aggregationRule": None}, MERGE, code=403))
    label = {"metadata": {"labels": {"gather": "yes"}}}
    denied(await world.jane.ask("PATCH", f"{CLUSTER_ROLES}/cluster-admin", label, MERGE, code=403))
    await world.admin.ask("PATCH", f"{CLUSTER_ROLES}/cluster-admin", label, MERGE)
    denied(await world.jane.ask("POST", CLUSTER_BINDINGS, binding(to="gathering"), code=403))


async def test_the_garbage_collector_writes_what_it_needs(world: World) -> None:
    await world.admin.ask("POST", CLUSTER_ROLES, {**role(EVERYTHING, "big")})
    change = {"metadata": {"finalizers": ["example.org/wait"]}}
    await world.jane.ask("PATCH", f"{CLUSTER_ROLES}/big", change, MERGE)


async def test_rights_of_a_namespace_hold_in_it_alone() -> None:
    world = World()
    await world.admin.ask("POST", ROLES, role([ROLE_WRITER, *PODS], "here"))
    await world.admin.ask("POST", BINDINGS, binding("here", kind="Role", to="here"))
    await world.jane.ask("POST", ROLES, role(PODS))
    denied(await world.jane.ask("POST", CLUSTER_ROLES, role(PODS), code=403))
    denied(await world.jane.ask("POST", f"{RBAC}/namespaces/kube-system/roles", role(PODS), code=403))


async def test_taken_rights_are_gone_at_once(world: World) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await world.jane.ask("GET", pods)
    await world.admin.ask("DELETE", f"{CLUSTER_BINDINGS}/jane")
    denied(await world.jane.ask("GET", pods, code=403))
    denied(await world.jane.ask("POST", ROLES, role([]), code=403))


@pytest.mark.parametrize(
    "rules", ["abc", 7, [7], [{"verbs": "get"}], [{"verbs": [7], "apiGroups": [None], "resources": [{}]}], {"a": 1}]
)
async def test_rules_that_are_no_rules_are_no_crash(world: World, rules: Any) -> None:
    for place in (ROLES, CLUSTER_ROLES):
        answer = await world.jane.send("POST", place, role(rules))
        assert 400 <= answer.status < 500


@pytest.mark.parametrize(
    "change",
    [
        {"roleRef": "x"},
        {"roleRef": {"kind": 5, "name": []}},
        {"subjects": "x"},
        {"subjects": [5]},
        {"roleRef": None, "subjects": None},
    ],
)
async def test_bindings_that_are_no_bindings_are_no_crash(world: World, change: Any) -> None:
    for place in (BINDINGS, CLUSTER_BINDINGS):
        answer = await world.jane.send("POST", place, {**binding(), **change})
        assert 400 <= answer.status < 500


COVERED: list[Any] = [
    pytest.param(EVERYTHING, PODS, True, id="everything covers something"),
    pytest.param(PODS, EVERYTHING, False, id="something does not cover everything"),
    pytest.param(
        [{"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}],
        [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}],
        True,
        id="all resources have all subresources",
    ),
    pytest.param(
        [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]}],
        [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}],
        True,
        id="a subresource of all resources",
    ),
    pytest.param(
        [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]}],
        [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]}],
        False,
        id="a subresource is not the resource",
    ),
    pytest.param(
        [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]}],
        [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}],
        True,
        id="a name of several",
    ),
    pytest.param(
        [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}],
        PODS[:1],
        False,
        id="a name is not all names",
    ),
    pytest.param(
        [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
        ],
        PODS,
        True,
        id="two rules cover one together",
    ),
    pytest.param(
        [{"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}],
        [{"verbs": ["get"], "nonResourceURLs": ["/logs/a", "/logs/*"]}],
        True,
        id="paths below",
    ),
    pytest.param(
        [{"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}],
        [{"verbs": ["get"], "nonResourceURLs": ["/logs*"]}],
        False,
        id="a wider path",
    ),
]


@pytest.mark.parametrize(("held", "wanted", "want"), COVERED)
def test_covers(held: list[Any], wanted: list[Any], want: bool) -> None:
    assert (not missing(list(map(compile_rule, held)), map(compile_rule, wanted))) is want


def test_a_huge_role_is_refused_without_being_multiplied_out() -> None:
    many = [f"x{number}" for number in range(MAX_COMPARED)]
    huge = [compile_rule({"verbs": many, "apiGroups": many, "resources": many})]
    with pytest.raises(TooManyRights):
        missing(list(map(compile_rule, PODS)), huge)
    assert missing(list(map(compile_rule, EVERYTHING)), huge) == []
