from __future__ import annotations

import copy
from typing import Any

import pytest

from strato.admission import AdmissionRequest, Chain, ChainOptions, Denied
from strato.api import catalog
from tests.admission.reader import FakeWorld, admit

Json = dict[str, Any]


def task(name: str = "", replicas: int = 1, **more: Any) -> Json:
    template = more.pop("template", {"spec": {"containers": [{"name": "c", "image": "i"}]}})
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(*tasks: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"tasks": list(tasks), **spec}}


def reader() -> FakeWorld:
    w = FakeWorld().queue("default").queue("shut", "Closed").queue("new", "").queue("root")
    return w.queue("parent").queue("child", parent="parent")


def test_a_bare_job_gets_every_default() -> None:
    spec = admit(catalog.VCJOB, job(task(replicas=2), task("b", 3, minAvailable=1)), reader())["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    assert [(t["name"], t["minAvailable"], t["maxRetry"]) for t in spec["tasks"]] == [("default0", 2, 3), ("b", 1, 3)]


def test_partitions_count_for_the_default_of_min_available() -> None:
    policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    spec = admit(catalog.VCJOB, job(task("a", 8, partitionPolicy=policy)), reader())["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["minAvailable"]) == (6, 6)


def test_distributed_plugins_pull_in_svc_and_mpi_ssh() -> None:
    plugins = admit(catalog.VCJOB, job(task("master"), plugins={"mpi": []}), reader())["spec"]["plugins"]
    assert plugins == {"mpi": [], "svc": [], "ssh": []}


def test_host_network_gets_cluster_dns() -> None:
    template = {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]}}
    spec = admit(catalog.VCJOB, job(task("a", template=template)), reader())["spec"]
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize(
    ("volume", "mount", "want"),
    [
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "../../etc/x"}]}}, {}, "must not contain '..'"),
        ({"emptyDir": {}}, {"subPath": "/etc"}, "must be a relative path"),
        ({"hostPath": {"path": "/a/../etc"}}, {}, "must not contain '..'"),
    ],
)
def test_paths_that_lead_out_of_a_volume_are_refused_in_templates_too(volume: Json, mount: Json, want: str) -> None:
    containers = [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]}]
    template = {"spec": {"containers": containers, "volumes": [{"name": "v", **volume}]}}
    with pytest.raises(Denied, match=want):
        admit(catalog.VCJOB, job(task("a", template=template)), reader())


def test_templates_are_judged_defaulted_but_stored_untouched() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    admitted = admit(catalog.VCJOB, job(task("a", template=copy.deepcopy(template))), reader())
    assert admitted["spec"]["tasks"][0]["template"] == template


TWO = {"totalPartitions": 2, "partitionSize": 2}
BAD: list[tuple[str, Json, list[str]]] = [
    ("no tasks", job(), ["No task specified in job spec"]),
    ("mpi without its master", job(task("a"), plugins={"mpi": ["--master=boss"]}), ["mpi master task was not found"]),
    ("min above replicas", job(task("a", 1, minAvailable=2)), ["'minAvailable' is greater than 'replicas' in task: a"]),
    ("a name twice", job(task("a"), task("a")), ["duplicated task name a"]),
    ("gang above replicas", job(task("a"), minAvailable=5), ["job 'minAvailable' should not be greater than total"]),
    ("unknown plugin", job(task("a"), plugins={"zz": []}), ["unable to find job plugin: zz"]),
    ("no such queue", job(task("a"), queue="nope"), ['unable to find job queue: queues.scheduling.volcano.sh "nope"']),
    ("closed queue", job(task("a"), queue="shut"), ["queue `shut` status is `Closed`"]),
    ("root queue", job(task("a"), queue="root"), ["can not submit job to root queue"]),
    ("queue with children", job(task("a"), queue="parent"), ["leaf queue, queue `parent` has 1 child queues"]),
    ("template without containers", job(task("a", template={})), ["spec.task[0].template.spec.containers: Required"]),
    ("empty mount path", job(task("a"), volumes=[{"mountPath": ""}]), ["mountPath is required"]),
    (
        "claim twice",
        job(task("a"), volumes=[{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "c"}]),
        ["confl"],
    ),
    (
        "tier twice",
        job(task("a"), networkTopology={"highestTierAllowed": 1, "highestTierName": "r"}),
        ["simultaneousl"],
    ),
    ("dependency on itself", job(task("a", dependsOn={"name": ["a"]})), ["doesn't form a directed acyclic graph"]),
    ("dependency unknown", job(task("a", dependsOn={"name": ["b"]})), ["vertex b is not defined"]),
    ("dependency twice", job(task("a", dependsOn={"name": ["b", "b"]}), task("b")), ["twice"]),
    (
        "cycle",
        job(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})),
        ["there is a cycle through a, b"],
    ),
    (
        "partitions do not add up",
        job(task("a", 3, partitionPolicy=TWO)),
        ["not equal to TotalPartitions*PartitionSize"],
    ),
    (
        "numa wants whole cpus",
        job(task("a", topologyPolicy="restricted")),
        ["the cpu request isn't an integer in spec.task[0] container[0]."],
    ),
    (
        "internal event and unknown action",
        job(
            task("a", policies=[{"event": "PodRunning", "action": "AbortJob"}]),
            policies=[{"event": "*", "action": "x"}],
        ),
        ["invalid policy event: PodRunning", "invalid policy action: x"],
    ),
    ("event and code", job(task("a"), policies=[{"event": "*", "exitCode": 1}]), ["event and exitCode simultaneously"]),
    ("neither", job(task("a"), policies=[{"action": "AbortJob"}]), ["either event and exitCode should be specified"]),
    ("code 0", job(task("a"), policies=[{"exitCode": 0, "action": "x"}]), ["0 is not a valid error code"]),
    (
        "any event and another",
        job(task("a"), policies=[{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
        ["if there's * here"],
    ),
]


@pytest.mark.parametrize(("body", "want"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_jobs_are_refused(body: Json, want: list[str]) -> None:
    with pytest.raises(Denied) as caught:
        admit(catalog.VCJOB, body, reader())
    assert caught.value.message.startswith('admission webhook "validatejob.volcano.sh" denied the request: ')
    for text in want:
        assert text in caught.value.message


def annotated(body: Json, **annotations: str) -> Json:
    named = {f"strato.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return {**body, "metadata": {**body["metadata"], "annotations": named}}


BAD_ANNOTATIONS: list[tuple[Json, str]] = [
    ({"after": "okay:prepare"}, "'okay:prepare' is not start|any|ok|not-ok:JOB"),
    ({"after": "ok:a,,"}, "'' is not start|any|ok|not-ok:JOB"),
    ({"mail": "ann"}, "'ann' is no mail address"),
    ({"mail_type": "sometimes"}, "'sometimes' is not one of begin, end, fail"),
]


@pytest.mark.parametrize(("annotations", "want"), BAD_ANNOTATIONS)
def test_annotations_that_cannot_be_read_are_refused(annotations: dict[str, str], want: str) -> None:
    (name,) = annotations
    with pytest.raises(Denied) as caught:
        admit(catalog.VCJOB, annotated(job(task("a")), **annotations), reader())
    assert f"metadata.annotations[strato.dev/{name.replace('_', '-')}]: {want}" in caught.value.message
    bad = annotated(OLD, **annotations)
    with pytest.raises(Denied):
        admit(catalog.VCJOB, bad, reader(), old=OLD, operation="UPDATE")
    scaled = copy.deepcopy(bad)
    scaled["spec"]["minAvailable"] = 1
    assert admit(catalog.VCJOB, scaled, reader(), old=bad, operation="UPDATE")["spec"]["minAvailable"] == 1


def test_what_is_said_of_an_annotation_is_short() -> None:
    with pytest.raises(Denied) as caught:
        admit(catalog.VCJOB, annotated(job(task("a")), after="x:y," * 50_000, mail="x" * 50_000), reader())
    assert len(caught.value.message) < 2000


def test_a_queue_without_a_state_yet_takes_jobs() -> None:
    """A queue and its first job may come in one manifest."""
    assert admit(catalog.VCJOB, job(task("a"), queue="new"), reader())["spec"]["queue"] == "new"


def test_all_problems_come_at_once() -> None:
    with pytest.raises(Denied) as caught:
        admit(
            catalog.VCJOB, job(task("a", 1, minAvailable=2), queue="nope", plugins={"zz": []}, minAvailable=7), reader()
        )
    for text in ("greater than 'replicas'", "nope", "zz", "total replicas"):
        assert text in caught.value.message


def test_exit_code_policies_take_any_action() -> None:
    admit(catalog.VCJOB, job(task("a", policies=[{"exitCode": 3, "action": "whatever"}])), reader())


OLD = admit(catalog.VCJOB, job(task("a", 2), volumes=[{"mountPath": "/v", "volumeClaim": {}}]), reader())


def test_scaling_and_what_the_controller_fills_in_may_change() -> None:
    new = copy.deepcopy(OLD)
    new["spec"]["tasks"][0]["replicas"] = 4
    new["spec"]["minAvailable"] = 1
    new["spec"]["priorityClassName"] = "high"
    new["spec"]["volumes"][0]["volumeClaimName"] = "made-by-controller"
    admit(catalog.VCJOB, new, reader(), old=OLD, operation="UPDATE")


MANIFESTS: list[tuple[str, Json]] = [
    ("nothing but a task", job(task("", 2))),
    ("claims the controller names", job(task("a"), volumes=[{"mountPath": "/v", "volumeClaim": {"x": 1}}])),
    ("plugins that need others", job(task("m"), task("w"), plugins={"mpi": ["--master=m", "--worker=w"]})),
    ("the host's network", job(task("a", template={"spec": {"hostNetwork": True, "containers": []}}))),
    ("partitions", job(task("a", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}))),
]


@pytest.mark.parametrize("manifest", [row[1] for row in MANIFESTS], ids=[row[0] for row in MANIFESTS])
def test_the_same_manifest_once_more_changes_nothing(manifest: Json) -> None:
    chain = Chain(ChainOptions(scheduler_names=("mine",)))
    old = copy.deepcopy(manifest)
    chain.mutate(AdmissionRequest("CREATE", catalog.VCJOB, "default", "x", old, None), reader())
    for volume in old["spec"].get("volumes", ()):
        volume["volumeClaimName"] = "made-by-controller"
    new = copy.deepcopy(manifest)
    # another controller's options, or a later version: what the job has counts, not what a new one would get
    request = AdmissionRequest("UPDATE", catalog.VCJOB, "default", "x", new, copy.deepcopy(old))
    Chain(ChainOptions(scheduler_names=("other",))).mutate(request, reader())
    assert new == old


def test_what_an_old_job_lacks_is_not_filled_in_by_an_update() -> None:
    """It was stored while nobody filled anything in; what may not change stays as it is."""
    old = job(task("", 2))
    new = job(task("", 3))
    Chain().mutate(AdmissionRequest("UPDATE", catalog.VCJOB, "default", "x", new, old), reader())
    assert new == job(task("", 3))


def test_an_update_may_set_the_gang_to_nothing() -> None:
    new = copy.deepcopy(OLD)
    new["spec"]["minAvailable"] = 0
    assert admit(catalog.VCJOB, new, reader(), old=OLD, operation="UPDATE")["spec"]["minAvailable"] == 0


def test_replicas_that_change_take_the_default_minimum_with_them() -> None:
    new = copy.deepcopy(OLD)
    new["spec"]["tasks"][0]["replicas"] = 4
    del new["spec"]["tasks"][0]["minAvailable"], new["spec"]["minAvailable"]
    spec = admit(catalog.VCJOB, new, reader(), old=OLD, operation="UPDATE")["spec"]
    assert (spec["tasks"][0]["minAvailable"], spec["minAvailable"]) == (4, 4)


UPDATES: list[tuple[str, Json, str]] = [
    ("another queue", {"queue": "other"}, "may not change fields other than"),
    ("a task more", {"tasks": [*OLD["spec"]["tasks"], task("b")]}, "may not add or remove tasks"),
    ("gang above replicas", {"minAvailable": 9}, "must not be greater than total replicas"),
    ("negative gang", {"minAvailable": -1}, "must be >= 0"),
    ("another image", {"tasks": [task("a", 2, minAvailable=2, maxRetry=3, template={})]}, "may not change fields"),
]


@pytest.mark.parametrize(("change", "want"), [row[1:] for row in UPDATES], ids=[row[0] for row in UPDATES])
def test_updates_are_refused(change: Json, want: str) -> None:
    new = copy.deepcopy(OLD)
    new["spec"].update(change)
    with pytest.raises(Denied, match=want):
        admit(catalog.VCJOB, new, reader(), old=OLD, operation="UPDATE")


def test_status_writes_bypass_every_rule() -> None:
    request = AdmissionRequest("UPDATE", catalog.VCJOB, "default", "x", job(), OLD, subresource="status")
    Chain().admit(request, reader())
