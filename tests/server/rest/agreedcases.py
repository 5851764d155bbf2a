"""Requests in which generated ones (`make differential`) found the server to differ from a real one."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import MERGE, PATCH, Case, Step, delete, differs, get, own_words, patch, post, put

CORE = "/api/v1/namespaces/{ns}"
APPS, BATCH = "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LABELS = {"a": "b"}
CONTAINER = {"name": "c", "image": "i:1"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
COLUMNS = "the table of a scale has its name and age alone"
WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets")
SELECTORS: tuple[Any, ...] = (
    None,
    {},
    {"matchLabels": {}},
    {"matchLabels": {"a": "c"}},
    {"matchLabels": {"a": "b c"}},
    {"matchLabels": {"a b": "c"}},
)
SOURCES = (
    {},
    {"fieldRef": {}},
    {"resourceFieldRef": {}},
    {"configMapKeyRef": {}},
    {"secretKeyRef": {}},
    {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {}},
)


def named(name: str, spec: Any = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **({} if spec is None else {"spec": spec}), **more}


def selected(plural: str) -> list[Step]:
    """Return creations with each selector."""
    more = {"serviceName": "s"} if plural == "statefulsets" else {}
    return [
        post(f"{APPS}/{plural}", named("w", {**DEPLOYMENT, **more, "selector": selector})) for selector in SELECTORS
    ]


def revisions() -> list[Step]:
    path = f"{APPS}/controllerrevisions"
    return [
        post(path, '{"metadata":{"name":"a"},"data":{"a":1},"revision":1}'),  # the real one compares spaces, too
        post(path, named("b", revision=1)),
        post(path, named("b", data={"a": 1}, revision=-1)),
        patch(f"{path}/a", {"revision": 2}),
        own_words(patch(f"{path}/a", {"data": {"a": 2}})),
    ]


def volumes() -> list[Step]:
    path = "/api/v1/persistentvolumes"
    spec = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    twice = {**spec, "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"]}
    then = "2024-01-01T00:00:00Z"
    return [
        post(path, named("v-{x}", twice)),
        get(f"{path}/v-{{x}}", accept=TABLE),
        patch(f"{path}/v-{{x}}/status", {"status": {"message": "m"}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"phase": "Available"}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"phase": "Bound", "lastPhaseTransitionTime": then}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"lastPhaseTransitionTime": None}}),
        patch(f"{path}/v-{{x}}", {"metadata": {"labels": LABELS}}),
    ]


def scales() -> list[Step]:
    path = f"{APPS}/deployments/d/scale"
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **named("d", {"replicas": 3})}
    return [
        patch(path, {"spec": {"replicas": 2}}, MERGE, "dryRun=Some"),
        put(path, scale, "fieldManager=" + "x" * 129),
        own_words(put(path, {**scale, "apiVersion": "apps/v1", "kind": "Deployment"})),
        put(path, scale),
        post(f"{APPS}/deployments", named("d", DEPLOYMENT), quiet=True),
        own_words(put(path, {**scale, "apiVersion": "apps/v1", "kind": "Deployment"})),
        put(path, scale),
        put(path, named("d", {"replicas": 4})),
    ]


def deletions() -> list[Step]:
    jobs = f"{BATCH}/jobs"
    once = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    ways: tuple[tuple[Any, str], ...] = (
        (None, ""),
        ({"gracePeriodSeconds": 0}, ""),
        ({"orphanDependents": False}, ""),
        (None, "propagationPolicy=Orphan"),
        (None, "dryRun=x&propagationPolicy=x"),
    )
    steps = []
    for number, (body, query) in enumerate(ways):
        steps += [post(jobs, named(f"j{number}", once), quiet=True), delete(f"{jobs}/j{number}", body, query)]
    return [*steps, delete(jobs)]


def shown(**about: str) -> list[Step]:
    """Return an event about something, and its row of a table."""
    event = named("e", involvedObject={"namespace": "{ns}", **about}, reason="R", message="m", type="Normal")
    return [
        post(f"{CORE}/events", event, quiet=True),
        get(f"{CORE}/events/e", accept=TABLE),
        delete(f"{CORE}/events/e"),
    ]


def finite() -> list[Step]:
    """Return Jobs and CronJobs whose pods would never end, and updates that leave the selector out."""
    jobs, crons = f"{BATCH}/jobs", f"{BATCH}/cronjobs"
    endless = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Always"}}}
    once = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    return [
        post(jobs, named("j", endless)),
        post(crons, named("c", {"schedule": "* * * * *", "jobTemplate": {"spec": endless}})),
        post(crons, named("c", {"schedule": "* * * * *"})),
        post(jobs, named("j", once), quiet=True),
        own_words(put(f"{jobs}/j", named("j", once))),
        patch(f"{jobs}/j", {"spec": {"parallelism": -1}}),
    ]


STATUSES = {
    f"{CORE}/services": {"ports": [{"port": 80}], "clusterIP": "None", "selector": LABELS},
    f"{CORE}/replicationcontrollers": {"template": TEMPLATE},
    f"{APPS}/replicasets": DEPLOYMENT,
    f"{APPS}/statefulsets": {**DEPLOYMENT, "serviceName": "s"},
    "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets": {"minAvailable": 1},
    "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses": {
        "defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}
    },
}
"""What a status of these is never without is there when one is written that leaves it out."""


def statuses() -> list[Step]:
    steps = []
    for path, spec in STATUSES.items():
        steps += [post(path, named("s", spec), quiet=True), patch(f"{path}/s/status", {"status": None}, quiet=True)]
        steps += [patch(f"{path}/s/status", [{"op": "add", "path": "/status", "value": {}}], PATCH, quiet=True)]
        steps += [get(f"{path}/s")]
    return steps


AGREED = [
    *(Case(f"selectors of {plural}", selected(plural)) for plural in WORKLOADS),
    Case("sources of variables", [
        post(f"{CORE}/pods", named("p", {"containers": [{**CONTAINER, "env": [{"name": "A", "valueFrom": source}]}]}))
        for source in SOURCES
    ]),
    Case("ports of services beyond 32 bits", [
        own_words(post(f"{CORE}/services", named("s", {"ports": [{"port": 80, "targetPort": number}]})))
        for number in (1 << 31, (1 << 31) - 1, -(1 << 31) - 1, 1 << 64)
    ]),
    Case("revisions of controllers", revisions()),
    Case("phases of volumes", volumes()),
    Case("scales that are none", scales()),
    Case("deletions of jobs", deletions()),
    Case("pods that never end, of jobs", finite()),
    Case("statuses that leave out what they have", statuses()),
    Case("forms of scales", [
        post(f"{APPS}/deployments", named("d", DEPLOYMENT), quiet=True),
        differs(COLUMNS, get(f"{APPS}/deployments/d/scale", accept=TABLE)),
        own_words(get(f"{APPS}/deployments/other/scale", accept="text/html")),
        get(f"{APPS}/deployments/d/scale", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ]),
    Case("events about nothing", [*shown(kind="Pod"), *shown(name="p"), *shown(kind="Pod", name="p"), *shown()]),
    Case("field selectors of nothing", [
        get(f"{CORE}/configmaps", f"fieldSelector={text}")
        for text in ("%3D", "%3D%3D", "%3D,metadata.name%3Da", "!%3D", "%3Dx", ",")
    ]),
    Case("a runtime class by an update", [
        put("/apis/node.k8s.io/v1/runtimeclasses/r-{x}", named("r-{x}", handler="runc")),
        put("/apis/node.k8s.io/v1/runtimeclasses/r-{x}", named("r-{x}", handler="runc")),
        patch(
            "/apis/node.k8s.io/v1/runtimeclasses/r-{x}",
            [{"op": "replace", "path": "/handler", "value": "other"}],
            PATCH,
        ),
    ]),
]  # fmt: skip
