"""The table: what clients ask, and what they ask wrongly. The answers are in ``answers.json``, from a real server."""

from __future__ import annotations

from typing import Any

from tests.server.rest.agreedcases import AGREED
from tests.server.rest.handlercases import HANDLING
from tests.server.rest.metadatacases import METADATA
from tests.server.rest.networkcases import NETWORKS
from tests.server.rest.objects import CORE, CRDS, MAPS, PODS, SECRETS, SERVE_WIDGETS, WIDGETS, crd, pod, widget
from tests.server.rest.podchanges import CHANGES
from tests.server.rest.steps import (
    PATCH,
    STRATEGIC,
    YAML,
    Case,
    Step,
    delete,
    differs,
    get,
    own_words,
    patch,
    post,
    put,
    watch,
)
from tests.server.rest.warningcases import WARNINGS
from tests.server.rest.writecases import WRITES

JUNK = "a client's mistake is answered 4xx, never 500"
POINTER = "a JSON pointer that does not begin with a slash is refused; a real server ignores its first part"
TAINT = "new nodes are not tainted not-ready; they are schedulable when they say so"
ESTABLISHED = "a definition is served when its creation is answered, not a moment later"
BUDGET = "what a budget allows is counted when it is asked for, not kept in its status"
NAMELESS = "the errors of reviews name their kind"
PROTECTION = "claims carry no finalizer that protects them while pods use them"
ALONE = "no API is aggregated, and nobody looks for the service of one"
WHOLE_METADATA = "the metadata in a table of DaemonSets has every annotation"
TRUSTED = "the statuses of built-in kinds are checked for their types only; whoever may write them is trusted"
AT_ONCE = "a pod deleted without grace is DELETED, and not MODIFIED to be deleted before"
SCALED = "what a custom kind's scale names is checked by the schema alone"


def config(name: str = "a", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def binding(node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


CREATE = [
    Case("create and read back", [post(MAPS, config(data={"k": "v"})), get(f"{MAPS}/a"), get(f"{MAPS}/b")]),
    Case("create twice", [post(MAPS, config(), quiet=True), post(MAPS, config())]),
    Case("create without a name", [post(MAPS, config(""))]),
    Case("create in a missing namespace", [post("/api/v1/namespaces/missing-{x}/configmaps", config())]),
    Case("create with the wrong kind", [own_words(post(MAPS, {**config(), "kind": "Secret"}))]),
    Case("create with the wrong version", [own_words(post(MAPS, {**config(), "apiVersion": "v2"}))]),
    Case("create with the wrong group", [own_words(post(MAPS, {**config(), "apiVersion": "apps/v1"}))]),
    Case("create with kind and version left out", [post(MAPS, {"metadata": {"name": "a"}})]),
    Case("create with another namespace", [post(MAPS, config(metadata={"namespace": "other"}))]),
    Case("create with a resource version", [differs(JUNK, post(MAPS, config(metadata={"resourceVersion": "5"})))]),
    Case("create with a uid of its own", [post(MAPS, config(metadata={"uid": "abc"}))]),
    Case("create with a bad name", [post(MAPS, config("A_b"))]),
    Case("create with bad labels", [post(MAPS, config(metadata={"labels": {"a b": "c d"}}))]),
    Case("create from malformed JSON", [own_words(post(MAPS, '{"kind": "ConfigMap"'))]),
    Case("create from a list", [own_words(post(MAPS, "[]"))]),
    Case("create from a string", [own_words(post(MAPS, '"x"'))]),
    Case("create from null", [post(MAPS, "null")]),
    Case("create from nothing", [own_words(post(MAPS, None))]),
    Case("create from YAML", [post(MAPS, "metadata: {name: a}\ndata: {k: v}\n", media=YAML)]),
    Case("create from broken YAML", [own_words(post(MAPS, "a: [", media=YAML))]),
    Case("create with a wrong content type", [post(MAPS, config(), media="text/plain")]),
    Case("create with a member of the wrong type", [post(MAPS, config(data={"k": 1}))]),
    Case("create with metadata of the wrong type", [post(MAPS, {**config(), "metadata": []})]),
    Case("create with labels of the wrong type", [post(MAPS, config(metadata={"labels": {"a": 1}}))]),
    Case("create at an object's path", [post(f"{MAPS}/a", config())]),
    Case("create of a missing resource", [post(f"{CORE}/nothings", config()), get(f"{CORE}/nothings")]),
    Case("create of a missing subresource", [post(f"{MAPS}/a/thing", config()), get(f"{PODS}/a/thing")]),
    Case("create dry", [post(MAPS, config(), "dryRun=All"), get(f"{MAPS}/a")]),
    Case("create with a bad dryRun", [post(MAPS, config(), "dryRun=Some")]),
    Case(
        "unknown fields",
        [
            post(MAPS, config("a", daat={}, metadata={"lables": {}}), "fieldValidation=Strict"),
            post(MAPS, config("b", daat={}), "fieldValidation=Warn"),
            post(MAPS, config("c", daat={}), "fieldValidation=Ignore"),
            post(MAPS, config("d", daat={})),
            post(MAPS, config("e"), "fieldValidation=Maybe"),
        ],
    ),
    Case(
        "duplicate fields",
        [
            post(MAPS, '{"metadata":{"name":"a"},"data":{"x":"1"},"data":{"y":"2"}}', "fieldValidation=Strict"),
            post(MAPS, '{"metadata":{"name":"b"},"data":{"x":"1"},"data":{"y":"2"}}', "fieldValidation=Warn"),
        ],
    ),
    Case("immutable config", [post(MAPS, config(immutable=True)), patch(f"{MAPS}/a", {"data": {"x": "y"}})]),
    Case("create a pod", [post(PODS, pod()), get(f"{PODS}/p")]),
    Case("create a pod with a status", [post(PODS, {**pod(), "status": {"phase": "Running"}})]),
    Case("create a pod without containers", [post(PODS, {**pod(), "spec": {}})]),
    Case("create a pod with many faults", [post(PODS, pod("P", restartPolicy="Maybe", containers=[{"name": "M"}]))]),
    Case("create a node", [
        differs(TAINT, post("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n-{x}"}})),
        differs(TAINT, post("/api/v1/nodes", {"metadata": {"name": "m-{x}", "namespace": "x"}})),
    ]),
    Case("create a namespace", [
        post("/api/v1/namespaces", {"metadata": {"name": "second-{x}"}}),
        post("/api/v1/namespaces", {"metadata": {"name": "second-{x}"}}),
        get("/api/v1/namespaces/second-{x}"),
        patch("/api/v1/namespaces/second-{x}", {"metadata": {"labels": {"kubernetes.io/metadata.name": "z"}}}),
    ]),
]  # fmt: skip

UPDATE = [
    Case(
        "update",
        [
            post(MAPS, config(data={"k": "v"})),
            put(f"{MAPS}/a", config(data={"k": "w"})),
            put(f"{MAPS}/a", config(data={"k": "x"}, metadata={"resourceVersion": "{rv:0}"})),
            put(f"{MAPS}/a", config(data={"k": "x"}, metadata={"resourceVersion": "{rv:1}"})),
            put(f"{MAPS}/a", config(data={"k": "x"})),
        ],
    ),
    Case("update of a missing object", [put(f"{MAPS}/a", config())]),
    Case(
        "update under another name",
        [post(MAPS, config(), quiet=True), put(f"{MAPS}/a", config("b")), put(f"{MAPS}/a", {"data": {}})],
    ),
    Case(
        "update of fixed metadata",
        [
            post(MAPS, config(), quiet=True),
            own_words(put(f"{MAPS}/a", config(metadata={"uid": "other"}))),
            put(f"{MAPS}/a", config(metadata={"creationTimestamp": "2001-01-01T00:00:00Z"})),
            put(f"{MAPS}/a", config(metadata={"deletionTimestamp": "2001-01-01T00:00:00Z"})),
            put(f"{MAPS}/a", config(metadata={"namespace": "other"})),
            put(f"{MAPS}/a", config(metadata={"generation": 7})),
            differs(JUNK, put(f"{MAPS}/a", config(metadata={"resourceVersion": "junk"}))),
        ],
    ),
    Case(
        "update of a pod's fixed fields",
        [
            post(PODS, pod(), quiet=True),
            own_words(patch(f"{PODS}/p", {"spec": {"restartPolicy": "Never"}})),
            own_words(patch(f"{PODS}/p", {"spec": {"schedulerName": "other"}})),
            patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
        ],
    ),
    Case(
        "status and spec are apart",
        [
            post(PODS, pod(), quiet=True),
            patch(f"{PODS}/p", {"status": {"phase": "Running"}}),
            patch(f"{PODS}/p/status", {"status": {"phase": "Running"}, "metadata": {"labels": {"s": "t"}}}),
            patch(f"{PODS}/p/status", {"spec": {"nodeName": "n"}}),
            get(f"{PODS}/p/status"),
            post(f"{PODS}/p/status", pod()),
            delete(f"{PODS}/p/status"),
        ],
    ),
    Case(
        "generation of a deployment",
        [
            post("/apis/apps/v1/namespaces/{ns}/deployments", {
                "metadata": {"name": "d"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                         "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}},
            }),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"replicas": 2}}),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"metadata": {"labels": {"x": "y"}}}),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d/status", {"status": {"replicas": 1}}),
            get("/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d/scale", {"spec": {"replicas": 5}}),
            put("/apis/apps/v1/namespaces/{ns}/deployments/d/scale",
                {"metadata": {"name": "d", "namespace": "{ns}"}, "spec": {"replicas": 3}}),
            put("/apis/apps/v1/namespaces/{ns}/deployments/d/scale",
                {"metadata": {"name": "d", "namespace": "{ns}"}, "spec": {"replicas": -3}}),
            put("/apis/apps/v1/namespaces/{ns}/deployments/d/scale",
                {"metadata": {"name": "d", "namespace": "{ns}", "resourceVersion": "1"}, "spec": {"replicas": 3}}),
            get("/apis/apps/v1/namespaces/{ns}/deployments/e/scale"),
            get("/apis/apps/v1/namespaces/{ns}/deployments/d"),
        ],
    ),
    Case(
        "a lease by put",
        [
            put("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l", {"metadata": {"name": "l"}}),
            put("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l",
                {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
        ],
    ),
]  # fmt: skip

PATCHES = [
    Case(
        "merge patch",
        [
            post(MAPS, config(data={"a": "1", "b": "2"}), quiet=True),
            patch(f"{MAPS}/a", {"data": {"a": None, "c": "3"}}),
            patch(f"{MAPS}/a", {}),
            own_words(patch(f"{MAPS}/a", "[]")),
            own_words(patch(f"{MAPS}/a", "{")),
            patch(f"{MAPS}/a", {"metadata": {"name": "b"}}),
            patch(f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}}),
            patch(f"{MAPS}/a", {"metadata": {"uid": "other"}}),
            own_words(patch(f"{MAPS}/a", {"kind": "Secret"})),
            patch(f"{MAPS}/a", {"data": None}),
            patch(f"{MAPS}/b", {}),
            own_words(patch(f"{MAPS}/a", {}, media="application/json")),
            patch(MAPS, {}),
            own_words(patch(f"{MAPS}/a", {"unknown": 1}, query="fieldValidation=Strict")),
            own_words(patch(f"{MAPS}/a", {"data": {"z": 1}})),
            patch(f"{MAPS}/a", {"data": {"dry": "run"}}, query="dryRun=All"),
            get(f"{MAPS}/a"),
        ],
    ),
    Case(
        "json patch",
        [
            post(MAPS, config(data={"a": "1"}), quiet=True),
            patch(f"{MAPS}/a", [{"op": "add", "path": "/data/b", "value": "2"}], PATCH),
            own_words(patch(f"{MAPS}/a", [{"op": "test", "path": "/data/b", "value": "3"}], PATCH)),
            own_words(patch(f"{MAPS}/a", [{"op": "remove", "path": "/data/zz"}], PATCH)),
            patch(f"{MAPS}/a", [{"op": "replace", "path": "/data/zz", "value": "1"}], PATCH),
            patch(f"{MAPS}/a", [{"op": "move", "from": "/data/a", "path": "/data/c"}], PATCH),
            patch(f"{MAPS}/a", [{"op": "copy", "from": "/data/c", "path": "/data/d"}], PATCH),
            own_words(patch(f"{MAPS}/a", [{"op": "fly", "path": "/data/d"}], PATCH)),
            own_words(patch(f"{MAPS}/a", {"op": "remove"}, PATCH)),
            own_words(patch(f"{MAPS}/a", [{"op": "add", "path": "/metadata/labels/x", "value": "y"}], PATCH)),
            patch(f"{MAPS}/a", [{"op": "add", "path": "/metadata/labels", "value": {"a~b/c": "y"}}], PATCH),
            patch(f"{MAPS}/a", [{"op": "remove", "path": "/metadata/name"}], PATCH),
            own_words(patch(f"{MAPS}/a", [{"op": "replace", "path": "", "value": []}], PATCH)),
            patch(f"{MAPS}/a", [{"op": "test", "path": "/data/none", "value": None}], PATCH),
            differs(POINTER, patch(f"{MAPS}/a", [{"op": "add", "path": "data/b", "value": "2"}], PATCH)),
            patch(f"{MAPS}/a", [{"op": "add", "path": "/data/b"}], PATCH),
            own_words(patch(f"{MAPS}/a", [{"op": "copy", "path": "/data/b"}], PATCH)),
        ],
    ),
    Case(
        "strategic merge patch of a pod",
        [
            post(PODS, pod(
                containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "j"}],
                tolerations=[{"key": "k", "operator": "Exists"}],
            ), quiet=True),
            patch(f"{PODS}/p", {"spec": {"containers": [{"name": "b", "image": "new"}]}}, STRATEGIC),
            patch(f"{PODS}/p", {"metadata": {"finalizers": ["x/a", "x/b"]}}, STRATEGIC),
            patch(f"{PODS}/p", {"metadata": {"finalizers": ["x/b", "x/c"]}}, STRATEGIC),
            patch(f"{PODS}/p", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/z"]}}, STRATEGIC),
            patch(f"{PODS}/p", {
                "metadata": {"$setElementOrder/finalizers": ["x/c", "x/b"], "finalizers": ["x/c", "x/b"]}
            }, STRATEGIC),
            patch(f"{PODS}/p", {"metadata": {"labels": {"$patch": "replace", "only": "me"}}}, STRATEGIC),
            patch(f"{PODS}/p", {"metadata": {"labels": {"$patch": "delete"}}}, STRATEGIC),
            differs(JUNK, patch(f"{PODS}/p", {"spec": {"containers": [{"image": "nameless"}]}}, STRATEGIC)),
            differs(
                JUNK, patch(f"{PODS}/p", {"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}, STRATEGIC)
            ),
            differs(JUNK, patch(f"{PODS}/p", {"$patch": "explode"}, STRATEGIC)),
            differs(JUNK, patch(f"{PODS}/p", {"spec": {"$setElementOrder/containers": [{"name": "a"}],
                                         "containers": [{"name": "b", "image": "k"}]}}, STRATEGIC)),
            patch(f"{PODS}/p", {"metadata": {"finalizers": None}}, STRATEGIC),
        ],
    ),
    Case(
        "strategic merge patch of a deployment",
        [
            post("/apis/apps/v1/namespaces/{ns}/deployments", {
                "metadata": {"name": "d"},
                "spec": {"selector": {"matchLabels": {"a": "b"}},
                         "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                             "containers": [{"name": "c", "image": "i", "env": [
                                 {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
                                 "ports": [{"containerPort": 80}, {"containerPort": 81}]}],
                             "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}}},
            }, quiet=True),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"containers": [
                {"name": "c", "env": [{"name": "B", "$patch": "delete"}, {"name": "D", "value": "4"}]}]}}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"containers": [
                {"name": "c",
                 "$setElementOrder/env": [{"name": "D"}, {"name": "A"}, {"name": "N"}],
                 "env": [{"name": "N", "value": "5"}]}]}}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"volumes": [
                {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"volumes": [
                {"$patch": "replace"}, {"name": "z", "emptyDir": {}}]}}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"strategy": {
                "$retainKeys": ["type"], "type": "Recreate"}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 80, "name": "web"}],
                 "args": ["x", "y"]}]}}}}, STRATEGIC),
            patch("/apis/apps/v1/namespaces/{ns}/deployments/d", {"spec": {"template": {"spec": {"containers": [
                {"name": "extra", "image": "e"}, {"name": "c", "$patch": "delete"}]}}}}, STRATEGIC),
        ],
    ),
]  # fmt: skip

DELETE = [
    Case("delete", [post(MAPS, config(), quiet=True), delete(f"{MAPS}/a"), delete(f"{MAPS}/a"), get(f"{MAPS}/a")]),
    Case(
        "delete with preconditions",
        [
            post(MAPS, config(), quiet=True),
            delete(f"{MAPS}/a", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}}),
            delete(f"{MAPS}/a", {"preconditions": {"uid": "{uid:0}", "resourceVersion": "{rv:0}"}}),
        ],
    ),
    Case(
        "delete with bad options",
        [
            post(MAPS, config(), quiet=True),
            delete(f"{MAPS}/a", {"propagationPolicy": "Sideways"}),
            delete(f"{MAPS}/a", {"propagationPolicy": "Orphan", "orphanDependents": True}),
            own_words(delete(f"{MAPS}/a", {"gracePeriodSeconds": "soon"})),
            own_words(delete(f"{MAPS}/a", "[]")),
            own_words(delete(f"{MAPS}/a", "{")),
            delete(f"{MAPS}/a", {"dryRun": ["All"]}),
            delete(f"{MAPS}/a", None, "dryRun=All"),
            delete(f"{MAPS}/a", None, "gracePeriodSeconds=-5"),
            get(f"{MAPS}/a"),
        ],
    ),
    Case(
        "finalizers hold an object",
        [
            post(MAPS, config(metadata={"finalizers": ["example.com/x"]}), quiet=True),
            delete(f"{MAPS}/a"),
            delete(f"{MAPS}/a"),
            patch(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}),
            patch(f"{MAPS}/a", {"data": {"still": "here"}}),
            post(MAPS, config()),
            patch(f"{MAPS}/a", {"metadata": {"finalizers": None}}),
            get(f"{MAPS}/a"),
        ],
    ),
    Case(
        "propagation becomes a finalizer",
        [
            post(MAPS, config("a"), quiet=True),
            delete(f"{MAPS}/a", {"propagationPolicy": "Foreground"}),
            post(MAPS, config("b"), quiet=True),
            delete(f"{MAPS}/b", None, "propagationPolicy=Orphan"),
            post(MAPS, config("c"), quiet=True),
            delete(f"{MAPS}/c", {"orphanDependents": True}),
            delete(f"{MAPS}/c", {"propagationPolicy": "Background"}),
            get(MAPS, "fieldSelector=metadata.name!=kube-root-ca.crt"),
        ],
    ),
    Case("delete a pod without a node", [post(PODS, pod(), quiet=True), delete(f"{PODS}/p"), get(f"{PODS}/p")]),
    Case(
        "delete a pod on a node",
        [
            post(PODS, pod(nodeName="n", terminationGracePeriodSeconds=20), quiet=True),
            delete(f"{PODS}/p"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 40}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 5}),
            post(f"{PODS}/p/binding", binding()),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "delete a finished pod",
        [
            post(PODS, pod(nodeName="n"), quiet=True),
            patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, quiet=True),
            delete(f"{PODS}/p"),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "delete a pod on a node with a finalizer",
        [
            post(PODS, pod(nodeName="n", metadata={"finalizers": ["example.com/x"]}), quiet=True),
            delete(f"{PODS}/p"),
            patch(f"{PODS}/p", {"metadata": {"finalizers": None}}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "delete a collection",
        [
            *(post(MAPS, config(name, metadata={"labels": {"l": name}}), quiet=True) for name in "abc"),
            delete(MAPS, None, "labelSelector=l in (a,b)", quiet=True),
            get(MAPS, "labelSelector=l"),
            delete(MAPS, None, "labelSelector=l&dryRun=All", quiet=True),
            get(MAPS, "labelSelector=l"),
            delete(MAPS, None, "labelSelector==="),
        ],
    ),
    Case(
        "a namespace in termination",
        [
            post("/api/v1/namespaces", {"metadata": {"name": "t-{x}"}}, quiet=True),
            delete("/api/v1/namespaces/t-{x}"),
            post("/api/v1/namespaces/t-{x}/configmaps", config()),
            delete("/api/v1/namespaces/t-{x}"),
            put("/api/v1/namespaces/t-{x}/finalize", {"metadata": {"name": "t-{x}"}, "spec": {"finalizers": []}}),
            get("/api/v1/namespaces/t-{x}"),
        ],
    ),
    Case(
        "evict",
        [
            post(PODS, pod(nodeName="n"), quiet=True),
            post(f"{PODS}/p/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "{ns}"}}),
            post(f"{PODS}/q/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q", "namespace": "{ns}"}}),
            get(f"{PODS}/p"),
        ],
    ),
]  # fmt: skip

READ = [
    Case(
        "list by selectors",
        [
            *(post(MAPS, config(name, metadata={"labels": {"l": name, "all": "yes"}}), quiet=True) for name in "abc"),
            get(MAPS, "labelSelector=all=yes"),
            get(MAPS, "labelSelector=l in (a,c)"),
            get(MAPS, "labelSelector=all,l notin (a)"),
            get(MAPS, "labelSelector=all,l!=a"),
            get(MAPS, "labelSelector=!l,all"),
            get(MAPS, "fieldSelector=metadata.name=b"),
            get(MAPS, "fieldSelector=metadata.name=zz"),
            get(MAPS, "labelSelector=all&fieldSelector=metadata.name!=b,metadata.namespace={ns}"),
            get(MAPS, "fieldSelector=data.x=1"),
            get(MAPS, "fieldSelector=metadata.name"),
            get(MAPS, "labelSelector=a b c"),
            get(MAPS, "labelSelector=a=_b_"),
        ],
    ),
    Case(
        "list pods by fields",
        [
            post(PODS, pod("a"), quiet=True),
            post(PODS, pod("b", nodeName="n-{x}", schedulerName="volcano"), quiet=True),
            patch(f"{PODS}/b/status", {"status": {"phase": "Running"}}, quiet=True),
            get("/api/v1/pods", "fieldSelector=spec.nodeName=n-{x}"),
            get(PODS, "fieldSelector=spec.schedulerName=volcano"),
            get(PODS, "fieldSelector=status.phase!=Running"),
            get(PODS, "fieldSelector=spec.nodeName="),
            get(PODS, "fieldSelector=spec.priority=1"),
        ],
    ),
    Case(
        "list in pages",
        [
            *(post(MAPS, config(name, metadata={"labels": {"l": ""}}), quiet=True) for name in "abcde"),
            get(MAPS, "limit=2&labelSelector=l"),
            get(MAPS, "limit=2&labelSelector=l&continue={continue:5}"),
            delete(f"{MAPS}/e", quiet=True),
            patch(f"{MAPS}/d", {"data": {"new": "er"}}, quiet=True),
            get(MAPS, "limit=2&labelSelector=l&continue={continue:5}"),
            get(MAPS, "limit=2&labelSelector=l&continue={continue:6}"),
            own_words(get(MAPS, "limit=2&continue=junk")),
            get(MAPS, "limit=-1"),
            own_words(get(MAPS, "limit=x")),
            get(MAPS, "limit=2&resourceVersion=1&continue={continue:5}"),
        ],
    ),
    Case(
        "list at a revision",
        [
            post(MAPS, config("a", metadata={"labels": {"l": ""}}), quiet=True),
            post(MAPS, config("b", metadata={"labels": {"l": ""}}), quiet=True),
            get(MAPS, "labelSelector=l&resourceVersion={rv:0}&resourceVersionMatch=Exact"),
            get(MAPS, "labelSelector=l&resourceVersion={rv:1}"),  # first: a real server's cache now has both
            get(MAPS, "labelSelector=l&resourceVersion={rv:0}&resourceVersionMatch=NotOlderThan"),
            get(MAPS, "labelSelector=l&resourceVersion=0"),
            get(MAPS, "resourceVersionMatch=Exact"),
            get(MAPS, "resourceVersion=0&resourceVersionMatch=Exact"),
            get(MAPS, "resourceVersion=1&resourceVersionMatch=Nearly"),
            own_words(get(MAPS, "resourceVersion=junk")),
            get(f"{MAPS}/a", "resourceVersion=0"),
        ],
    ),
    Case("accepts", [
        post(MAPS, config("a"), quiet=True),
        own_words(get(f"{MAPS}/a", accept="text/html")),
        get(f"{MAPS}/a", accept="*/*"),
        own_words(get(MAPS, "labelSelector=none", accept="image/png")),
    ]),
    Case("methods", [
        Step("PUT", MAPS, config()), Step("POST", f"{MAPS}/a", config()), Step("TRACE", f"{MAPS}/a"),
        Step("POST", "/api/v1/componentstatuses", {}), Step("GET", "/api/v1/namespaces/{ns}/pods/p/binding"),
    ]),
]  # fmt: skip

WATCH = [
    Case(
        "watch from a revision",
        [
            post(MAPS, config("a"), quiet=True),
            post(MAPS, config("b"), quiet=True),
            patch(f"{MAPS}/b", {"data": {"x": "y"}}, quiet=True),
            delete(f"{MAPS}/b", quiet=True),
            watch(MAPS, "resourceVersion={rv:0}&fieldSelector=metadata.name!=kube-root-ca.crt"),
            watch(f"{MAPS}/a", "resourceVersion={rv:0}"),
        ],
    ),
    Case(
        "watch from now",
        [
            post(MAPS, config("a"), quiet=True),
            watch(MAPS, "fieldSelector=metadata.name!=kube-root-ca.crt"),
            watch(MAPS, "resourceVersion=0&fieldSelector=metadata.name=a"),
            watch(f"{MAPS}/a", ""),
        ],
    ),
    Case(
        "watch transitions of a selector",
        [
            post(MAPS, config("z"), quiet=True),
            post(MAPS, config("a", metadata={"labels": {"l": "1"}}), quiet=True),
            patch(f"{MAPS}/a", {"metadata": {"labels": {"l": "2"}}}, quiet=True),
            patch(f"{MAPS}/a", {"data": {"out": "side"}}, quiet=True),
            patch(f"{MAPS}/a", {"metadata": {"labels": {"l": "1"}}}, quiet=True),
            delete(f"{MAPS}/a", quiet=True),
            watch(MAPS, "resourceVersion={rv:0}&labelSelector=l=1"),
        ],
    ),
    Case(
        "watch with initial events",
        [
            post(MAPS, config("a"), quiet=True),
            watch(
                MAPS, "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
                "&fieldSelector=metadata.name=a"),
            watch(MAPS, "sendInitialEvents=true"),
            watch(MAPS, "sendInitialEvents=true&allowWatchBookmarks=true"),
            watch(MAPS, "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=Exact"),
            watch(MAPS, "resourceVersionMatch=NotOlderThan"),
            get(MAPS, "sendInitialEvents=true"),
        ],
    ),
    Case(
        "watch of bad revisions",
        [
            differs(JUNK, watch(MAPS, "resourceVersion=junk")),
            watch(MAPS, "fieldSelector=nope=1"),
            watch(MAPS, "labelSelector=a b c"),
            watch("/api/v1/namespaces/{ns}/nothings", ""),
        ],
    ),
    Case(
        "watch tables",
        [
            post(MAPS, config("a", data={"k": "v"}), quiet=True),
            watch(MAPS, "fieldSelector=metadata.name=a", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
            get(f"{MAPS}/a", accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
        ],
    ),
]  # fmt: skip

PODS_SUB = [
    Case(
        "bind",
        [
            post(PODS, pod(), quiet=True),
            post(f"{PODS}/p/binding", binding(annotations={"by": "me"}, labels={"l": "x"})),
            get(f"{PODS}/p"),
            post(f"{PODS}/p/binding", binding("n2")),
            post(f"{PODS}/p/binding", binding("n1")),
            post(f"{PODS}/q/binding", {**binding(), "metadata": {"name": "q"}}),
        ],
    ),
    Case(
        "bind badly",
        [
            post(PODS, pod(), quiet=True),
            differs(JUNK, post(f"{PODS}/p/binding", {**binding(), "target": {"kind": "Node"}})),
            differs(JUNK, post(f"{PODS}/p/binding", {**binding(), "target": {"kind": "Pod", "name": "x"}})),
            post(f"{PODS}/p/binding", {**binding(), "metadata": {"name": "q"}}),
            post(f"{PODS}/p/binding", {**binding(), "metadata": {"name": "p", "namespace": "other"}}),
            own_words(post(f"{PODS}/p/binding", binding(uid="00000000-0000-0000-0000-000000000000"))),
            own_words(post(f"{PODS}/p/binding", "{")),
            own_words(post(f"{PODS}/p/binding", {**binding(), "kind": "Pod"})),
            post(f"{PODS}/p/binding", binding(), "dryRun=All"),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "bind through bindings",
        [
            post(PODS, pod(), quiet=True),
            post(f"{CORE}/bindings", binding()),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "bind a gated pod",
        [
            post(PODS, pod(schedulingGates=[{"name": "example.com/wait"}])),
            post(f"{PODS}/p/binding", binding()),
        ],
    ),
    Case(
        "logs before there is a container",
        [
            get(f"{PODS}/p/log"),
            post(PODS, pod(containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}],
                           initContainers=[{"name": "c", "image": "i"}]), quiet=True),
            get(f"{PODS}/p/log"),
            get(f"{PODS}/p/log", "container=zz"),
            get(f"{PODS}/p/log", "container=a"),
            get(f"{PODS}/p/log", "container=a&tailLines=-1"),
            own_words(get(f"{PODS}/p/log", "container=a&tailLines=x")),
            get(f"{PODS}/p/log", "container=a&sinceSeconds=0"),
            get(f"{PODS}/p/log", "container=a&sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z"),
            own_words(get(f"{PODS}/p/log", "container=a&sinceTime=yesterday")),
            get(f"{PODS}/p/log", "container=a&limitBytes=0"),
        ],
    ),
]  # fmt: skip

CUSTOM = [
    Case(
        "custom objects",
        [
            *SERVE_WIDGETS,
            post(WIDGETS, widget(unknown=1, status={"ready": True})),
            own_words(post(WIDGETS, widget("v", {"size": 11, "colour": "green", "tags": ["a", "b", "c"]}))),
            post(WIDGETS, widget("u", {})),
            post(WIDGETS, widget("t", {"size": "big"})),
            post(WIDGETS, widget("s", {"size": 1, "shape": "round"}), "fieldValidation=Strict"),
            post(WIDGETS, widget("r", {"size": 1, "shape": "round"})),
            patch(f"{WIDGETS}/w", {"spec": {"size": 2}}),
            patch(f"{WIDGETS}/w", {"spec": {"size": 0}}),
            patch(f"{WIDGETS}/w/status", {"status": {"ready": True}, "metadata": {"labels": {"a": "b"}}}),
            patch(f"{WIDGETS}/w", {"status": {"ready": False}}),
            own_words(patch(f"{WIDGETS}/w", {"spec": {"size": 2}}, STRATEGIC)),
            patch(f"{WIDGETS}/w/status", {"status": {"ready": "maybe"}}),
            put(f"{WIDGETS}/w", widget()),
            put(f"{WIDGETS}/w", widget() | {"metadata": {"name": "w", "resourceVersion": "{rv:10}"}}),
            get(f"{WIDGETS}/w"),
            get(f"{WIDGETS}/w/scale"),
            own_words(post(WIDGETS, {"metadata": {"name": "x"}, "spec": {"size": 1}})),
            post(WIDGETS, {**widget("y"), "kind": "Gadget"}),
            get(WIDGETS),
            delete(f"{WIDGETS}/w"),
        ],
    ),
    Case(
        "definitions",
        [
            differs(ESTABLISHED, post(CRDS, crd())),
            get(f"{CRDS}/widgets.{{x}}.example.com", quiet=True),
            post(CRDS, crd()),
            delete(f"{CRDS}/nothings.{{x}}.example.com"),
        ],
    ),
    Case(
        "bad definitions",
        [
            post(CRDS, {"metadata": {"name": "x.{x}.example.com"}}),
            post(CRDS, {"metadata": {"name": "x.{x}.example.com"}, "spec": {}}),
            post(CRDS, {**crd(), "metadata": {"name": "wrong.{x}.example.com"}}),
            post(CRDS, crd(schema={})),
            post(CRDS, crd(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})),
            post(CRDS, crd(schema={"openAPIV3Schema": {"type": "string"}})),
            post(CRDS, crd(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "wrong"}}}})),
            post(CRDS, crd(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": 5}}})),
            own_words(post(CRDS, crd(schema={"openAPIV3Schema": {
                "type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}))),
            own_words(post(CRDS, crd(storage=False))),
            post(CRDS, crd(subresources={"scale": {}})),
            post(CRDS, crd(additionalPrinterColumns=[{"name": "X"}])),
        ],
    ),
]  # fmt: skip

REVIEWS = [
    Case(
        "reviews",
        [
            post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                 {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{ns}"}}}),
            post("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                 {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}, quiet=True),
            post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "wrong"}}),
            own_words(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "[]")),
            own_words(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": 5})),
            get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ],
    ),
]  # fmt: skip

ACCOUNTS, BUDGETS = f"{CORE}/serviceaccounts", "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
LABELLED = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
ONCE = {**LABELLED, "spec": {**LABELLED["spec"], "restartPolicy": "Never"}}


def eviction(name: str = "p", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "{ns}"}, **more}


def workload(group: str, plural: str, spec: dict[str, Any], name: str = "w") -> list[Step]:
    place = f"/apis/{group}/v1/namespaces/{{ns}}/{plural}"
    return [
        post(place, {"metadata": {"name": name}, "spec": spec}),
        patch(f"{place}/{name}/status", {"status": {"observedGeneration": 1}}),
        delete(f"{place}/{name}"),
    ]


KINDS = [
    Case("stateful set", workload("apps", "statefulsets",
                                  {"serviceName": "s", "selector": SELECTOR, "template": LABELLED})),
    Case("daemon set", workload("apps", "daemonsets", {"selector": SELECTOR, "template": LABELLED})),
    Case("replica set", workload("apps", "replicasets", {"selector": SELECTOR, "template": LABELLED})),
    Case("cron job", workload("batch", "cronjobs",
                              {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}})),
    Case("job", [
        post("/apis/batch/v1/namespaces/{ns}/jobs", {"metadata": {"name": "a"}, "spec": {"template": ONCE}}),
        post("/apis/batch/v1/namespaces/{ns}/jobs", {
            "metadata": {"name": "b", "labels": {"own": "label"}}, "spec": {"template": ONCE, "completions": 3}}),
        patch("/apis/batch/v1/namespaces/{ns}/jobs/a", {"spec": {"parallelism": 4}}),
        own_words(patch("/apis/batch/v1/namespaces/{ns}/jobs/a", {"spec": {"completions": 4}})),
        delete("/apis/batch/v1/namespaces/{ns}/jobs/a", {"propagationPolicy": "Background"}),
        delete("/apis/batch/v1/namespaces/{ns}/jobs/b"),
        get("/apis/batch/v1/namespaces/{ns}/jobs"),
        post(f"{CORE}/replicationcontrollers", {"metadata": {"name": "r"}, "spec": {"template": LABELLED}}),
        delete(f"{CORE}/replicationcontrollers/r"),
        delete(f"{CORE}/replicationcontrollers/r", {"propagationPolicy": "Background"}),
    ]),
    Case("bad workloads", [
        post("/apis/apps/v1/namespaces/{ns}/deployments", {"metadata": {"name": "d"}, "spec": {}}),
        post("/apis/apps/v1/namespaces/{ns}/deployments",
             {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": LABELLED}}),
        post("/apis/apps/v1/namespaces/{ns}/statefulsets", {"metadata": {"name": "d"}, "spec": {"replicas": -1}}),
        post("/apis/batch/v1/namespaces/{ns}/jobs", {"metadata": {"name": "d"}, "spec": {"template": LABELLED}}),
        post("/apis/batch/v1/namespaces/{ns}/cronjobs",
             {"metadata": {"name": "d"}, "spec": {"schedule": "often", "jobTemplate": {"spec": {"template": ONCE}}}}),
    ]),
    Case("service", [
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {
            "clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}}),
        patch(f"{CORE}/services/s", {"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}]}}),
        delete(f"{CORE}/services/s"),
        post(f"{CORE}/services", {"metadata": {"name": "S"}, "spec": {"ports": [{"port": 0}], "type": "Odd"}}),
        post(f"{CORE}/services", {"metadata": {"name": "e"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}),
    ]),
    Case("secret", [
        post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
        patch(f"{SECRETS}/s", {"stringData": {"c": "e"}}),
        patch(f"{SECRETS}/s", {"type": "other"}),
        post(SECRETS, {"metadata": {"name": "t"}, "data": {"c d": "ZA=="}}),
        own_words(post(SECRETS, {"metadata": {"name": "u"}, "data": {"c": "?"}})),
    ]),
    Case("service account", [
        post(ACCOUNTS, {"metadata": {"name": "robot"}}),
        patch(f"{ACCOUNTS}/robot", {"imagePullSecrets": [{"name": "x"}]}),
        delete(f"{ACCOUNTS}/robot"),
    ]),
    Case("claim", [
        differs(PROTECTION, post(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}})),
        differs(PROTECTION, patch(f"{CORE}/persistentvolumeclaims/c", {"spec": {"storageClassName": "other"}})),
        post(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "d"}, "spec": {}}),
        differs(PROTECTION, delete(f"{CORE}/persistentvolumeclaims/c")),
    ]),
    Case("event", [
        post(f"{CORE}/events", {"metadata": {"name": "e"}, "reason": "Odd", "message": "m", "type": "Normal",
                                "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "p"}}),
        patch(f"{CORE}/events/e", {"count": 2}),
        get(f"{CORE}/events", "fieldSelector=involvedObject.name=p,reason=Odd,type!=Warning"),
        get("/apis/events.k8s.io/v1/namespaces/{ns}/events/e"),
        post(f"{CORE}/events", {"metadata": {"name": "f"}, "involvedObject": {"namespace": "other"}}),
    ]),
    Case("priority class", [
        post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "p-{x}"}, "value": 7}),
        patch("/apis/scheduling.k8s.io/v1/priorityclasses/p-{x}", {"value": 8}),
        post(PODS, pod("known", priorityClassName="p-{x}"), "dryRun=All", quiet=True, until=201),  # read from a cache
        post(PODS, pod(priorityClassName="p-{x}")),
        post(PODS, pod("q", priorityClassName="none-{x}")),
        delete("/apis/scheduling.k8s.io/v1/priorityclasses/p-{x}"),
    ]),
    Case("roles", [
        post("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
             {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        post("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", {"metadata": {"name": "s"}, "rules": [{}]}),
        post("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings", {
            "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}, {"kind": "User", "name": "u"}]}),
        own_words(patch("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings/b",
                        {"roleRef": {"name": "other"}})),
    ]),
    Case("nulls", [
        post(MAPS, config(data={"a": None}, binaryData=None, metadata={"labels": None, "annotations": {"x": None}})),
        post(PODS, pod(nodeName=None, tolerations=[{"key": "k", "operator": None, "value": None}], volumes=None)),
        patch(f"{PODS}/p/status", {"status": {"podIPs": None, "conditions": [
            {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None, "reason": None}]}}),
    ]),
    Case("empty collections", [
        post(MAPS, config(metadata={"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []})),
    ]),
    Case("pod status", [
        post(PODS, pod(), quiet=True),
        patch(f"{PODS}/p/status", {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
                                              "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}}),
        differs(TRUSTED, patch(f"{PODS}/p/status", {"status": {"qosClass": "Guaranteed"}})),
    ]),
    Case("quality of service", [
        post(PODS, pod("a", containers=[{"name": "c", "image": "i:1", "resources": {
            "limits": {"cpu": "1000m", "memory": "1024Mi"}}}])),
        post(PODS, pod("b", containers=[{"name": "c", "image": "i:latest", "resources": {"requests": {"cpu": 0.5}}}])),
        post(PODS, pod("c", containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "livenessProbe": {
            "httpGet": {"port": 80}}, "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }], volumes=[{"name": "v", "configMap": {"name": "x"}}, {"name": "w", "secret": {"secretName": "y"}}])),
        post(PODS, pod("d", containers=[{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}])),
        post(PODS, pod("e", hostNetwork=True, initContainers=[{"name": "i", "image": "j", "restartPolicy": "Always"}])),
    ]),
    Case("tokens of service accounts", [
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "expirationSeconds": 700}}),
        post(f"{ACCOUNTS}/nobody/token", {"spec": {"audiences": ["me"]}}),
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "expirationSeconds": 5}}),
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "boundObjectRef": {
            "kind": "Pod", "apiVersion": "v1", "name": "p"}}}),
        post(PODS, pod(), quiet=True),
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "boundObjectRef": {
            "kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "00000000-0000-0000-0000-000000000000"}}}),
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "boundObjectRef": {
            "kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "{uid:4}"}}}),
        post(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["me"], "boundObjectRef": {
            "kind": "ConfigMap", "apiVersion": "v1", "name": "p"}}}),
        get(f"{ACCOUNTS}/default/token"),
        own_words(post(f"{ACCOUNTS}/default/token", "{")),
    ]),
    Case("budgets", [
        post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": "50%", "selector": SELECTOR}}),
        post(BUDGETS, {"metadata": {"name": "c"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        post(BUDGETS, {"metadata": {"name": "d"}, "spec": {"minAvailable": "half", "selector": SELECTOR}}),
        post(PODS, pod(nodeName="n", metadata={"labels": {"a": "b"}}), quiet=True),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}, quiet=True),
        differs(BUDGET, post(f"{PODS}/p/eviction", eviction())),
        post(f"{PODS}/p/eviction", eviction("q")),
        differs(BUDGET, post(f"{PODS}/p/eviction", eviction(
            deleteOptions={"preconditions": {"resourceVersion": "1"}}))),
        get(f"{PODS}/p/eviction"),
    ]),
    Case("questions", [
        differs(NAMELESS, post("/apis/authorization.k8s.io/v1/subjectaccessreviews",
             {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})),
        differs(NAMELESS, post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u"}})),
        differs(NAMELESS, post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {
            "resourceAttributes": {"verb": "get", "resource": "pods"},
            "nonResourceAttributes": {"verb": "get", "path": "/"}}})),
        post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
             {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}),
        differs(NAMELESS, post("/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews",
             {"spec": {"user": "u", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}}})),
        post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "{ns}"}}, quiet=True),
        post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {}}),
        post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, quiet=True),
        post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
    ]),
]  # fmt: skip

GADGETS = "/apis/{x}.example.com/v1/namespaces/{ns}/gadgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def gadget(name: str = "g", /, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "{x}.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def field(**schema: Any) -> dict[str, Any]:
    return schema


FIELDS = {
    "replicas": field(type="integer", format="int32", minimum=0, default=1),
    "selector": field(type="string"),
    "name": field(type="string", minLength=2, maxLength=4, pattern="^[a-z]+$"),
    "when": field(type="string", format="date-time"),
    "ratio": field(type="number", maximum=1, exclusiveMaximum=True),
    "step": field(type="integer", multipleOf=5),
    "port": {"x-kubernetes-int-or-string": True},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "labels": field(type="object", additionalProperties={"type": "string"}, maxProperties=2),
    "nullable": field(type="string", nullable=True),
    "mode": field(type="string", default="auto"),
    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
        "items": {
            "type": "object",
            "required": ["key"],
            "properties": {"key": {"type": "string"}, "value": {"type": "integer", "default": 7}},
        },
    },
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "either": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "low": field(type="integer"),
    "high": field(type="integer"),
    "fixed": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed cannot change"}],
    },
}
GADGET = {
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": FIELDS,
                    "x-kubernetes-validations": [
                        {
                            "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
                            "message": "low must not be over high",
                        }
                    ],
                },
                "status": {
                    "type": "object",
                    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
                },
            },
        }
    },
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "additionalPrinterColumns": [
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
        {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        {"name": "First", "type": "string", "jsonPath": ".spec.map[0].key"},
    ],
}

SCHEMAS = [
    Case(
        "a definition with everything",
        [
            post(CRDS, crd("gadgets", "Gadget", **GADGET), quiet=True),
            get(GADGETS, quiet=True, until=200),
            post(GADGETS, gadget(extra=1, free={"any": {"thing": 1}}, labels={"a": "b"}, map=[{"key": "k", "more": 1}],
                                 nullable=None, mode=None, port="http", either={"a": 1, "c": 2}, fixed="x",
                                 template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1})),
            post(GADGETS, gadget("a", name="A")),
            post(GADGETS, gadget("b", name="a")),
            post(GADGETS, gadget("c", name="abcde")),
            post(GADGETS, gadget("d", when="noon")),
            post(GADGETS, gadget("e", ratio=1)),
            post(GADGETS, gadget("f", step=7)),
            post(GADGETS, gadget("h", port=1.5)),
            post(GADGETS, gadget("i", labels={"a": 1})),
            post(GADGETS, gadget("j", labels={"a": "1", "b": "2", "c": "3"})),
            post(GADGETS, gadget("k", set=["a", "b", "a"])),
            post(GADGETS, gadget("l", map=[{"key": "k"}, {"key": "k"}])),
            post(GADGETS, gadget("m", map=[{"value": 1}])),
            post(GADGETS, gadget("n", template={"metadata": {}})),
            post(GADGETS, gadget("o", either={"a": 1, "b": 2})),
            post(GADGETS, gadget("p", low=2, high=1)),
            differs(SCALED, post(GADGETS, gadget("q", replicas=1 << 40))),
            post(GADGETS, gadget("r", name=None)),
            post(GADGETS, gadget("s", extra=1), "fieldValidation=Strict"),
            differs(SCALED, post(GADGETS, {**gadget("t"), "spec": "text"})),
            own_words(post(GADGETS, {**gadget("u"), "metadata": {"name": "u", "labels": {"a": 1}}})),
            patch(f"{GADGETS}/g", {"spec": {"fixed": "y"}}),
            get(f"{GADGETS}/g/scale"),
            put(f"{GADGETS}/g/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale",
                                       "metadata": {"name": "g", "namespace": "{ns}"}, "spec": {"replicas": 4}}),
            patch(f"{GADGETS}/g/scale", {"spec": {"replicas": 5}}),
            patch(f"{GADGETS}/g/status", {"status": {"replicas": 3, "selector": "a=b"}, "spec": {"replicas": 9}}),
            get(f"{GADGETS}/g/scale"),
            get(f"{GADGETS}/g", accept=TABLE),
            get(GADGETS, accept=TABLE),
        ],
    ),
]  # fmt: skip


def printed(path: str, obj: dict[str, Any], *more: Step) -> list[Step]:
    """Create an object and see it, and none of its kind, as kubectl prints them."""
    name = obj["metadata"]["name"]
    return [
        post(path, obj, quiet=True),
        *more,
        get(path, f"fieldSelector=metadata.name={name}", accept=TABLE),
        get(path, "fieldSelector=metadata.name=nothing", accept=TABLE),
    ]


def unlike(reason: str, steps: list[Step]) -> list[Step]:
    return [differs(reason, step) for step in steps]


def named(name: str = "n", /, **members: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **members}


APPS, BATCH = "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
WORKLOAD = {"selector": SELECTOR, "template": LABELLED}
RUNNING = {
    "phase": "Running",
    "podIP": "10.1.2.3",
    "startTime": "2024-01-01T00:00:00Z",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": True,
            "restartCount": 2,
            "lastState": {},
            "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
        }
    ],
}
WAITING = {
    "phase": "Pending",
    "containerStatuses": [
        {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "lastState": {},
            "state": {"waiting": {"reason": "ErrImagePull"}},
        }
    ],
}
FAILED = {
    "phase": "Failed",
    "containerStatuses": [
        {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "lastState": {},
            "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
        }
    ],
}

TABLES = [
    Case("print pods", [
        *printed(PODS, pod("running", nodeName="n1"),
                 patch(f"{PODS}/running/status", {"status": RUNNING}, quiet=True)),
        *printed(PODS, pod("waiting"), patch(f"{PODS}/waiting/status", {"status": WAITING}, quiet=True)),
        *printed(PODS, pod("failed"), patch(f"{PODS}/failed/status", {"status": FAILED}, quiet=True)),
        *printed(PODS, pod("gated", schedulingGates=[{"name": "x/y"}])),
    ]),
    Case("print workloads", [
        *printed(f"{APPS}/deployments", named(spec={"replicas": 3, **WORKLOAD})),
        *printed(f"{APPS}/replicasets", named(spec=WORKLOAD)),
        *printed(f"{APPS}/statefulsets", named(spec={"serviceName": "s", **WORKLOAD})),
        *unlike(WHOLE_METADATA, printed(f"{APPS}/daemonsets", named(spec=WORKLOAD))),
        *printed(f"{BATCH}/jobs", named(spec={"completions": 3, "template": ONCE})),
        *printed(f"{BATCH}/cronjobs", named(
            spec={"schedule": "0 1 * * *", "jobTemplate": {"spec": {"template": ONCE}}})),
        *printed(f"{CORE}/replicationcontrollers", named(spec={"selector": {"a": "b"}, "template": LABELLED})),
    ]),
    Case("print configuration", [
        *printed(MAPS, config("n", data={"a": "b"})),
        *printed(SECRETS, named(data={"a": "Yg=="})),
        *printed(ACCOUNTS, named()),
        *printed(f"{CORE}/services", named(spec={"clusterIP": "None", "ports": [{"port": 80}, {"port": 53, "name": "d",
                                                                             "protocol": "UDP"}]}),
                 patch(f"{CORE}/services/n", {"spec": {"ports": [{"port": 80, "name": "w"}]}}, quiet=True)),
        *printed(f"{CORE}/endpoints", named(
            subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}])),
        *printed(f"{CORE}/resourcequotas", named(spec={"hard": {"pods": "3"}})),
        *printed(f"{CORE}/limitranges", named(spec={"limits": []})),
        *printed(BUDGETS, named(spec={"minAvailable": 1, "selector": SELECTOR})),
        *printed("/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies", named(spec={"podSelector": SELECTOR})),
        *printed("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", named(spec={"holderIdentity": "me"})),
        *printed("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", named(rules=[])),
        *printed("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings", named(
            roleRef={"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            subjects=[{"kind": "ServiceAccount", "name": "default"}, {"kind": "User", "name": "u"}])),
        *printed(f"{CORE}/events", named(reason="Odd", message="m", type="Normal", count=3, involvedObject={
            "kind": "Pod", "namespace": "{ns}", "name": "p"}, lastTimestamp=None)),
    ]),
    Case("print cluster-wide kinds", [
        *printed("/api/v1/namespaces", named("ns-{x}")),
        *printed("/apis/scheduling.k8s.io/v1/priorityclasses", named("n-{x}", value=7)),
        *printed("/apis/storage.k8s.io/v1/storageclasses", named("n-{x}", provisioner="p")),
        *printed("/apis/rbac.authorization.k8s.io/v1/clusterroles", named("n-{x}", rules=[])),
        *printed(CRDS, crd("things", "Thing")),
        *unlike(PROTECTION, printed("/api/v1/persistentvolumes", named("n-{x}", spec={
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}))),
    ]),
]  # fmt: skip

NETWORK, RBAC = "/apis/networking.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
STORAGE, WEBHOOKS = "/apis/storage.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
INIT = [{"name": "i", "image": "j"}, {"name": "k", "image": "j"}]
INITIALISING = {
    "phase": "Pending",
    "initContainerStatuses": [
        {"name": "i", "image": "j", "imageID": "", "ready": True, "restartCount": 0,
         "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        {"name": "k", "image": "j", "imageID": "", "ready": False, "restartCount": 2,
         "state": {"waiting": {"reason": "PodInitializing"}}},
    ],
}  # fmt: skip

DEVICES = "/apis/resource.k8s.io/v1"
PODS_MADE = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
MORE_TABLES = [
    Case("print pods in rare states", [
        *printed(PODS, pod("init", initContainers=INIT), patch(f"{PODS}/init/status", {"status": INITIALISING},
                                                               quiet=True)),
        *printed(PODS, pod("evicted"), patch(f"{PODS}/evicted/status", {"status": {
            "phase": "Failed", "reason": "Evicted", "message": "m"}}, quiet=True)),
        *printed(PODS, pod("leaving", nodeName="n1"), delete(f"{PODS}/leaving", quiet=True)),
        *printed(PODS, pod("named", nodeName="n1"), patch(f"{PODS}/named/status", {"status": {
            "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
            quiet=True)),
    ]),
    Case("print networks", [
        *printed(f"{NETWORK}/namespaces/{{ns}}/ingresses", named(spec={
            "ingressClassName": "c", "tls": [{"hosts": ["h"]}], "rules": [
                {"host": "a.example.com"}, {"host": "b.c"}]})),
        *printed(f"{NETWORK}/ingressclasses", named("n-{x}", spec={"controller": "example.com/c"})),
        *printed("/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", named(
            addressType="IPv4", ports=[{"port": 80, "name": "w"}], endpoints=[{"addresses": ["10.0.0.1"]}])),
    ]),
    Case("print access and admission", [
        *printed(f"{RBAC}/clusterrolebindings", named("n-{x}", roleRef={
            "kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            subjects=[{"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}])),
        *printed(f"{WEBHOOKS}/validatingwebhookconfigurations", named("n-{x}", webhooks=[])),
        *printed(f"{WEBHOOKS}/mutatingwebhookconfigurations", named("n-{x}", webhooks=[])),
    ]),
    Case("print storage", [
        *printed(f"{STORAGE}/csidrivers", named("n-{x}", spec={})),
        *printed(f"{STORAGE}/csinodes", named("n-{x}", spec={"drivers": []})),
        *unlike(PROTECTION, printed(f"{CORE}/persistentvolumeclaims", named(spec={
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}))),
        *printed(f"{CORE}/podtemplates", named(template=LABELLED)),
        *printed(f"{APPS}/controllerrevisions", named(revision=3, data={"a": 1})),
        *printed(f"{APPS}/controllerrevisions", {"revision": 4, "data": {"a": 1}, "metadata": {
            "name": "m", "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]}}),
        *printed(f"{NETWORK}/ingressclasses", named("m-{x}", spec={
            "controller": "example.com/c", "parameters": {"apiGroup": "example.com", "kind": "Thing", "name": "t"}})),
    ]),
    Case("print what extends a cluster", [
        *printed(f"{WEBHOOKS}/validatingadmissionpolicies", named("n-{x}", spec={
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": {"resourceRules": PODS_MADE},
            "validations": [{"expression": "true"}, {"expression": "1 < 2"}]})),
        *printed(f"{WEBHOOKS}/validatingadmissionpolicybindings", named("n-{x}", spec={
            "policyName": "p", "validationActions": ["Deny"],
            "paramRef": {"name": "q", "parameterNotFoundAction": "Deny"}})),
        *printed(f"{WEBHOOKS}/validatingadmissionpolicybindings", named("m-{x}", spec={
            "policyName": "p", "validationActions": ["Deny"],
            "paramRef": {"name": "q", "namespace": "o", "parameterNotFoundAction": "Deny"}})),
        *printed(f"{WEBHOOKS}/validatingadmissionpolicybindings", named("l-{x}", spec={
            "policyName": "p", "validationActions": ["Deny"]})),
        *unlike(ALONE, printed("/apis/apiregistration.k8s.io/v1/apiservices", named("v1.{x}.example.com", spec={
            "group": "{x}.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": True, "service": {"name": "s", "namespace": "t"}}))),
        *printed(f"{DEVICES}/deviceclasses", named("n-{x}", spec={})),
        *printed(f"{DEVICES}/namespaces/{{ns}}/resourceclaims", named(spec={})),
        patch(f"{DEVICES}/namespaces/{{ns}}/resourceclaims/n/status", {"status": {"allocation": {}, "reservedFor": [
            {"resource": "pods", "name": "p", "uid": "u"}]}}, quiet=True),
        get(f"{DEVICES}/namespaces/{{ns}}/resourceclaims", accept=TABLE),
        *printed(f"{DEVICES}/namespaces/{{ns}}/resourceclaimtemplates", named(spec={"spec": {}})),
        *printed(f"{DEVICES}/resourceslices", named("n-{x}", spec={
            "nodeName": "a", "driver": "d.example.com", "devices": [],
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}})),
        *unlike(PROTECTION, printed(f"{STORAGE}/volumeattributesclasses", named(
            "n-{x}", driverName="d", parameters={"a": "b"}))),
    ]),
]  # fmt: skip

META_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
META = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"


def condition(type_: str, status: str = "True", **more: Any) -> dict[str, Any]:
    """Return a pod's condition with its times; a real server writes null for those that are missing."""
    times = dict.fromkeys(("lastProbeTime", "lastTransitionTime"), "2024-01-01T00:00:00Z")
    return {"type": type_, "status": status, **times, **more}


def owner(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "{uid:0}", **more}


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    return config(name, metadata={"ownerReferences": list(owners)})


MORE = [
    Case(
        "watch pods by fields",
        [
            post(PODS, pod("a"), quiet=True),
            post(PODS, pod("b", nodeName="n-{x}"), quiet=True),
            post(f"{PODS}/a/binding", {**binding("n-{x}"), "metadata": {"name": "a"}}, quiet=True),
            patch(f"{PODS}/b/status", {"status": {"phase": "Running"}}, quiet=True),
            patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}}, quiet=True),
            delete(f"{PODS}/b", {"gracePeriodSeconds": 0}, quiet=True),
            differs(AT_ONCE, watch(PODS, "resourceVersion={rv:0}&fieldSelector=spec.nodeName=n-{x}")),
            watch(PODS, "resourceVersion={rv:0}&fieldSelector=spec.nodeName="),
            watch(PODS, "resourceVersion={rv:0}&fieldSelector=status.phase!=Succeeded,status.phase!=Failed"),
            watch("/api/v1/pods", "resourceVersion={rv:0}&fieldSelector=metadata.namespace={ns},status.phase=Running"),
            watch(PODS, "fieldSelector=spec.priority=1"),
        ],
    ),
    Case(
        "watch metadata only",
        [
            post(MAPS, config("a", data={"k": "v"}, metadata={"labels": {"l": "1"}}), quiet=True),
            watch(MAPS, "fieldSelector=metadata.name=a", accept=META),
            get(f"{MAPS}/a", accept=META),
            get(MAPS, "labelSelector=l", accept=META_LIST),
            get(MAPS, "labelSelector=l&includeObject=Object", accept=TABLE),
            get(MAPS, "labelSelector=l&includeObject=None", accept=TABLE),
            get(MAPS, "labelSelector=l&includeObject=Some", accept=TABLE),
            patch(f"{MAPS}/a", {"data": {"k": "w"}}, accept=META),
            delete(f"{MAPS}/a", accept=TABLE),
        ],
    ),
    Case(
        "dry runs of everything",
        [
            post(MAPS, config("a", data={"k": "v"}), quiet=True),
            put(f"{MAPS}/a", config("a", data={"k": "w"}), "dryRun=All"),
            put(f"{MAPS}/a", config("a", metadata={"resourceVersion": "1"}), "dryRun=All"),
            patch(f"{MAPS}/a", [{"op": "remove", "path": "/data"}], PATCH, "dryRun=All"),
            patch(f"{MAPS}/b", {"data": {}}, query="dryRun=All"),
            post(MAPS, config("a"), "dryRun=All"),
            post(MAPS, config("", metadata={"generateName": "g-", "name": ""}), "dryRun=All", quiet=True),
            delete(f"{MAPS}/a", {"dryRun": ["Some"]}),
            delete(f"{MAPS}/a", {"dryRun": ["All"], "preconditions": {"resourceVersion": "1"}}),
            post(PODS, pod(), quiet=True),
            delete(f"{PODS}/p", None, "dryRun=All"),
            patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}, query="dryRun=All"),
            post(f"{PODS}/p/eviction", eviction(deleteOptions={"dryRun": ["All"]})),
            get(f"{PODS}/p"),
            get(f"{MAPS}/a"),
        ],
    ),
    Case(
        "generated names",
        [
            post(MAPS, {"metadata": {"generateName": "G_"}}, quiet=True),
            post(MAPS, {"metadata": {"generateName": "x" * 70 + "-"}}, quiet=True),
            post(MAPS, {"metadata": {"name": "fixed", "generateName": "other-"}}),
            post(MAPS, {"metadata": {"name": "n" * 254}}),
            post(CORE.replace("/{ns}", ""), {"metadata": {"name": "n" * 64}}),
        ],
    ),
    Case(
        "owner references",
        [
            post(MAPS, config("a"), quiet=True),
            post(MAPS, owned("b", owner(blockOwnerDeletion=True, controller=True))),
            post(MAPS, owned("c", owner(controller=True), owner("b", controller=True))),
            post(MAPS, owned("d", {"kind": "ConfigMap", "name": "a"})),
            post(MAPS, owned("e", owner(apiVersion="a/b/c"))),
            post(MAPS, owned("f", owner(), owner())),
            post(MAPS, owned("g", owner(kind="Event"))),
            own_words(post(MAPS, owned("h", owner(controller="yes")))),
            patch(f"{MAPS}/b", {"metadata": {"ownerReferences": [owner(), owner("b", uid="2")]}}, STRATEGIC),
            patch(f"{MAPS}/b", {"metadata": {"ownerReferences": [{"uid": "2", "$patch": "delete"}]}}, STRATEGIC),
            patch(f"{MAPS}/b", {"metadata": {"ownerReferences": None}}),
        ],
    ),
    Case(
        "metadata out of bounds",
        [
            post(MAPS, config(metadata={"finalizers": ["plain"]})),
            post(MAPS, config(metadata={"finalizers": ["kubernetes"]})),
            post(MAPS, config("b", metadata={"finalizers": ["a b/c"]})),
            post(MAPS, config("c", metadata={"finalizers": ["foregroundDeletion", "orphan"]})),
            post(MAPS, config("d", metadata={"annotations": {"a": "x" * (1 << 18)}})),
            post(MAPS, config("e", metadata={"annotations": {"A b": "x"}})),
            # one fault per map: a real server walks maps in any order
            post(MAPS, config("f", metadata={"labels": {"l" * 64: "x"}})),
            post(MAPS, config("f", metadata={"labels": {"k": "v" * 64}})),
            post(MAPS, config("g", metadata={"labels": {"example.com/": "x"}})),
            post(MAPS, config("g", metadata={"labels": {"/y": "x"}})),
            post(MAPS, config("h", data={"a b": "x"}, binaryData={"c d": "eA=="})),
            post(MAPS, config("h", data={"..": "x"})),
            post(MAPS, config("i", data={"same": "x"}, binaryData={"same": "eA=="})),
            post(MAPS, config("j", metadata={"generation": 5, "deletionGracePeriodSeconds": 3, "selfLink": "/x",
                                             "deletionTimestamp": "2020-01-01T00:00:00Z"})),
            own_words(post(MAPS, config("k", metadata={"creationTimestamp": "yesterday"}))),
        ],
    ),
    Case(
        "finalizers of what is being deleted",
        [
            post(MAPS, config("a", metadata={"finalizers": ["example.com/x"]}), quiet=True),
            delete(f"{MAPS}/a", {"propagationPolicy": "Foreground"}),
            delete(f"{MAPS}/a", {"propagationPolicy": "Orphan"}),
            put(f"{MAPS}/a", config("a", metadata={"finalizers": ["example.com/x", "example.com/y"]})),
            patch(f"{MAPS}/a", [{"op": "remove", "path": "/metadata/finalizers/0"}], PATCH),
            put(f"{MAPS}/a", config("a")),
            get(f"{MAPS}/a"),
            post(PODS, pod(nodeName="n", metadata={"finalizers": ["example.com/x"]}), quiet=True),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            patch(f"{PODS}/p", {"metadata": {"finalizers": []}}),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "delete collections with options",
        [
            *(post(PODS, pod(name, nodeName="n", metadata={"labels": {"l": name}}), quiet=True) for name in "abc"),
            delete(PODS, {"gracePeriodSeconds": 7}, "labelSelector=l=a"),
            get(f"{PODS}/a"),
            delete(PODS, {"gracePeriodSeconds": 0}, "fieldSelector=metadata.name=b"),
            get(PODS, "labelSelector=l in (b,c)"),
            delete(PODS, {"propagationPolicy": "Sideways"}, "labelSelector=l=c"),
            delete(PODS, {"propagationPolicy": "Orphan", "gracePeriodSeconds": 0}, "labelSelector=l=c"),
            get(f"{PODS}/c"),
            own_words(delete(PODS, "[]")),
            delete(f"{CORE}/services"),
            delete("/api/v1/namespaces", None, "labelSelector=none=such"),
        ],
    ),
    Case(
        "patches of subresources",
        [
            post(PODS, pod(), quiet=True),
            patch(f"{PODS}/p/status", {"status": {"conditions": [condition("Ready", "False")]}}, STRATEGIC),
            patch(f"{PODS}/p/status", {"status": {"conditions": [
                condition("Ready", reason="R"), condition("Other")]}}, STRATEGIC),
            patch(f"{PODS}/p/status", {"status": {"$setElementOrder/conditions": [{"type": "Other"}, {"type": "Ready"}],
                                                  "conditions": [{"type": "Ready", "$patch": "delete"}]}}, STRATEGIC),
            patch(f"{PODS}/p/status", [
                {"op": "add", "path": "/status/podIP", "value": "10.0.0.1"},
                {"op": "add", "path": "/status/podIPs", "value": [{"ip": "10.0.0.1"}]}], PATCH),
            patch(f"{PODS}/p/binding", {}),
            patch(f"{PODS}/p/log", {}),
            patch(f"{PODS}/q/status", {"status": {}}),
            put(f"{PODS}/p/status", {**pod(), "status": {"phase": "Running"}}),
            own_words(patch(f"{PODS}/p/status", {"status": {"conditions": {}}})),
            post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"replicas": 2, **WORKLOAD}}, quiet=True),
            patch(f"{DEPLOYMENTS}/d/scale", [{"op": "replace", "path": "/spec/replicas", "value": 4}], PATCH),
            patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 6}}, STRATEGIC),
            own_words(patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": "many"}})),
            patch(f"{DEPLOYMENTS}/d/scale", {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 6}}),
            put(f"{DEPLOYMENTS}/d/status", {"metadata": {"name": "d"}, "spec": {"replicas": 9, **WORKLOAD},
                                            "status": {"readyReplicas": 1, "availableReplicas": 1, "replicas": 1}}),
            differs(TRUSTED, patch(f"{DEPLOYMENTS}/d/status", {"status": {"readyReplicas": -1}})),
        ],
    ),
    Case(
        "pages of what is selected",
        [
            *(post(PODS, pod(name, schedulerName="even" if name in "bd" else "odd",
                             metadata={"labels": {"l": name}}), quiet=True) for name in "abcde"),
            get(PODS, "limit=1&fieldSelector=spec.schedulerName=even"),
            get(PODS, "limit=1&fieldSelector=spec.schedulerName=even&continue={continue:5}"),
            get(PODS, "limit=2&fieldSelector=spec.schedulerName=even"),
            get(PODS, "limit=2&labelSelector=l notin (a,b)", accept=TABLE),
            get(PODS, "limit=3"),
            get(PODS, "limit=3&continue={continue:9}"),
            get(PODS, "limit=0"),
            get(PODS, "limit=2&resourceVersion=0&labelSelector=l=e"),
        ],
    ),
    Case(
        "revisions to come",
        [
            post(MAPS, config("a"), quiet=True),
            get(f"{MAPS}/a", "resourceVersion={rv:0}"),
            get(f"{MAPS}/a", "resourceVersion=99999999999"),
            get(MAPS, "resourceVersion=99999999999"),
            get(MAPS, "resourceVersion=99999999999&resourceVersionMatch=Exact"),
        ],
    ),
    Case(
        "namespaces that stay",
        [
            delete("/api/v1/namespaces/default"),
            delete("/api/v1/namespaces/kube-system"),
            delete("/api/v1/namespaces/nobody-{x}"),
            patch("/api/v1/namespaces/{ns}", {"spec": {"finalizers": []}}),
            patch("/api/v1/namespaces/{ns}", {"metadata": {"labels": {"team": "a"}}}),
            post("/api/v1/namespaces", {"metadata": {"name": "Bad_{x}"}}),
            get(f"{CORE}/namespaces"),
            differs(TRUSTED, patch("/api/v1/namespaces/{ns}/status", {"status": {"phase": "Terminating"}})),
        ],
    ),
    Case(
        "nodes",
        [
            post("/api/v1/nodes", {"metadata": {"name": "n-{x}", "labels": {"l": "{x}"}},
                                   "spec": {"podCIDR": "10.0.0.0/24"}}, quiet=True),
            patch("/api/v1/nodes/n-{x}", {"spec": {"taints": None, "unschedulable": True}}),
            patch("/api/v1/nodes/n-{x}/status", {"status": {
                "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m"},
                "nodeInfo": {"kubeletVersion": "v1.36.3"}}},
                STRATEGIC),
            get("/api/v1/nodes", "labelSelector=l={x}", accept=TABLE),
            get("/api/v1/nodes", "fieldSelector=spec.unschedulable=true,metadata.name=n-{x}"),
            get("/api/v1/nodes", "fieldSelector=status.phase=x"),
            patch("/api/v1/nodes/n-{x}", {"spec": {"taints": [{"key": "k", "effect": "Odd"}, {"key": "k v"}]}}),
            patch("/api/v1/nodes/n-{x}", {"spec": {"podCIDR": "10.1.0.0/24"}}),
            own_words(patch("/api/v1/nodes/n-{x}/status", {"status": {"capacity": {"cpu": "much"}}})),
            delete("/api/v1/nodes/n-{x}"),
        ],
    ),
    Case(
        "what a pod may change",
        [
            post(PODS, pod(), quiet=True),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 50}}),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 90}}),
            patch(f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "other"}]}}, STRATEGIC),
            patch(f"{PODS}/p", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
            patch(f"{PODS}/p", {"spec": {"tolerations": []}}),
            patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "a/b"}]}}),
            own_words(patch(f"{PODS}/p", {"spec": {"terminationGracePeriodSeconds": 1}})),
            own_words(patch(f"{PODS}/p", {"spec": {"containers": [{"name": "new", "image": "i"}]}}, STRATEGIC)),
            own_words(patch(f"{PODS}/p", {"spec": {"nodeName": "n"}})),
            post(PODS, pod("g", schedulingGates=[{"name": "a/b"}, {"name": "a/c"}])),
            patch(f"{PODS}/g", {"spec": {"nodeSelector": {"a": "b"}, "schedulingGates": [{"name": "a/c"}]}}),
            patch(f"{PODS}/g", {"spec": {"schedulingGates": []}}),
        ],
    ),
    Case(
        "pods with faults",
        [
            post(PODS, pod("a", containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "j"}])),
            post(PODS, pod("b", containers=[{"name": "a"}])),
            post(PODS, pod("c", tolerations=[{"key": "k", "operator": "Odd", "effect": "Never"}])),
            post(PODS, pod("d", nodeSelector={"a b": "c"}, dnsPolicy="Odd", terminationGracePeriodSeconds=-1)),
            post(PODS, pod("e", volumes=[{"name": "v"}, {"name": "v", "emptyDir": {}}, {"name": "W", "emptyDir": {}}])),
            post(PODS, pod("f", containers=[{"name": "a", "image": "i", "volumeMounts": [
                {"name": "none", "mountPath": "/x"}, {"name": "none", "mountPath": ""}]}])),
            post(PODS, pod("g", containers=[{"name": "a", "image": "i", "env": [{"name": "a b"}, {"name": ""}],
                                             "ports": [
                {"containerPort": 70000}, {"containerPort": 1, "protocol": "X"}]}])),
            *(post(PODS, pod("h", containers=[{"name": "a", "image": "i", "resources": {"requests": amounts}}]))
              for amounts in ({"cpu": "-1"}, {"odd": "1"}, {"example.com/x": "1500m"})),
            post(PODS, pod("i", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "k", "operator": "Gt", "values": ["a", "b"]}]}]}}})),
            post(PODS, pod("q", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1, "preference": {"matchExpressions": [
                    {"key": "k v", "operator": "Odd"}, {"key": "k", "operator": "In"},
                    {"key": "l", "operator": "Exists", "values": ["x"]},
                    {"key": "m", "operator": "NotIn", "values": ["fine", "a b"]}]}}]}})),
            post(PODS, pod("r", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "m", "operator": "In", "values": ["fine", "a b"]}]}]}}})),
            post(PODS, pod("j", topologySpreadConstraints=[
                {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}])),
            post(PODS, pod("k", hostname="A_b", subdomain="C d", activeDeadlineSeconds=0)),
            post(PODS, pod("l", serviceAccountName="nobody")),
            post(PODS, pod("m", priority=5)),
            post(PODS, pod("n", runtimeClassName="none-{x}")),
            post(PODS, pod("o", initContainers=[{"name": "main", "image": "i"}], restartPolicy="Always")),
        ],
    ),
    Case(
        "custom objects and their deletion",
        [
            *SERVE_WIDGETS,
            post(WIDGETS, widget("a") | {"metadata": {"name": "a", "labels": {"l": "1"}, "finalizers": ["x.com/y"]}}),
            delete(f"{WIDGETS}/a", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            delete(f"{WIDGETS}/a", {"preconditions": {"resourceVersion": "1"}}),
            delete(f"{WIDGETS}/a", {"preconditions": {"uid": "{uid:2}"}, "gracePeriodSeconds": 5}),
            patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}}),
            post(WIDGETS, widget("b"), quiet=True),
            delete(f"{WIDGETS}/b", {"propagationPolicy": "Foreground"}),
            get(f"{WIDGETS}/b", accept=TABLE),
            watch(WIDGETS, "resourceVersion={rv:2}"),
            watch(WIDGETS, "resourceVersion={rv:2}&fieldSelector=spec.size=1"),
            get(WIDGETS, "fieldSelector=metadata.name=b"),
            get(WIDGETS, "limit=1"),
            post(WIDGETS, widget("c"), "dryRun=All"),
            patch(f"{WIDGETS}/b", [{"op": "replace", "path": "/spec/size", "value": 99}], PATCH),
            patch(f"{WIDGETS}/b", {"spec": {"size": 2}, "metadata": {"resourceVersion": "1"}}),
            put(f"{WIDGETS}/b/status", {**widget("b"), "status": {"ready": True}}),
            delete(WIDGETS, {"propagationPolicy": "Background"}),
        ],
    ),
]  # fmt: skip

CASES = [
    *CREATE,
    *UPDATE,
    *PATCHES,
    *DELETE,
    *READ,
    *WATCH,
    *PODS_SUB,
    *CUSTOM,
    *REVIEWS,
    *KINDS,
    *SCHEMAS,
    *TABLES,
    *MORE_TABLES,
    *MORE,
    *CHANGES,
    *WRITES,
    *HANDLING,
    *METADATA,
    *AGREED,
    *NETWORKS,
    *WARNINGS,
]
