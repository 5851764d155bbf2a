"""Rules of kinds that the recorded answers of a real API server do not reach: each once kept, and broken alone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from strato.api import catalog
from strato.api.defaults.flowcontrol import default_flow_schema, default_priority_level
from strato.api.defaults.others import default_policy_binding
from strato.api.defaults.service import default_service, keep_addresses
from strato.api.defaults.workloads import default_job
from strato.api.kinds import Kind
from strato.api.validation import validate_create
from strato.api.validation.clusternetworks import (
    validate_ip_address,
    validate_service_cidr,
    validate_service_cidr_update,
)
from strato.api.validation.flowcontrol import validate_flow_schema, validate_priority_level
from strato.api.validation.others import validate_node, validate_priority_class_update, validate_secret
from strato.api.validation.podspec import validate_pod_spec
from strato.api.validation.resize import validate_resize
from strato.api.validation.runtimeclasses import validate_runtime_class
from strato.errors import Cause

Json = dict[str, Any]


def fields(causes: Sequence[Cause]) -> list[str]:
    return [cause.field for cause in causes]


def pod_problems(**spec: Any) -> list[str]:
    container = {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    body = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "containers": [{**container, **spec.pop("c", {})}]}
    for member in ("initContainers", "ephemeralContainers"):
        if member in spec:
            spec[member] = [{**container, **one} for one in spec[member]]
    causes: list[Cause] = []
    validate_pod_spec({**body, **spec}, "spec", causes)
    return fields(causes)


# -- flow control ------------------------------------------------------------------------------------------------------

RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "clusterScope": True}
USER = {"kind": "User", "user": {"name": "u"}}


def schema(name: str = "s", **spec: Any) -> Json:
    rules = spec.pop("rules", [{"subjects": [USER], "resourceRules": [RULE]}])
    body = {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "p"}, "rules": rules, **spec}
    return {"metadata": {"name": name}, "spec": body}


def ruled(subjects: Sequence[Json] = (USER,), rules: Sequence[Json] = (RULE,), others: Sequence[Json] = ()) -> Json:
    return schema(rules=[{"subjects": list(subjects), "resourceRules": list(rules), "nonResourceRules": list(others)}])


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        pytest.param(schema(), [], id="fine"),
        pytest.param(schema(rules=[]), [], id="no rules"),
        pytest.param(schema(matchingPrecedence=0), ["matchingPrecedence"], id="no precedence"),
        pytest.param(schema(matchingPrecedence=2), [], id="the least precedence"),
        pytest.param(schema(matchingPrecedence=10_000), [], id="the most precedence"),
        pytest.param(schema(matchingPrecedence=10_001), ["matchingPrecedence"], id="too much precedence"),
        pytest.param(schema(matchingPrecedence=1), ["matchingPrecedence"], id="precedence 1 is that of the exempt"),
        pytest.param(schema("exempt", matchingPrecedence=1), [], id="the exempt"),
        pytest.param(schema(distinguisherMethod={"type": "ByUser"}), [], id="by user"),
        pytest.param(schema(distinguisherMethod={}), ["distinguisherMethod.type"], id="by nothing"),
        pytest.param(schema(priorityLevelConfiguration={}), ["priorityLevelConfiguration.name"], id="of no level"),
        pytest.param(ruled(subjects=[]), ["rules[0].subjects"], id="of nobody"),
        pytest.param(ruled(rules=[]), ["rules[0]"], id="nothing at all"),
        pytest.param(ruled(rules=[], others=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}]), [], id="other paths"),
        pytest.param(
            ruled(others=[{"verbs": ["*", "get"]}]),
            ["rules[0].nonResourceRules[0].verbs", "rules[0].nonResourceRules[0].nonResourceURLs"],
            id="any verb and another, and no path",
        ),
        pytest.param(ruled(rules=[{**RULE, "verbs": ["*"]}]), [], id="any verb"),
        pytest.param(
            ruled(rules=[{**RULE, "clusterScope": False}]), ["rules[0].resourceRules[0].namespaces"], id="nowhere"
        ),
        pytest.param(ruled(rules=[{**RULE, "clusterScope": False, "namespaces": ["*"]}]), [], id="in namespaces"),
        pytest.param(ruled([{"kind": "Tree"}]), ["rules[0].subjects[0].kind"], id="of no kind"),
        pytest.param(
            ruled([USER, {"kind": "Group", "user": {"name": "u"}}]),
            ["rules[0].subjects[1].user", "rules[0].subjects[1].group"],
            id="a group that is a user",
        ),
        pytest.param(ruled([{"kind": "User", "user": {}}]), ["rules[0].subjects[0].user.name"], id="without a name"),
    ],
)
def test_flow_schemas(obj: Json, wrong: list[str]) -> None:
    assert fields(validate_flow_schema(obj)) == [f"spec.{field}" for field in wrong]


QUEUES = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def level(name: str = "l", kind: str = "Limited", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"type": kind, **spec}}


def limited(response: Json | None = None, **more: Any) -> Json:
    return level(limited={"limitResponse": response if response is not None else {"type": "Reject"}, **more})


def queuing(**more: Any) -> Json:
    return limited({"type": "Queue", "queuing": {**QUEUES, **more}})


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        pytest.param(limited(), [], id="fine"),
        pytest.param(queuing(), [], id="queues"),
        pytest.param(level("exempt", "Exempt"), [], id="the exempt"),
        pytest.param(
            level("exempt", limited={"limitResponse": {"type": "Reject"}}), ["type"], id="exempt, yet limited"
        ),
        pytest.param(level(kind="Exempt"), ["type"], id="limited, yet exempt"),
        pytest.param(level("exempt", "Exempt", limited={}), ["limited"], id="exempt with limits"),
        pytest.param(level(exempt={}, limited={"limitResponse": {"type": "Reject"}}), ["exempt"], id="two of them"),
        pytest.param(level(), ["limited"], id="without limits"),
        pytest.param(level(kind="None"), ["type"], id="of no type"),
        pytest.param(limited(nominalConcurrencyShares=0, lendablePercent=0), [], id="nothing, and none of it lent"),
        pytest.param(limited(nominalConcurrencyShares=-1), ["limited.nominalConcurrencyShares"], id="less than none"),
        pytest.param(limited(lendablePercent=100), [], id="all is lent"),
        pytest.param(limited(lendablePercent=101), ["limited.lendablePercent"], id="more than all is lent"),
        pytest.param(limited(lendablePercent=-1), ["limited.lendablePercent"], id="less than nothing is lent"),
        pytest.param(limited({}), ["limited.limitResponse.type"], id="no response"),
        pytest.param(
            limited({"type": "Reject", "queuing": QUEUES}), ["limited.limitResponse.queuing"], id="queues of nobody"
        ),
        pytest.param(limited({"type": "Queue"}), ["limited.limitResponse.queuing"], id="no queues"),
        pytest.param(queuing(queues=0), ["limited.limitResponse.queuing.queues"], id="zero queues"),
        pytest.param(queuing(queues=8), [], id="a hand of all queues"),
        pytest.param(queuing(queues=7), ["limited.limitResponse.queuing.handSize"], id="a hand of more"),
        pytest.param(queuing(queues=10_000_000), [], id="the most queues"),
        pytest.param(queuing(queues=10_000_001), ["limited.limitResponse.queuing.queues"], id="too many queues"),
        pytest.param(queuing(handSize=0), ["limited.limitResponse.queuing.handSize"], id="an empty hand"),
        pytest.param(queuing(queueLengthLimit=0), ["limited.limitResponse.queuing.queueLengthLimit"], id="no length"),
    ],
)
def test_priority_levels(obj: Json, wrong: list[str]) -> None:
    assert fields(validate_priority_level(obj)) == [f"spec.{field}" for field in wrong]


def test_what_flow_control_leaves_out_is_filled_in() -> None:
    obj = level(limited={"limitResponse": {"type": "Queue", "queuing": {"queues": 3}}})
    default_priority_level(obj)
    assert obj["spec"]["limited"] == {
        "limitResponse": {"type": "Queue", "queuing": {"queues": 3, "handSize": 8, "queueLengthLimit": 50}},
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
    }
    given = {"nominalConcurrencyShares": 0, "lendablePercent": 5}
    obj = level(limited=dict(given))
    default_priority_level(obj)
    assert obj["spec"]["limited"] == given
    for exempt, filled in ((None, {"nominalConcurrencyShares": 0, "lendablePercent": 0}), (given, given)):
        obj = level("exempt", "Exempt", **({"exempt": dict(exempt)} if exempt else {}))
        default_priority_level(obj)
        assert obj["spec"]["exempt"] == filled
    for precedence, filled_in in (({}, 1000), ({"matchingPrecedence": 5}, 5)):
        obj = {"spec": {"rules": [], **precedence}}
        default_flow_schema(obj)
        assert obj["spec"]["matchingPrecedence"] == filled_in


# -- networks ----------------------------------------------------------------------------------------------------------

PARENT = {"resource": "services", "name": "s"}


@pytest.mark.parametrize(
    ("parent", "wrong"),
    [
        pytest.param(None, [""], id="nobody's"),
        pytest.param(PARENT, [], id="of the core group"),
        pytest.param({**PARENT, "group": "a.io", "namespace": "n"}, [], id="of another group"),
        pytest.param({**PARENT, "group": "A io"}, [".group"], id="of no group"),
        pytest.param({"name": "s"}, [".resource"], id="of no resource"),
        pytest.param({"resource": "services"}, [".name"], id="of none by name"),
        pytest.param({**PARENT, "namespace": "a/b"}, [".namespace"], id="of no namespace"),
    ],
)
def test_whose_an_address_is(parent: Json | None, wrong: list[str]) -> None:
    body = {"spec": {} if parent is None else {"parentRef": parent}}
    assert sorted(set(fields(validate_ip_address(body)))) == [f"spec.parentRef{field}" for field in wrong]


@pytest.mark.parametrize(
    ("ranges", "wrong"),
    [
        pytest.param([], [""], id="none"),
        pytest.param(["10.0.0.0/8"], [], id="one"),
        pytest.param(["10.0.0.0/8", "fd00::/64"], [], id="one of each family"),
        pytest.param(["10.0.0.0/8", "11.0.0.0/8"], [""], id="two of a family"),
        pytest.param(["10.0.0.0/8", "fd00::/64", "fd01::/64"], [""], id="three"),
        pytest.param(["10.0.0.1/8"], ["[0]"], id="not the first address"),
        pytest.param(["10.0.0.0"], ["[0]"], id="no range"),
        pytest.param(["10.0.0.0/8", "x/8"], ["[1]"], id="one of two is none"),
        pytest.param(["x/8", "10.0.0.1/8"], ["[0]", "[1]"], id="both"),
    ],
)
def test_ranges_of_services(ranges: list[str], wrong: list[str]) -> None:
    assert fields(validate_service_cidr({"spec": {"cidrs": ranges}})) == [f"spec.cidrs{field}" for field in wrong]


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        (["10.0.0.0/8"], ["10.0.0.0/8"], True),
        (["10.0.0.0/8"], ["10.0.0.0/8", "fd00::/64"], True),
        (["10.0.0.0/8"], ["10.0.0.0/8", "11.0.0.0/8"], False),
        (["10.0.0.0/8"], ["11.0.0.0/8"], False),
        (["10.0.0.0/8"], ["fd00::/64", "10.0.0.0/8"], False),
        (["10.0.0.0/8", "fd00::/64"], ["10.0.0.0/8"], False),
    ],
)
def test_ranges_stay_and_a_second_may_come(old: list[str], new: list[str], fine: bool) -> None:
    causes = validate_service_cidr_update({"spec": {"cidrs": new}}, {"spec": {"cidrs": old}})
    assert (not causes) == fine


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"sessionAffinity": "ClientIP"}, 10800, id="three hours"),
        pytest.param(
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 1}}}, 1, id="given"
        ),
    ],
)
def test_sessions_stay_with_a_pod(spec: Json, config: int | None) -> None:
    obj = {"spec": spec}
    default_service(obj)
    found = obj["spec"].get("sessionAffinityConfig")
    assert (found and found["clientIP"]["timeoutSeconds"]) == config


# -- workloads and pods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6}, id="one pod"),
        pytest.param({"parallelism": 3}, {"completions": None, "parallelism": 3}, id="a queue of work"),
        pytest.param({"completions": 3}, {"completions": 3, "parallelism": 1}, id="one after another"),
        pytest.param({"backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}, id="limits of each index"),
        pytest.param({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}, id="rules on failures"),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "A"}, {"type": "B", "status": "False"}]}]}},
            {
                "podFailurePolicy": {
                    "rules": [{"onPodConditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}]
                }
            },
            id="conditions of pods",
        ),
        pytest.param(
            {},
            {"podReplacementPolicy": "TerminatingOrFailed", "suspend": False, "manualSelector": False},
            id="no rules",
        ),
        pytest.param({"suspend": True}, {"suspend": True, "completionMode": "NonIndexed"}, id="what is given stays"),
    ],
)
def test_what_a_job_leaves_out_is_filled_in(spec: Json, expected: Json) -> None:
    obj = {"spec": {**spec, "template": {"spec": {"containers": []}}}}
    default_job(obj)
    assert {name: obj["spec"].get(name) for name in expected} == expected


def test_a_container_that_is_added_has_nothing_that_the_pod_relies_on() -> None:
    kept = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    assert pod_problems(ephemeralContainers=[{"name": "e", "targetContainerName": "c", **kept}], volumes=volumes) == []
    place = "spec.ephemeralContainers[0]"
    bad: dict[str, Any] = {
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1"}},
        "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
        "readinessProbe": {"exec": {"command": ["x"]}, "timeoutSeconds": 1, "periodSeconds": 1, "successThreshold": 1,
                           "failureThreshold": 1},
    }  # fmt: skip
    for member, value in bad.items():
        container = {"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
        assert f"{place}.{member}" in pod_problems(ephemeralContainers=[{**container, member: value}]), member
    assert pod_problems(ephemeralContainers=[{"name": "e", "targetContainerName": "d"}]) == [
        f"{place}.targetContainerName"
    ]
    mounts = [{"name": "v", "mountPath": "/v", "subPath": "x"}, {"name": "v", "mountPath": "/w"}]
    assert pod_problems(ephemeralContainers=[{"name": "e", "volumeMounts": mounts}], volumes=volumes) == [
        f"{place}.volumeMounts[0].subPath"
    ]


@pytest.mark.parametrize(
    ("policy", "restart", "wrong"),
    [
        pytest.param([{"resourceName": "cpu", "restartPolicy": "NotRequired"}], "Never", 0, id="fine"),
        pytest.param([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "Always", 0, id="it starts again"),
        pytest.param([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "Never", 1, id="nothing does"),
        pytest.param([{"resourceName": "gpu", "restartPolicy": "NotRequired"}], "Always", 1, id="no such resource"),
        pytest.param([{"resourceName": "cpu"}], "Always", 1, id="no policy"),
        pytest.param(
            [{"resourceName": one, "restartPolicy": "NotRequired"} for one in ("cpu", "memory", "cpu")],
            "Always", 1, id="one of them twice",
        ),
    ],
)  # fmt: skip
def test_how_resources_are_changed(policy: list[Json], restart: str, wrong: int) -> None:
    assert len(pod_problems(c={"resizePolicy": policy}, restartPolicy=restart)) == wrong


def test_a_projected_volume_tells_which_source_takes_a_path_twice() -> None:
    item = {"key": "k", "path": "p"}
    for first, second, wrong in (
        ({"name": "a", "items": [item]}, {"name": "b", "items": [{**item, "path": "q"}]}, []),
        ({"name": "a", "items": [item]}, {"name": "b", "items": [item]}, [""]),
        ({"items": [item]}, {"name": "b", "items": [item]}, [".sources[0].secret.name", ""]),
        ({"name": "b", "items": [item]}, {"items": [item]}, [".sources[1].configMap.name", ""]),
        (
            {"name": "a", "items": [{"key": "k"}]},
            {"name": "b", "items": [{"key": "k"}]},
            [".sources[0].secret.items[0].path", ".sources[1].configMap.items[0].path"],
        ),
    ):
        sources = [{"secret": first}, {"configMap": second}]
        volume = {"name": "v", "projected": {"sources": sources, "defaultMode": 420}}
        assert pod_problems(volumes=[volume]) == [f"spec.volumes[0].projected{field}" for field in wrong]


def test_a_path_that_a_source_without_a_name_takes_again_is_shown_as_that_of_an_empty_name() -> None:
    sources = [{"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}}]
    sources.append({"configMap": {"items": [{"key": "k", "path": "p"}]}})
    causes: list[Cause] = []
    volume = {"name": "v", "projected": {"sources": sources, "defaultMode": 420}}
    validate_pod_spec({"restartPolicy": "Always", "dnsPolicy": "Default", "volumes": [volume]}, "spec", causes)
    shown = [cause.message for cause in causes if cause.field == "spec.volumes[0].projected"]
    assert shown == ['Invalid value: "": conflicting duplicate paths']


def running(**resources: str) -> Json:
    container = {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    spec = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "containers": [{**container, "resources": {"requests": resources} if resources else {}}],
    }
    return {"metadata": {}, "spec": spec, "status": {"qosClass": "Burstable" if resources else "BestEffort"}}


def test_a_resize_says_the_class_that_it_would_change() -> None:
    assert validate_resize(running(cpu="2"), running(cpu="1")) == []
    old, new = running(cpu="1"), running(cpu="1")
    new["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "1Gi"}
    new["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    [cause] = validate_resize(new, old)
    assert (cause.field, "Burstable" in cause.message) == ("spec", True)
    del old["status"]
    del new["status"]
    [cause] = validate_resize(new, old)
    assert "Burstable" not in cause.message


@pytest.mark.parametrize("member", ["containers", "initContainers"])
def test_containers_stay_as_many_and_in_their_order_on_a_resize(member: str) -> None:
    def made(*names: str) -> Json:
        pod = running(cpu="1")
        [one] = pod["spec"]["containers"]
        others = [{**one, "name": name} for name in names]
        pod["spec"][member] = [*(pod["spec"].get(member) or ()), *others]
        return pod

    assert validate_resize(made("a", "b"), made("a", "b")) == []
    assert fields(validate_resize(made("a"), made("a", "b"))) == [f"spec.{member}"]
    start = 1 if member == "containers" else 0
    assert fields(validate_resize(made("b", "a"), made("a", "b"))) == [
        f"spec.{member}[{start + at}].name" for at in range(2)
    ]


# -- others ------------------------------------------------------------------------------------------------------------

TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "wrong"),
    [
        pytest.param(None, [], id="none"),
        pytest.param([TAINT, {**TAINT, "effect": "NoExecute"}], [], id="two effects of a key"),
        pytest.param([TAINT, TAINT], ["[1]"], id="twice"),
        pytest.param([{"key": "k"}], ["[0].effect"], id="no effect"),
        pytest.param([{**TAINT, "value": "a b"}], ["[0].value"], id="no value"),
    ],
)
def test_taints_of_nodes(taints: list[Json] | None, wrong: list[str]) -> None:
    for spec in ({"taints": taints}, {}) if taints is None else ({"taints": taints},):
        assert fields(validate_node({"spec": spec})) == [f"metadata.taints{field}" for field in wrong]


def encoded(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param({"data": None}, [], id="nothing"),
        pytest.param({"data": {"a": "eA==", "b": None}}, [], id="fine"),
        pytest.param({"data": {"a": "x"}}, ["data[a]"], id="no base64"),
        pytest.param({"data": {"a b": ""}}, ["data[a b]"], id="no key"),
        pytest.param({"data": {"a": encoded(1 << 19), "b": encoded(1 << 19)}}, [], id="as large as it may be"),
        pytest.param({"data": {"a": encoded(1 << 19), "b": encoded((1 << 19) + 1)}}, ["data"], id="too large"),
    ],
)
def test_secrets(obj: Json, wrong: list[str]) -> None:
    assert fields(validate_secret(obj)) == wrong


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        pytest.param({"handler": "runc"}, [], id="fine"),
        pytest.param({}, ["FieldValueRequired"], id="no handler"),
        pytest.param({"handler": ""}, ["FieldValueRequired"], id="an empty handler"),
        pytest.param({"handler": "Run_C"}, ["FieldValueInvalid"], id="no label"),
    ],
)
def test_handlers_of_runtime_classes(obj: Json, wrong: list[str]) -> None:
    assert [(cause.field, cause.reason) for cause in validate_runtime_class(obj)] == [("handler", one) for one in wrong]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        pytest.param({"value": 5}, {"value": 5}, [], id="the same"),
        pytest.param({"value": 5}, {"value": 6}, ["value"], id="another"),
        pytest.param({"value": 5}, {}, ["value"], id="none any more"),
        pytest.param({}, {"value": 0}, [], id="none is 0"),
        pytest.param({}, {"value": 1}, ["value"], id="one where there was none"),
    ],
)
def test_the_value_of_a_priority_class_stays(old: Json, new: Json, wrong: list[str]) -> None:
    assert fields(validate_priority_class_update(new, old)) == wrong


@pytest.mark.parametrize("member", ["resourceRules", "excludeResourceRules"])
def test_rules_of_admission_policies_are_about_every_scope_by_default(member: str) -> None:
    resources: Json = {member: [{}, {"scope": "Namespaced"}]}
    default_policy_binding({"spec": {"matchResources": resources}})
    assert resources == {
        member: [{"scope": "*"}, {"scope": "Namespaced"}],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    }


def test_a_service_keeps_all_addresses_that_an_update_leaves_out() -> None:
    addresses = {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"]}
    for new, kept in (({}, True), ({"clusterIP": ""}, True), ({"type": "ExternalName"}, False)):
        spec: Json = {"type": "ClusterIP", **new}
        keep_addresses({"spec": spec}, {"spec": {"type": "ClusterIP", **addresses}})
        assert {name: spec[name] for name in addresses if spec.get(name)} == (addresses if kept else {})


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (catalog.ENDPOINTS, {"subsets": [{"addresses": [{"ip": "127.64.0.5"}]}]}),
        (catalog.ENDPOINTSLICE, {"addressType": "IPv4", "endpoints": [{"addresses": ["127.64.0.5"]}]}),
    ],
)
def test_pods_of_an_ordinary_user_may_be_endpoints_at_their_addresses_of_loopback(kind: Kind, members: Json) -> None:
    assert validate_create(kind, {"metadata": {"name": "s", "namespace": "d"}, **members}) == []
