"""Definitions over time: versions, defaults that came later, names, clients' conditions, the way out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from strato.clock import VirtualClock, run_virtual
from strato.server.embedded import in_memory_server
from tests.server.asking import MERGE, Client

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{CRDS}/widgets.example.com"
SPEC: dict[str, Any] = {"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}}


def version(name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec or SPEC}}
    made = {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    return {**made, "subresources": {"status": {}}, **more}


def definition(*versions: dict[str, Any], **names: Any) -> dict[str, Any]:
    named = {"plural": "widgets", "kind": "Widget", **names}
    spec = {"group": "example.com", "scope": "Namespaced", "names": named, "versions": list(versions)}
    return {"metadata": {"name": f"{named['plural']}.example.com"}, "spec": spec}


def widget(name: str, of: str = "v1", finalizers: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"finalizers": list(finalizers)} if finalizers else {})}
    return {"apiVersion": f"example.com/{of}", "kind": "Widget", "metadata": metadata, "spec": spec}


def at(of: str, name: str = "") -> str:
    return f"/apis/example.com/{of}/namespaces/default/widgets" + (f"/{name}" if name else "")


def asked(main: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await main(Client(in_memory_server(VirtualClock(), random.Random(1))))

    run_virtual(VirtualClock(), run())


def conditions(crd: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one['reason']}" for one in crd["status"]["conditions"]}


V1, V2 = version("v1", storage=True), version("v2", {"type": "object", "properties": {"colour": {"type": "string"}}})


def test_each_version_is_served_as_itself_and_stored_in_the_storage_version() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CRDS, definition(V1, V2))
        stream = (await client.send("GET", at("v2"), watch="true")).stream
        assert stream is not None
        await client.ask("POST", at("v1"), widget("a", colour="red", size=3))
        made = await client.ask("POST", at("v2"), widget("b", "v2", colour="blue", size=3))
        assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"colour": "blue"})
        found = (await client.ask("GET", at("v2")))["items"]
        assert [(one["apiVersion"], one["spec"]) for one in found] == [
            ("example.com/v2", {"colour": "red"}),
            ("example.com/v2", {"colour": "blue"}),
        ]
        frames = [json.loads(line) for line in (await anext(stream)).splitlines()]
        assert {frame["object"]["apiVersion"] for frame in frames} == {"example.com/v2"}
        assert (await client.ask("GET", at("v1", "a")))["spec"] == {"colour": "red", "size": 3}
        stored = client.server.store.bucket("widgets.example.com").objects["default/b"].body
        assert json.loads(stored)["apiVersion"] == "example.com/v1"
        changed = await client.ask("PATCH", at("v2", "b"), {"spec": {"colour": "green"}}, MERGE)
        assert (changed["apiVersion"], changed["metadata"]["generation"]) == ("example.com/v2", 2)
        status = await client.ask("PATCH", at("v2", "b/status"), {"status": {}}, MERGE)
        assert status["apiVersion"] == "example.com/v2"
        assert (await client.ask("GET", at("v1", "b")))["spec"] == {"colour": "green"}
        await client.ask("DELETE", at("v2"))
        assert (await client.ask("GET", at("v1")))["items"] == []
        await stream.aclose()  # type: ignore[attr-defined]  # a generator

    asked(main)


def test_defaults_that_came_later_are_shown_and_fields_that_went_are_not() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CRDS, definition(V1))
        old = await client.ask("POST", at("v1"), widget("old", colour="red"))
        spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}
        crd = await client.ask("GET", DEFINITION)
        crd["spec"]["versions"] = [version("v1", spec, storage=True)]
        await client.ask("PUT", DEFINITION, crd)
        shown = await client.ask("GET", at("v1", "old"))
        assert shown["spec"] == {"size": 7}
        assert shown["metadata"] == old["metadata"]
        assert [one["spec"] for one in (await client.ask("GET", at("v1")))["items"]] == [{"size": 7}]
        written = await client.ask("PATCH", at("v1", "old"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
        assert written["spec"] == {"size": 7}

    asked(main)


def test_stored_versions_stay_until_somebody_has_migrated_the_objects() -> None:
    async def main(client: Client) -> None:
        crd = await client.ask("POST", CRDS, definition(V1, V2))
        crd["spec"]["versions"][0]["storage"], crd["spec"]["versions"][1]["storage"] = False, True
        crd = await client.ask("PUT", DEFINITION, crd)
        assert crd["status"]["storedVersions"] == ["v1", "v2"]
        kept = crd["spec"]["versions"]
        crd["spec"]["versions"] = kept[1:]
        refused = await client.ask("PUT", DEFINITION, crd, code=422)
        assert "v1 was previously a storage version" in refused["message"]
        migrated = {"status": {"storedVersions": ["v2"]}}
        crd = await client.ask("PATCH", f"{DEFINITION}/status", migrated, MERGE)
        crd["spec"]["versions"] = kept[1:]
        assert (await client.ask("PUT", DEFINITION, crd))["status"]["storedVersions"] == ["v2"]
        await client.ask("GET", at("v1"), code=404)

    asked(main)


def test_conditions_of_clients_stay_and_those_of_the_server_are_its_own() -> None:
    async def main(client: Client) -> None:
        crd = await client.ask("POST", CRDS, definition(V1))
        mine = {"type": "Mine", "status": "True", "reason": "Test", "message": "set", "lastTransitionTime": None}
        crd["status"]["conditions"] = [{**crd["status"]["conditions"][0], "status": "False"}, mine]
        crd = await client.ask("PUT", f"{DEFINITION}/status", crd)
        wanted = {
            "NamesAccepted": "True NoConflicts",
            "Mine": "True Test",
            "Established": "True InitialNamesAccepted",
        }
        assert conditions(crd) == wanted
        crd = await client.ask("PATCH", DEFINITION, {"metadata": {"labels": {"a": "b"}}}, MERGE)
        assert conditions(crd) == wanted

    asked(main)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"plural": "gadgets", "kind": "Widget", "listKind": "GadgetList"}, "KindConflict"),
        ({"plural": "gadgets", "kind": "Widget"}, "ListKindConflict"),
        ({"plural": "gadgets", "kind": "Gadget", "shortNames": ["widgets"]}, "ShortNamesConflict"),
        ({"plural": "gadgets", "kind": "Gadget", "singular": "widget"}, "SingularConflict"),
    ],
)
def test_a_definition_whose_names_are_taken_waits_until_they_are_free(names: dict[str, Any], reason: str) -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CRDS, definition(V1))
        second = await client.ask("POST", CRDS, definition(V1, **names))
        expected = {"NamesAccepted": f"False {reason}", "Established": "False NotAccepted"}
        assert {kind: text for kind, text in conditions(second).items() if kind in expected} == expected
        gadgets = "/apis/example.com/v1/namespaces/default/gadgets"
        await client.ask("GET", gadgets, code=404)
        await client.ask("DELETE", DEFINITION)
        assert (await client.ask("GET", gadgets))["items"] == []
        first = await client.ask("GET", f"{CRDS}/gadgets.example.com")
        assert conditions(first)["NamesAccepted"] == "True NoConflicts"

    asked(main)


def test_a_definition_goes_after_the_last_object_that_has_a_finalizer() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CRDS, definition(V1))
        await client.ask("POST", at("v1"), widget("held", finalizers=("example.com/hold",)))
        await client.ask("POST", at("v1"), widget("free"))
        deleted = await client.ask("DELETE", DEFINITION)
        assert conditions(deleted)["Terminating"] == "True InstanceDeletionPending"
        left = (await client.ask("GET", at("v1")))["items"]
        assert [one["metadata"]["name"] for one in left] == ["held"]
        assert "deletionTimestamp" in left[0]["metadata"]
        await client.ask("PATCH", at("v1", "held"), {"metadata": {"finalizers": None}}, MERGE)
        await client.ask("GET", DEFINITION, code=404)
        await client.ask("POST", CRDS, definition(V1))
        assert (await client.ask("GET", at("v1")))["items"] == []

    asked(main)


def test_selectable_fields_select_in_lists_watches_and_deletions() -> None:
    async def main(client: Client) -> None:
        fields = [{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}]
        await client.ask("POST", CRDS, definition(version("v1", storage=True, selectableFields=fields), V2))
        await client.ask("POST", at("v1"), widget("a", colour="red", size=1))
        await client.ask("POST", at("v1"), widget("b", colour="blue", size=2))
        for selector, wanted in (("spec.colour=red", ["a"]), ("spec.size=2", ["b"]), ("spec.colour!=red", ["b"])):
            found = (await client.ask("GET", at("v1"), fieldSelector=selector))["items"]
            assert [one["metadata"]["name"] for one in found] == wanted
        stream = (await client.send("GET", at("v1"), watch="true", fieldSelector="spec.colour=red")).stream
        assert stream is not None
        assert json.loads(await anext(stream))["type"] == "ADDED"
        await client.ask("PATCH", at("v1", "a"), {"spec": {"colour": "green"}}, MERGE)
        assert json.loads(await anext(stream))["type"] == "DELETED"
        await stream.aclose()  # type: ignore[attr-defined]  # a generator
        await client.ask("DELETE", at("v1"), fieldSelector="spec.colour=blue")
        assert len((await client.ask("GET", at("v1")))["items"]) == 1
        await client.ask("GET", at("v2"), fieldSelector="spec.colour=red", code=400)

    asked(main)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".spec.nothing", "is an invalid path: does not refer to a valid field"),
        ("spec", "is an invalid path"),
        (".spec", "must point to a field of type string, boolean or integer"),
        ("", "Required value"),
    ],
)
def test_selectable_fields_are_checked(path: str, text: str) -> None:
    async def main(client: Client) -> None:
        made = version("v1", storage=True, selectableFields=[{"jsonPath": path}])
        refused = await client.ask("POST", CRDS, definition(made), code=422)
        assert text in refused["message"]

    asked(main)


def test_versions_of_other_schemas_do_not_select_by_the_same_fields_alone() -> None:
    """As on a real API server."""

    async def main(client: Client) -> None:
        fields = [{"jsonPath": ".spec.colour"}]
        one = version("v1", storage=True, selectableFields=fields)
        other = {**one, "name": "v2", "storage": False}
        await client.ask("POST", CRDS, definition(one, other), dryRun="All")
        schema = {"openAPIV3Schema": {**one["schema"]["openAPIV3Schema"], "description": "another"}}
        refused = await client.ask("POST", CRDS, definition(one, {**other, "schema": schema}), code=422)
        assert "spec.selectableFields: Invalid value" in refused["message"]

    asked(main)
