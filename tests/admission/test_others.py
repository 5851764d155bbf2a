"""Queues, groups, pods, flows, cron jobs, HyperNodes, and Kubernetes' own plug-ins."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from strato.admission import ChainOptions, Denied
from strato.admission.pods import GATE, ResourceGroup
from strato.api import catalog
from strato.api.crds.jobs import MAX_CONDITIONS
from strato.api.kinds import Kind
from strato.errors import BadRequest, Forbidden
from tests.admission.reader import FakeWorld, admit

Json = dict[str, Any]


def queue(name: str = "x", state: str = "", annotations: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec, "status": {"state": state}}


def test_queue_defaults() -> None:
    annotations = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"}
    made = admit(catalog.QUEUE, queue(annotations=annotations), FakeWorld())
    assert made["spec"] == {"reclaimable": True, "weight": 1}
    assert made["metadata"]["annotations"]["volcano.sh/hierarchy"] == "root/a/b"
    assert made["metadata"]["annotations"]["volcano.sh/hierarchy-weights"] == "1/2/3"


def tree() -> FakeWorld:
    reader = FakeWorld().queue("root").queue("default")
    reader.queue("top", capability={"cpu": 10}, deserved={"cpu": 8}, guarantee={"resource": {"cpu": 4}})
    reader.queue("mid", parent="top", capability={"cpu": 6}, deserved={"cpu": 5}, guarantee={"resource": {"cpu": 2}})
    return reader.queue("busy", allocated={"pods": "3"})


@pytest.mark.parametrize(
    ("before", "sent", "after"),
    [
        pytest.param({"parent": "root"}, {}, "root", id="what the controller filled in stays"),
        pytest.param({"parent": "root"}, {"parent": "top"}, "top", id="a queue moves"),
        pytest.param({"parent": "top"}, {}, None, id="a queue moves back below root, as the controller says then"),
        pytest.param({}, {}, None, id="root has no parent, and others none before their controller saw them"),
    ],
)
def test_a_queue_that_is_sent_once_more_keeps_its_parent(before: Json, sent: Json, after: str | None) -> None:
    made = admit(catalog.QUEUE, queue(**sent), tree(), old=queue(**before), operation="UPDATE")
    assert made["spec"].get("parent") == after


QUEUES: list[tuple[str, Json, str]] = [
    ("negative amount", queue(capability={"cpu": "-1"}), "must be greater than or equal to 0"),
    ("half a GPU", queue(capability={"nvidia.com/gpu": "500m"}), "must be an integer"),
    (
        "guarantee not deserved",
        queue(guarantee={"resource": {"cpu": 1}}),
        r"deserved\[cpu\] must be >= guarantee\[cpu\]=1",
    ),
    (
        "deserved above capability",
        queue(deserved={"cpu": 2}, capability={"cpu": 1}),
        r"deserved\[cpu\]=2 must be <= capability\[cpu\]=1",
    ),
    ("a state of its own", queue(state="Closing"), "queue state must be in"),
    ("its own parent", queue(parent="x"), "queue x cannot use itself as parent"),
    ("unknown parent", queue(parent="nope"), "not found"),
    ("parent with pods", queue(parent="busy"), "allocated Pods"),
    (
        "above its ancestor",
        queue(parent="mid", capability={"cpu": 7}),
        r"capability\[cpu\]=7 exceeds its ancestor's capability=6",
    ),
    (
        "more than its parent deserves",
        queue(parent="top", deserved={"cpu": 4}),
        "parent queue top validation failed: sum of children's deserved",
    ),
    (
        "weights that do not match",
        queue(annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"}),
        "same length",
    ),
    (
        "a weight of zero",
        queue(annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/0"}),
        "larger than 0",
    ),
]


@pytest.mark.parametrize(("body", "want"), [row[1:] for row in QUEUES], ids=[row[0] for row in QUEUES])
def test_bad_queues_are_refused(body: Json, want: str) -> None:
    with pytest.raises(Denied, match=want):
        admit(catalog.QUEUE, body, tree())


def test_queues_may_not_grow_too_deep() -> None:
    reader = FakeWorld().queue("q1")
    for level in range(2, 6):
        reader.queue(f"q{level}", parent=f"q{level - 1}")
    admit(catalog.QUEUE, queue(parent="q4"), reader)
    with pytest.raises(Denied, match="queue x exceeds the maximum allowed depth of 5"):
        admit(catalog.QUEUE, queue(parent="q5"), reader)


def test_a_parent_may_not_shrink_below_its_children() -> None:
    old = tree().get(catalog.QUEUE, "", "top")
    new = queue("top", capability={"cpu": 5}, deserved={"cpu": 5}, guarantee={"resource": {"cpu": 4}})
    with pytest.raises(Denied, match="is smaller than its descendants' max capability"):
        admit(catalog.QUEUE, new, tree(), old=old, operation="UPDATE", name="top")


def test_the_root_queue_keeps_its_resources() -> None:
    old = tree().get(catalog.QUEUE, "", "root")
    with pytest.raises(Denied, match="root"):
        admit(catalog.QUEUE, queue("root", capability={"cpu": 1}), tree(), old=old, operation="UPDATE", name="root")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("default", "can not be deleted"),
        ("root", "can not be deleted"),
        ("top", "1 child queues: mid"),
        ("no", "not found"),
    ],
)
def test_queues_that_may_not_be_deleted(name: str, want: str) -> None:
    with pytest.raises(Denied, match=want):
        admit(catalog.QUEUE, None, tree(), old={"metadata": {"name": name}}, operation="DELETE", name=name)


def test_other_queues_may_be_deleted() -> None:
    admit(catalog.QUEUE, None, tree(), old={"metadata": {"name": "mid"}}, operation="DELETE", name="mid")


def test_groups_of_the_default_queue_follow_their_namespace() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "team"}
    reader = FakeWorld().queue("team").add(catalog.NAMESPACE, "default", metadata={"annotations": annotations})
    made = admit(catalog.PODGROUP, {"metadata": {"name": "x"}, "spec": {"queue": "default"}}, reader)
    assert made["spec"]["queue"] == "team"


def test_groups_name_every_problem() -> None:
    topology = {"highestTierAllowed": 1, "highestTierName": "rack"}
    spec = {"queue": "no", "networkTopology": topology, "subGroupPolicy": [{"name": "s", "networkTopology": topology}]}
    with pytest.raises(Denied) as caught:
        admit(catalog.PODGROUP, {"metadata": {"name": "x"}, "spec": spec}, FakeWorld())
    assert caught.value.explanation.count("; ") == 2
    assert "in subGroupPolicy 's': must not specify" in caught.value.explanation


def pod(annotations: Json | None = None, **spec: Any) -> Json:
    body = {"containers": [{"name": "c", "image": "i", "resources": {}}], "schedulerName": "volcano", **spec}
    return {"metadata": {"name": "x", "annotations": annotations or {}}, "spec": body}


MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


@pytest.mark.parametrize(
    ("annotations", "fine"),
    [
        ({MIN: "1"}, True),
        ({MIN: "50%"}, True),
        ({MIN: "0"}, False),
        ({MAX: "100%"}, False),
        ({MIN: "1", MAX: "1"}, False),
    ],
)
def test_disruption_annotations(annotations: Json, fine: bool) -> None:
    if fine:
        admit(catalog.POD, pod(annotations), FakeWorld())
    else:
        with pytest.raises(Denied, match=r"validatepod\.volcano\.sh"):
            admit(catalog.POD, pod(annotations), FakeWorld())
    admit(catalog.POD, pod(annotations, schedulerName="other"), FakeWorld())


def test_resource_groups_shape_pods() -> None:
    group = ResourceGroup(
        resource_group="gpu",
        object_key="namespace",
        object_values=("default",),
        scheduler_name="special",
        labels={"pool": "gpu"},
        tolerations=({"key": "t", "operator": "Exists"},),
        affinity='{"nodeAffinity":{}}',
    )
    options = ChainOptions(resource_groups=(group,))
    spec = admit(catalog.POD, pod({GATE: "true"}, nodeSelector={"pool": "x", "a": "b"}), FakeWorld(), options=options)[
        "spec"
    ]
    assert spec["nodeSelector"] == {"pool": "gpu", "a": "b"}
    assert spec["schedulerName"] == "special"
    assert spec["schedulingGates"] == [{"name": GATE}]
    assert spec["affinity"] == {"nodeAffinity": {}}
    assert {"key": "t", "operator": "Exists"} in spec["tolerations"]


def asking(services: int, *, tasks: int = 0) -> Json:
    """A step that waits for the answers of so many services, and of tasks."""
    asked: list[Json] = [{"serviceName": f"s-{number}", "port": 80} for number in range(services)]
    asked += [{"taskName": f"t-{number}"} for number in range(tasks)]
    return {"name": "asks", "dependsOn": {"probe": {"httpGetList": asked}}}


FLOWS: list[tuple[Kind, Json, str]] = [
    (
        catalog.JOBFLOW,
        {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]},
        "is not DAG: vertex b is not defined",
    ),
    (catalog.JOBFLOW, {"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]}, "is not DAG"),
    (
        catalog.JOBFLOW,
        {
            "flows": [
                {
                    "name": "a",
                    "dependsOn": {
                        "probe": {
                            "httpGetList": [{"serviceName": "s", "taskName": "t"}],
                            "objectList": [
                                {"kind": "Secret", "name": "s", "for": "jsonpath={.data.password}=x"},
                                {"kind": "Pod/../x", "name": "p", "for": "Ready"},
                            ],
                            "claimPathList": [{"claimName": "c", "path": "../etc"}, {"claimName": "", "path": "/"}],
                        }
                    },
                }
            ]
        },
        r"(?s)httpGetList\[0\]: it names a task and a service.*httpGetList\[0\].port: required"
        r".*objectList\[0\].for: of a Secret only.*objectList\[1\].kind: .*objectList\[1\].for: 'Ready' is none of"
        r".*claimPathList\[0\].path: '../etc'.*claimPathList\[1\].claimName.*claimPathList\[1\].path",
    ),
    (catalog.JOBFLOW, {"flows": [asking(MAX_CONDITIONS + 1)]}, "httpGetList: more than 16 services"),
    (catalog.HYPERNODE, {"tier": 1}, "at least one member"),
    (catalog.HYPERNODE, {"members": [{"selector": {"regexMatch": {"pattern": "("}}}]}, "error parsing regexp"),
    (
        catalog.HYPERNODE,
        {"members": [{"selector": {"regexMatch": {"pattern": "(?=a)"}}}]},
        "invalid or unsupported Perl",
    ),
    (catalog.VCCRONJOB, {"schedule": ""}, "schedule is required"),
    (catalog.VCCRONJOB, {"schedule": "TZ=UTC * * * * *"}, "schedule should not contain TZ or CRON_TZ"),
    (catalog.VCCRONJOB, {"schedule": "61 * * * *"}, "schedule is not a valid cron expression"),
    (catalog.VCCRONJOB, {"schedule": "* * *"}, "expected exactly 5 fields"),
    (catalog.VCCRONJOB, {"schedule": "@hourly", "timeZone": "Nowhere/City"}, "unknown time zone"),
    (
        catalog.VCCRONJOB,
        {"schedule": "@hourly", "timeZone": "Local"},
        "timeZone can't be Local, and must be defined in",
    ),
    (catalog.VCCRONJOB, {"schedule": "@hourly", "timeZone": "../etc"}, "unknown timeZone"),
]


@pytest.mark.parametrize(("kind", "spec", "want"), FLOWS)
def test_flows_cron_jobs_and_hyper_nodes_are_refused(kind: Kind, spec: Json, want: str) -> None:
    with pytest.raises(Denied, match=want):
        admit(kind, {"metadata": {"name": "x"}, "spec": spec}, FakeWorld())


def test_good_flows_cron_jobs_and_hyper_nodes_pass() -> None:
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a", "a"]}}]
    admit(catalog.JOBFLOW, {"metadata": {"name": "x"}, "spec": {"flows": flows}}, FakeWorld())
    probe = {
        "objectList": [{"kind": "Secret", "name": "s"}, {"kind": "ConfigMap", "name": "c", "for": "delete"}],
        "claimPathList": [{"claimName": "c", "path": "/in/_SUCCESS"}],
        "httpGetList": [{"serviceName": "s", "port": 80}, {"taskName": "t"}],
    }
    flows = [{"name": "a", "dependsOn": {"probe": probe}}, asking(MAX_CONDITIONS, tasks=5)]
    admit(catalog.JOBFLOW, {"metadata": {"name": "x"}, "spec": {"flows": flows}}, FakeWorld())
    spec = {"schedule": "*/5 0-3 * * 1", "timeZone": "Europe/Berlin"}
    admit(catalog.VCCRONJOB, {"metadata": {"name": "x"}, "spec": spec}, FakeWorld())
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": r"^n-\d+$"}}}]
    admit(catalog.HYPERNODE, {"metadata": {"name": "x"}, "spec": {"members": members}}, FakeWorld())


def test_a_pod_gets_what_a_real_server_gives_it() -> None:
    spec = admit(catalog.POD, pod(), FakeWorld())["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_priority_comes_from_the_class_or_the_global_default() -> None:
    reader = FakeWorld().add(catalog.PRIORITYCLASS, "high", value=7, preemptionPolicy="Never")
    spec = admit(catalog.POD, pod(priorityClassName="high"), reader)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    reader.add(catalog.PRIORITYCLASS, "usual", value=3, globalDefault=True)
    spec = admit(catalog.POD, pod(), reader)["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, "usual")
    spec = admit(catalog.POD, pod(priorityClassName="system-node-critical"), reader)["spec"]
    assert spec["priority"] == 2_000_001_000


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"priorityClassName": "no"}, 'pods "x" is forbidden: no PriorityClass with name no was found'),
        ({"priority": 5}, "the integer value of priority"),
        ({"serviceAccountName": "no"}, 'serviceaccount "no" not found'),
    ],
)
def test_pods_that_name_what_is_not_there(spec: Json, want: str) -> None:
    with pytest.raises(Forbidden, match=want):
        admit(catalog.POD, pod(**spec), FakeWorld())


def test_tolerations_of_the_pods_own_win() -> None:
    spec = admit(catalog.POD, pod(tolerations=[{"operator": "Exists"}]), FakeWorld())["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_limit_ranges_default_and_bound() -> None:
    item = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "3"}}
    reader = FakeWorld().add(catalog.LIMITRANGE, "l", "default", spec={"limits": [item]})
    resources = admit(catalog.POD, pod(), reader)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    big = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "4"}}}]
    with pytest.raises(Forbidden, match="maximum cpu usage per Container is 3, but limit is 4"):
        admit(catalog.POD, pod(containers=big), reader)


@pytest.mark.parametrize(
    ("item", "wants"),
    [
        pytest.param(
            {"max": {"cpu": "2"}}, ["maximum cpu usage per Pod is 2, but limit is 3"], id="the sum is too much"
        ),
        pytest.param(
            {"min": {"cpu": "3"}}, ["minimum cpu usage per Pod is 3, but request is 2"], id="it is too little"
        ),
        pytest.param(
            {"maxLimitRequestRatio": {"cpu": "1"}},
            ["cpu max limit to request ratio per Pod is 1, but provided ratio is 1.500000"],
            id="limits are too far above requests",
        ),
        pytest.param(
            {"max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}},
            [
                "minimum memory usage per Pod is 1Mi.  No request is specified",
                "maximum memory usage per Pod is 1Gi.  No limit is specified",
            ],
            id="what is bounded must be said, all problems at once",
        ),
        pytest.param(
            {"max": {"cpu": "3"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}, [], id="it fits"
        ),
    ],
)
def test_limit_ranges_bound_the_whole_of_a_pod(item: Json, wants: list[str]) -> None:
    """Two containers and a smaller one before them ask for 2 and may use 3."""
    reader = FakeWorld().add(catalog.LIMITRANGE, "l", "default", spec={"limits": [{"type": "Pod", **item}]})
    containers = [
        {"name": name, "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}}
        for name in ("a", "b")
    ]
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]
    body = pod(containers=containers, initContainers=init)
    if not wants:
        admit(catalog.POD, body, reader)
        return
    with pytest.raises(Forbidden) as caught:
        admit(catalog.POD, body, reader)
    for want in wants:
        assert want in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("2Gi", ""),
    ],
)
def test_limit_ranges_bound_claims(asked: str, want: str) -> None:
    item = {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}
    reader = FakeWorld().add(catalog.LIMITRANGE, "l", "default", spec={"limits": [item]})
    body = {"metadata": {"name": "x"}, "spec": {"resources": {"requests": {"storage": asked}}}}
    if not want:
        admit(catalog.PERSISTENTVOLUMECLAIM, body, reader)
        return
    with pytest.raises(Forbidden, match=want):
        admit(catalog.PERSISTENTVOLUMECLAIM, body, reader)


def test_tokens_are_mounted_when_asked() -> None:
    spec = admit(catalog.POD, pod(), FakeWorld(), options=ChainOptions(mount_service_account_tokens=True))["spec"]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]


def mounted(spec: dict[str, Any], **account: Any) -> dict[str, Any]:
    reader = FakeWorld().add(catalog.SERVICEACCOUNT, "default", "default", **account)
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}
    return admit(catalog.POD, body, reader, options=ChainOptions(mount_service_account_tokens=True))["spec"]


TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
OTHER = [{"name": "kube-api-access-abcde", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("spec", "account", "volumes"),
    [
        pytest.param({}, {}, 1, id="by default"),
        pytest.param({}, {"automountServiceAccountToken": False}, 0, id="the account says no"),
        pytest.param(
            {"automountServiceAccountToken": True},
            {"automountServiceAccountToken": False},
            1,
            id="the pod says yes",
        ),
        pytest.param({"automountServiceAccountToken": False}, {}, 0, id="the pod says no"),
        pytest.param({"volumes": OTHER}, {}, 1, id="a volume of that name is taken for it"),
        pytest.param(
            {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": TOKEN}]}]}, {}, 0, id="covered"
        ),
    ],
)
def test_a_token_is_mounted_unless(spec: dict[str, Any], account: dict[str, Any], volumes: int) -> None:
    found = mounted(spec, **account)
    names = [volume["name"] for volume in found.get("volumes") or ()]
    mounts = [mount["name"] for mount in found["containers"][0].get("volumeMounts") or () if mount["name"] != "v"]
    assert mounts == names
    assert len(names) == volumes


def test_pull_secrets_of_the_account_are_the_pods() -> None:
    secrets = [{"name": "registry"}]
    assert mounted({}, imagePullSecrets=secrets)["imagePullSecrets"] == secrets
    assert mounted({}, imagePullSecrets=[{}, *secrets])["imagePullSecrets"] == secrets
    own = [{"name": "own"}]
    assert mounted({"imagePullSecrets": own}, imagePullSecrets=secrets)["imagePullSecrets"] == own


def test_claims_get_the_default_class() -> None:
    mark = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    reader = FakeWorld().add(catalog.STORAGECLASS, "fast", metadata=mark)
    made = admit(catalog.PERSISTENTVOLUMECLAIM, {"metadata": {"name": "x"}, "spec": {}}, reader)
    assert made["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize("kind", [catalog.VCJOB, catalog.QUEUE, catalog.POD, catalog.JOBFLOW])
@pytest.mark.parametrize("spec", ["x", {"tasks": 3}, {"containers": 3}, {"flows": "abc"}, {"capability": [1]}])
def test_wrong_types_never_escape_as_tracebacks(kind: Kind, spec: object) -> None:
    body = {"metadata": {"name": "x"}, "spec": spec}
    with contextlib.suppress(BadRequest, Forbidden):
        admit(kind, body, FakeWorld().queue("default"))
