"""Catalog, CRDs, status objects, names and effective requests."""

from __future__ import annotations

import msgspec
import pytest

from strato.api import catalog, crds, names, pods, status
from strato.api.core import Pod, PodSpec
from strato.api.kinds import Kind
from strato.errors import AlreadyExists, ApiError, Cause, Conflict, Gone, NotFound


def test_every_kind_is_found_by_its_resource_its_name_and_its_view() -> None:
    for kind in catalog.BUILTIN + catalog.CUSTOM:
        assert catalog.find(kind.group, kind.version, kind.plural) is kind
        assert catalog.find_named(kind.api_version, kind.name) is kind
        assert catalog.kind_of(kind.view) is kind


def test_every_view_reads_an_empty_object_and_one_with_unknown_fields() -> None:
    for kind in catalog.BUILTIN + catalog.CUSTOM:
        msgspec.json.decode(b"{}", type=kind.view)
        read = msgspec.json.decode(b'{"metadata":{"name":"x","foo":1},"bar":[]}', type=kind.view)
        assert read.metadata.name == "x"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (catalog.POD, {"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}),
        (catalog.VCCRONJOB, {"spec": {"jobTemplate": {"spec": {"tasks": []}}}}),
        (catalog.CONTROLLERREVISION, {"data": {"spec": {}}}),
        (catalog.VALIDATINGADMISSIONPOLICY, {"spec": {"validations": []}}),
        (catalog.VALIDATINGADMISSIONPOLICYBINDING, {"spec": {"policyName": "p"}}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_view_reads_what_it_leaves_as_json(kind: Kind, body: dict[str, object]) -> None:
    """An object that its view cannot read is invisible to every component."""
    msgspec.json.decode(msgspec.json.encode(body), type=kind.view)


def test_a_pod_may_write_quantities_as_numbers() -> None:
    body = b'{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":0.5,"memory":4}}}]}}'
    asked = pods.effective_requests(msgspec.json.decode(body, type=Pod).spec)
    assert {name: str(amount) for name, amount in asked.items()} == {"cpu": "500m", "memory": "4"}


def _spec(**body: object) -> PodSpec:
    return msgspec.convert(body, PodSpec)


def _container(cpu: str, **more: object) -> dict[str, object]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


REQUESTS = [
    ("containers add up", {"containers": [_container("1"), _container("500m")]}, 1500),
    (
        "the largest init container counts when it is larger",
        {"containers": [_container("1")], "initContainers": [_container("3"), _container("2")]},
        3000,
    ),
    (
        "a sidecar stays",
        {"containers": [_container("1")], "initContainers": [_container("2", restartPolicy="Always")]},
        3000,
    ),
    (
        "an init container runs beside earlier sidecars only",
        {
            "containers": [_container("1")],
            "initContainers": [_container("1", restartPolicy="Always"), _container("4"), _container("9m")],
        },
        5000,
    ),
    ("overhead comes on top", {"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1250),
    (
        "pod-level requests win",
        {"containers": [_container("1")], "resources": {"requests": {"cpu": "7"}}, "overhead": {"cpu": "1"}},
        8000,
    ),
    ("nothing asked is nothing", {"containers": [{"name": "c"}]}, None),
]


@pytest.mark.parametrize(("spec", "want"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS])
def test_effective_requests(spec: dict[str, object], want: int | None) -> None:
    read = _spec(**spec)
    exact = pods.effective_requests(read).get("cpu")
    assert (exact.milli_value if exact is not None else None) == want


def _amounts(cpu: str) -> dict[str, object]:
    return {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}


RESIZED = [
    ("what is wanted is more", "2", "1", "1", [], "2"),
    ("what it has is more", "1", "2", "1", [], "2"),
    ("what it was given is more", "1", "1", "2", [], "2"),
    ("the same in other words", "1", "1000m", "1", [], "1"),
    ("what is infeasible is not wanted", "5", "1", "2", [{"type": "PodResizePending", "reason": "Infeasible"}], "2"),
    ("what is deferred is wanted", "5", "1", "2", [{"type": "PodResizePending", "reason": "Deferred"}], "5"),
]


@pytest.mark.parametrize(
    ("wanted", "actual", "allocated", "conditions", "want"), [r[1:] for r in RESIZED], ids=[r[0] for r in RESIZED]
)
def test_a_pod_counts_for_the_most_it_may_hold(
    wanted: str, actual: str, allocated: str, conditions: list[object], want: str
) -> None:
    entry = {"name": "c", "resources": _amounts(actual), "allocatedResources": {"cpu": allocated}}
    body = {
        "metadata": {"generation": 2},
        "spec": {"containers": [{"name": "c", "resources": _amounts(wanted)}]},
        "status": {"containerStatuses": [entry], "conditions": conditions},
    }
    found = pods.effective_spec(msgspec.convert(body, Pod))
    assert str(pods.effective_requests(found)["cpu"]) == want
    as_a_whole = {
        "metadata": {"generation": 2},
        "spec": {"containers": [{"name": "c"}], "resources": _amounts(wanted)},
        "status": {"containerStatuses": [{"name": "c"}], "conditions": conditions, **entry},
    }
    whole = pods.effective_spec(msgspec.convert(as_a_whole, Pod))
    assert str(pods.effective_requests(whole)["cpu"]) == want
    body["metadata"] = {"generation": 1}  # nothing has been changed in it
    unchanged = msgspec.convert(body, Pod)
    assert pods.effective_spec(unchanged) is unchanged.spec


WORDING = [
    (status.not_found(catalog.POD, "x"), NotFound, 'pods "x" not found'),
    (status.already_exists(catalog.VCJOB, "x"), AlreadyExists, 'jobs.batch.volcano.sh "x" already exists'),
    (
        status.conflict(catalog.POD, "x"),
        Conflict,
        'Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes to the '
        "latest version and try again",
    ),
    (
        status.invalid(catalog.POD, "x", [status.required("spec.containers")]),
        ApiError,
        'Pod "x" is invalid: spec.containers: Required value',
    ),
    (
        status.invalid(catalog.VCJOB, "x", [status.required("a"), status.required("b"), status.required("a")]),
        ApiError,
        'Job.batch.volcano.sh "x" is invalid: [a: Required value, b: Required value]',
    ),
]


@pytest.mark.parametrize(("error", "type_", "text"), WORDING)
def test_errors_are_worded_as_kubernetes_words_them_and_survive_the_wire(
    error: ApiError, type_: type[ApiError], text: str
) -> None:
    assert error.message == text
    back = status.from_status(status.to_status(error))
    assert isinstance(back, type_)
    assert (back.message, back.reason, back.code, back.causes) == (text, error.reason, error.code, error.causes)


@pytest.mark.parametrize("body", [{}, {"code": "x"}, {"details": 3}, {"details": {"causes": [1]}}, {"reason": None}])
def test_any_body_becomes_an_error(body: dict[str, object]) -> None:
    assert status.from_status(body, 410).code == 410
    assert isinstance(status.from_status(body, 410), Gone)


def test_a_cause_without_a_field_is_its_message() -> None:
    assert status.aggregate([Cause("x", "boo")]) == "boo"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.check_label, "a-1", "a.b"),
        (names.check_subdomain, "a.b-1", "A"),
        (names.check_label_1035, "a1", "1a"),
        (names.check_qualified_name, "x.y/Z_1", "a/b/c"),
        (names.check_label_value, "", "-a"),
        (names.check_config_key, "a.b_C", ".."),
        (names.check_port_name, "http-1", "a--b"),
        (names.check_env_name, "A B", "a=b"),
        (names.check_ip, "10.0.0.1", "10.0.0"),
        (names.check_path_segment, "system:x", "a/b"),
    ],
)
def test_names(check: object, good: str, bad: str) -> None:
    assert check(good) == []  # type: ignore[operator]  # a table of functions
    assert check(bad) != []  # type: ignore[operator]  # a table of functions


def test_crds_carry_what_the_catalog_says() -> None:
    manifests = {manifest["metadata"]["name"]: manifest for manifest in crds.manifests()}
    assert set(manifests) == {kind.resource for kind in catalog.CUSTOM}
    for kind in catalog.CUSTOM:
        manifest = manifests[kind.resource]
        (version,) = (one for one in manifest["spec"]["versions"] if one["name"] == kind.version)
        annotations = dict(manifest["metadata"]["annotations"])
        assert annotations.pop("helm.sh/resource-policy") == "keep"
        assert set(annotations) == ({"api-approved.kubernetes.io"} if kind.group.endswith(".k8s.io") else set())
        assert ("subresources" in version) is kind.has_status
        assert tuple(manifest["spec"]["names"].get("shortNames", ())) == kind.short_names
        assert len(version.get("additionalPrinterColumns", ())) == len(kind.columns)
        _assert_structural(version["schema"]["openAPIV3Schema"])


def _assert_structural(schema: dict[str, object]) -> None:
    assert "type" in schema or schema.get("x-kubernetes-int-or-string"), schema
    for child in (schema.get("properties") or {}).values():  # type: ignore[attr-defined]  # plain JSON
        _assert_structural(child)
    for member in ("items", "additionalProperties"):
        child = schema.get(member)
        if isinstance(child, dict):
            _assert_structural(child)


def test_pod_groups_have_no_status_subresource() -> None:
    assert not catalog.PODGROUP.has_status


def test_of_thousands_of_causes_the_first_are_written() -> None:
    causes = [Cause("FieldValueInvalid", "must be shorter", f"spec.items[{number}]") for number in range(3_000)]
    error = status.invalid(catalog.POD, "x", causes)
    written = status.to_status(error)
    assert len(error.causes) == 1_000
    assert [cause["field"] for cause in written["details"]["causes"]] == [f"spec.items[{n}]" for n in range(1_000)]
    assert written["message"].endswith("spec.items[999]: must be shorter, and 2000 more]")
