"""Server-side apply as clients see it: who owns what, conflicts, subresources, custom kinds, untracked objects."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock, run_virtual
from strato.server.embedded import in_memory_server

ADMIN = User("admin", ("system:masters", "system:authenticated"))
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
Json = dict[str, Any]


class World:
    """A server with one namespace, asked under the names of managers."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = in_memory_server(clock, random.Random(7))

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        *,
        own: bool = False,
        agent: str = "",
        **query: str,
    ) -> tuple[int, Json]:
        headers = {"content-type": media, **({"user-agent": agent} if agent else {})}
        sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        request = Request(method, path, {name: [value] for name, value in query.items()}, headers, sent, ADMIN, own)
        response = await self.server.handle(request)
        return response.status, msgspec.json.decode(response.body)

    async def apply(self, path: str, body: Any, manager: str, **query: str) -> tuple[int, Json]:
        return await self.ask("PATCH", path, body, APPLY, fieldManager=manager, **query)


def run(play: Callable[[World], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def begin() -> None:
        world = World(clock)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await world.ask("POST", "/api/v1/namespaces", namespace)
        await play(world)

    run_virtual(clock, begin())


def owners(obj: Json, *path: str) -> set[str]:
    """Return who owns a path of fields."""
    found = set()
    for entry in obj["metadata"].get("managedFields") or ():
        fields = entry["fieldsV1"]
        for element in path:
            fields = fields.get(element)
            if fields is None:
                break
        else:
            if not fields or "." in fields:
                found.add(entry["manager"] + (f"/{entry['subresource']}" if "subresource" in entry else ""))
    return found


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
D = f"{DEPLOYMENTS}/d"
REPLICAS = ("f:spec", "f:replicas")


def deployment(replicas: int | None = 3) -> Json:
    spec: Json = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "app", "image": "x", "ports": [{"containerPort": 80}]}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


NAME_ONLY = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}


def replicas_only(count: int) -> Json:
    return {**NAME_ONLY, "spec": {"replicas": count}}


def test_fields_are_shared_taken_given_up_and_forgotten() -> None:
    async def play(world: World) -> None:
        code, made = await world.apply(D, deployment(), "a")
        assert (code, owners(made, *REPLICAS)) == (201, {"a"})
        item = 'k:{"name":"app"}'
        port = 'k:{"containerPort":80,"protocol":"TCP"}'
        container = ("f:spec", "f:template", "f:spec", "f:containers", item)
        assert owners(made, *container) == owners(made, *container, "f:ports", port) == {"a"}
        assert owners(made, *container, "f:ports", port, "f:protocol") == set()  # a default is nobody's
        await world.clock.sleep(2)
        code, again = await world.apply(D, deployment(), "a")
        assert (code, again) == (200, made)
        await world.ask("PATCH", D, {"spec": {"replicas": 5}}, MERGE, fieldManager="u")
        code, refused = await world.apply(D, deployment(), "a")
        assert (code, refused["reason"]) == (409, "Conflict")
        assert refused["message"] == 'Apply failed with 1 conflict: conflict with "u" using apps/v1: .spec.replicas'
        code, shared = await world.apply(D, deployment(5), "a")
        assert owners(shared, *REPLICAS) == {"a", "u"}
        code, given_up = await world.apply(D, deployment(None), "a")
        assert (given_up["spec"]["replicas"], owners(given_up, *REPLICAS)) == (5, {"u"})
        code, taken = await world.apply(D, replicas_only(2), "b", force="true")
        assert (taken["spec"]["replicas"], owners(taken, *REPLICAS)) == (2, {"b"})
        assert "u" not in [entry["manager"] for entry in taken["metadata"]["managedFields"]]
        code, left = await world.apply(D, NAME_ONLY, "b")
        assert (left["spec"]["replicas"], owners(left, *REPLICAS)) == (1, set())
        body = {**left, "metadata": {**left["metadata"], "managedFields": [{}]}}
        code, reset = await world.ask("PUT", D, body, fieldManager="c")
        assert (code, "managedFields" in reset["metadata"]) == (200, False)
        code, refused = await world.apply(D, replicas_only(3), "a")
        assert (code, refused["details"]["causes"][0]["message"]) == (
            409,
            'conflict with "before-first-apply" using apps/v1',
        )

    run(play)


def test_what_the_clusters_own_parts_create_is_tracked_once_somebody_applies() -> None:
    async def play(world: World) -> None:
        code, made = await world.ask("POST", DEPLOYMENTS, deployment(), own=True)
        assert (code, "managedFields" in made["metadata"]) == (201, False)
        _, patched = await world.ask("PATCH", D, {"spec": {"replicas": 4}}, MERGE, fieldManager="u")
        assert "managedFields" not in patched["metadata"]
        _, shared = await world.apply(D, replicas_only(4), "a")
        assert owners(shared, *REPLICAS) == {"a", "before-first-apply"}
        _, taken = await world.ask("PATCH", D, {"spec": {"replicas": 5}}, MERGE, own=True)
        assert owners(taken, *REPLICAS) == {"strato"}

    run(play)


@pytest.mark.parametrize(
    ("plural", "query", "owners"),
    [
        ("configmaps", {}, ["client"]),
        ("configmaps", {"fieldManager": "me"}, ["me"]),
        ("pods", {}, []),
        ("pods", {"fieldManager": "me"}, ["me"]),
    ],
)
def test_pods_are_tracked_where_a_field_manager_creates_them(
    plural: str, query: dict[str, str], owners: list[str]
) -> None:
    """Alike whether a creation is taken from the cache, as from the third of one spec on."""
    body = {"pods": {"spec": {"containers": [{"name": "c", "image": "i"}]}}, "configmaps": {"data": {"a": "b"}}}[plural]

    async def play(world: World) -> None:
        for at in range(6):
            kind = {"pods": "Pod", "configmaps": "ConfigMap"}[plural]
            obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"n{at}"}, **body}
            status, stored = await world.ask(
                "POST", f"/api/v1/namespaces/default/{plural}", obj, agent="client/1.0", **query
            )
            assert status == 201
            assert [entry["manager"] for entry in stored["metadata"].get("managedFields", ())] == owners

    run(play)


def test_statuses_are_owned_by_themselves() -> None:
    async def play(world: World) -> None:
        status = {**NAME_ONLY, "spec": {"replicas": 9}, "status": {"readyReplicas": 2}}
        code, absent = await world.apply(f"{D}/status", status, "s")
        assert (code, absent["reason"]) == (404, "NotFound")
        await world.apply(D, {**deployment(), "status": {"readyReplicas": 7}}, "a")
        code, told = await world.apply(f"{D}/status", status, "s")
        assert (code, told["status"], told["spec"]["replicas"]) == (200, {"readyReplicas": 2}, 3)
        ready = ("f:status", "f:readyReplicas")
        assert (owners(told, *ready), owners(told, *REPLICAS)) == ({"s/status"}, {"a"})
        _, taken = await world.ask("PATCH", f"{D}/status", {"status": {"readyReplicas": 3}}, MERGE, own=True)
        _, taken = await world.ask("GET", D)
        assert owners(taken, *ready) == {"strato/status"}
        code, refused = await world.apply(f"{D}/status", status, "s")
        assert (code, refused["details"]["causes"][0]["field"]) == (409, ".status.readyReplicas")

    run(play)


def test_statuses_nobody_claimed_are_written_without_entries() -> None:
    async def play(world: World) -> None:
        await world.apply(D, deployment(), "a")
        await world.ask("PATCH", f"{D}/status", {"status": {"readyReplicas": 3}}, MERGE, own=True)
        _, found = await world.ask("GET", D)
        assert found["status"] == {"readyReplicas": 3}
        assert [entry["manager"] for entry in found["metadata"]["managedFields"]] == ["a"]
        await world.ask("PATCH", f"{D}/status", {"status": {"readyReplicas": 4}}, MERGE, agent="tool/1")
        _, found = await world.ask("GET", D)
        assert owners(found, "f:status", "f:readyReplicas") == {"tool/status"}

    run(play)


def test_scales_take_the_replicas_over() -> None:
    async def play(world: World) -> None:
        await world.apply(D, deployment(), "a")
        await world.ask("PATCH", f"{D}/scale", {"spec": {"replicas": 6}}, MERGE, agent="kubectl/v1.36")
        _, scaled = await world.ask("GET", D)
        assert (scaled["spec"]["replicas"], owners(scaled, *REPLICAS)) == (6, {"kubectl/scale"})
        code, refused = await world.apply(D, deployment(), "a")
        assert (code, refused["message"]) == (
            409,
            'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: '
            ".spec.replicas",
        )
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 8}}
        code, refused = await world.apply(f"{D}/scale", scale, "s")
        assert (code, refused["details"]["causes"][0]["field"]) == (409, ".spec.replicas")
        code, answer = await world.apply(f"{D}/scale", scale, "s", force="true")
        assert (code, answer["kind"], answer["spec"]) == (200, "Scale", {"replicas": 8})
        _, scaled = await world.ask("GET", D)
        assert (scaled["spec"]["replicas"], owners(scaled, *REPLICAS)) == (8, {"s/scale"})

    run(play)


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["id"],
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {"id": {"type": "string"}, "size": {"type": "integer"}},
                                        },
                                    },
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def widget(**spec: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def test_custom_kinds_merge_as_their_schema_says() -> None:
    async def play(world: World) -> None:
        await world.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        w = f"{WIDGETS}/w"
        code, _ = await world.apply(w, widget(parts=[{"id": "a", "size": 1}], tags=["x"], whole={"p": "1"}), "one")
        assert code == 201
        code, both = await world.apply(w, widget(parts=[{"id": "b", "size": 2}], tags=["y"]), "two")
        assert (code, both["spec"]["parts"], both["spec"]["tags"]) == (
            200,
            [{"id": "a", "size": 1}, {"id": "b", "size": 2}],
            ["x", "y"],
        )
        assert owners(both, "f:spec", "f:tags", 'v:"y"') == {"two"}
        code, refused = await world.apply(w, widget(whole={"q": "2"}), "two")
        assert [cause["field"] for cause in refused["details"]["causes"]] == [".spec.whole"]
        code, one = await world.apply(w, widget(tags=["x"]), "one")
        assert one["spec"] == {"parts": [{"id": "b", "size": 2}], "tags": ["x", "y"]}
        code, refused = await world.apply(w, widget(nonsense=1), "one")
        assert (code, refused["message"]) == (
            500,
            "failed to create typed patch object (/w; example.com/v1, Kind=Widget): "
            ".spec.nonsense: field not declared in schema",
        )
        assert refused.get("reason", "") == ""
        config = {**widget(), "metadata": {"name": "w", "unknownMeta": 1}}
        code, refused = await world.apply(w, config, "one")
        assert ".metadata.unknownMeta: field not declared in schema" in refused["message"]
        code, told = await world.apply(f"{w}/status", {**widget(), "status": {"any": {"thing": 1}}}, "s")
        assert (code, told["status"]) == (200, {"any": {"thing": 1}})
        assert owners(told, "f:status", "f:any", "f:thing") == {"s/status"}

    run(play)


def test_client_side_apply_is_upgraded_without_conflicts() -> None:
    async def play(world: World) -> None:
        last_applied = "kubectl.kubernetes.io/last-applied-configuration"
        config = deployment()
        text = msgspec.json.encode(config).decode()
        sent = {**config, "metadata": {"name": "d", "annotations": {last_applied: text}}}
        await world.ask("POST", DEPLOYMENTS, sent, fieldManager="kubectl-client-side-apply")
        code, refused = await world.apply(D, deployment(4), "other")
        assert (code, refused["reason"]) == (409, "Conflict")
        code, upgraded = await world.apply(D, deployment(4), "kubectl")
        assert (code, upgraded["spec"]["replicas"]) == (200, 4)
        annotation = upgraded["metadata"]["annotations"][last_applied]
        assert annotation.endswith("\n")
        assert msgspec.json.decode(annotation) == deployment(4)

    run(play)


def test_dry_run_answers_and_stores_nothing() -> None:
    async def play(world: World) -> None:
        code, answer = await world.apply(D, deployment(), "a", dryRun="All")
        assert (code, owners(answer, *REPLICAS)) == (201, {"a"})
        assert (await world.ask("GET", D))[0] == 404

    run(play)


REFUSED = {
    "YAML that is none": (b"a: [", {"fieldManager": "m"}, APPLY, 400, "error decoding YAML: "),
    "a list": (b"[]", {"fieldManager": "m"}, APPLY, 400, "error decoding YAML: "),
    "CBOR": (b"{}", {"fieldManager": "m"}, "application/apply-patch+cbor", 415, "accepted media types include: "),
    "a manager too long": (b"{}", {"fieldManager": "x" * 129}, APPLY, 422, "fieldManager: Too long: may not be more"),
    "a manager with a bell": (b"{}", {"fieldManager": "\x07"}, APPLY, 422, "invalid character U+0007 (at position 0)"),
    "keys that stand twice": (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: b\n  a: c\n",
        {"fieldManager": "m", "fieldValidation": "Strict"},
        APPLY,
        400,
        'error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key "a" already '
        "set in map",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_applies_are_refused(name: str) -> None:
    body, query, media, want_code, want_text = REFUSED[name]

    async def play(world: World) -> None:
        path = "/api/v1/namespaces/default/configmaps/c"
        code, answer = await world.ask("PATCH", path, body, media, **query)
        assert code == want_code, answer
        assert want_text in answer["message"]

    run(play)


def test_entries_that_cannot_be_read_are_replaced_by_those_there_were() -> None:
    async def play(world: World) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
        _, before = await world.ask("POST", path, made, fieldManager="m")
        for broken in ([{"manager": 7}], [3], "x", [{"operation": "Update", "apiVersion": "v1", "fieldsV1": {"z": 1}}]):
            body = {**made, "metadata": {"name": "c", "managedFields": broken}}
            code, after = await world.ask("PUT", f"{path}/c", body, fieldManager="m")
            if code == 200:
                assert after["metadata"]["managedFields"] == before["metadata"]["managedFields"]
            else:
                assert code == 400, after

    run(play)


def test_entries_that_claim_a_whole_object_keep_nobody_from_applying_less_of_it() -> None:
    async def play(world: World) -> None:
        path = "/api/v1/namespaces/default/configmaps/c"
        config: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"a": "1", "b": "2"},
        }
        _, made = await world.apply(path, config, "m")
        (entry,) = made["metadata"]["managedFields"]
        entry["fieldsV1"] = {f"f:{name}": {".": {}} for name in made}
        code, _ = await world.ask("PUT", path, made, fieldManager="forger")
        assert code == 200
        code, left = await world.apply(path, {**config, "data": {"a": "1"}}, "m", force="true")
        assert (code, left["data"]["a"], left["metadata"]["name"]) == (200, "1", "c")

    run(play)
