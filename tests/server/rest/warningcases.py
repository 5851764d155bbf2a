"""Objects that are accepted with warnings: pods, templates of pods, claims, volumes and Services."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import Case, Step, delete, differs, patch, post, put

CORE = "/api/v1/namespaces/{ns}"
APPS, BATCH = "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
LABELS = {"a": "b"}
OLD_LABELS = (
    *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/region"),
    *("failure-domain.beta.kubernetes.io/zone", "beta.kubernetes.io/instance-type", "app.kubernetes.io/created-by"),
    *("scheduler.alpha.kubernetes.io/preferAvoidPods", "node-role.kubernetes.io/master", "kubernetes.io/os"),
)
OLD_ANNOTATIONS = (
    *("scheduler.alpha.kubernetes.io/critical-pod", "security.alpha.kubernetes.io/sysctls"),
    *("security.alpha.kubernetes.io/unsafe-sysctls", "seccomp.security.alpha.kubernetes.io/pod"),
    *("container.seccomp.security.alpha.kubernetes.io/c", "container.seccomp.security.alpha.kubernetes.io/other"),
)
SECCOMP = {"seccompProfile": {"type": "RuntimeDefault"}}
SELECTED = {"labelSelector": {"matchLabels": LABELS}}


def container(**members: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i:1", **members}


def template(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS, **metadata}, "spec": {"containers": [container()], **(spec or {})}}


def node_terms(*keys: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": ["v"]} for key in keys]}


def affinity(**members: Any) -> dict[str, Any]:
    return {"affinity": members}


def projected(*sources: Any) -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": list(sources)}}


def items(*paths: str) -> list[dict[str, str]]:
    return [{"key": f"k{number}", "path": path} for number, path in enumerate(paths)]


REQUIRED, PREFERRED = (f"{one}DuringSchedulingIgnoredDuringExecution" for one in ("required", "preferred"))
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
SPECS: dict[str, list[Any]] = {
    "labels of nodes": [
        *({"nodeSelector": {label: "v"}} for label in OLD_LABELS),
        affinity(nodeAffinity={REQUIRED: {"nodeSelectorTerms": [
            node_terms(OLD_LABELS[0]), node_terms("a", OLD_LABELS[5])]}}),
        affinity(nodeAffinity={PREFERRED: [{"weight": 1, "preference": node_terms("a", OLD_LABELS[1])}]}),
        affinity(nodeAffinity={PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["ok", "a b", "x" * 64]}]}}]}),
        {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": OLD_LABELS[3], "whenUnsatisfiable": "DoNotSchedule", **SELECTED},
            {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
        ]},
    ],
    "affinity to no pods": [
        affinity(podAffinity={REQUIRED: [{"topologyKey": "a"}, {"topologyKey": "a", **SELECTED}]}),
        affinity(podAntiAffinity={PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}]}),
        affinity(podAffinity={PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a", **SELECTED}}]}),
    ],
    "old volumes": [
        {"volumes": [{"name": "v", member: source}]}
        for member, source in {
            "gitRepo": {"repository": "r"}, "photonPersistentDisk": {"pdID": "p"},
            "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}},
            "flocker": {"datasetName": "d"}, "storageos": {"volumeName": "v"},
            "quobyte": {"registry": "a:1", "volume": "v"}, "glusterfs": {"endpoints": "e", "path": "p"},
            "cephfs": {"monitors": ["m"]}, "rbd": {"monitors": ["m"], "image": "i"}, "emptyDir": {},
        }.items()
    ],
    "claims of volumes": [
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}}}}]}
        for amount in ("1Gi", "0.5", "1500m", "1.5Gi")
    ],
    "paths of volumes": [
        {"volumes": [{"name": "v", "configMap": {"name": "m", "items": items("a", "a", "b/", "b", "b/c", "bc")}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "s", "items": items("a/b/c", "a", "a/b")}}]},
        {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": path, **FIELD} for path in ("a", "a/b", "c")]}}]},
        {"volumes": [projected({"configMap": {"name": "m", "items": items("a", "b")}},
                               {"secret": {"name": "s", "items": items("b/c", "d")}},
                               {"downwardAPI": {"items": [{"path": "d", **FIELD}]}},
                               {"serviceAccountToken": {"path": "a/t", "expirationSeconds": 600}})]},
        {"volumes": [projected({"configMap": {"name": "m"}}, {"secret": {"name": "s"}})]},
        {"volumes": [projected({"configMap": {"name": "m", "items": items("a", "a")}})]},
    ],
    "repeated members": [
        {"hostAliases": [{"ip": one, "hostnames": ["h"]} for one in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1")]},
        {"imagePullSecrets": [{"name": name} for name in ("a", "b", "a")]},
        {"imagePullSecrets": [{}, {"name": "a"}, {}]},
    ],
    "fractions of bytes": [
        *({"containers": [container(resources={"requests": {"memory": one}, "limits": {"memory": one}})]}
          for one in ("1.5", "100m", "1Gi", "1.5Gi", "0.0001Gi", "1e3", "1500m", "2000m", "1u")),
        {"containers": [container(resources={"requests": {"ephemeral-storage": "0.5", "cpu": "0.5"}})]},
        {"initContainers": [container(name="i", resources={"limits": {"memory": "0.5"}})]},
        {"overhead": {"memory": "0.5", "cpu": "0.5"}},
    ],
    "hidden variables": [
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, second])]}
        for second in (
            {"name": "A", "value": "3"}, {"name": "A", "value": "$(A)"}, {"name": "A", "value": "$(A)3"},
            {"name": "A", "value": "x$(B)"}, {"name": "A"}, {"name": "A", "valueFrom": FIELD},
            {"name": "C", "value": "1"},
        )
    ],
    "ports": [
        *({"containers": [container(ports=ports)]} for ports in (
            [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
            [{"containerPort": 80}, {"containerPort": 80}],
            [{"containerPort": 80}, {"containerPort": 80, "hostPort": 1}, {"containerPort": 80, "hostPort": 2}],
            [{"containerPort": 80, "hostPort": 1}, {"containerPort": 80, "hostPort": 1, "hostIP": "10.0.0.1"}],
            [{"containerPort": 80, "hostPort": 1, "hostIP": one} for one in ("10.0.0.1", "10.0.0.2", "0.0.0.0")],
            [{"containerPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 81, "hostIP": "10.0.0.1", "name": "a"}],
            [{"containerPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 80}],
        )),
        {"initContainers": [container(name="i", ports=[{"containerPort": 80, "name": "a"}])],
         "containers": [container(ports=[{"containerPort": 80, "name": "a"}]),
                        container(name="d", ports=[{"containerPort": 81, "name": "a"}, {"containerPort": 80}])]},
    ],
    "addresses": [
        {"dnsConfig": {"nameservers": [one]}}
        for one in ("10.0.0.1", "010.0.0.1", "::ffff:10.0.0.1", "FD00::1", "fd00::1")
    ] + [
        {"hostAliases": [{"ip": one, "hostnames": ["h"]}]} for one in ("10.0.0.01", "::ffff:10.0.0.1", "fd00:0::1")
    ],
    "names of resolvers": [
        *({"dnsConfig": one} for one in (
            {"nameservers": ["10.0.0.1"] * 4}, {"nameservers": ["x", "fe80::1%eth0", ""]}, {}, {"searches": ["a"] * 33},
            {"searches": ["a.b.", ".", "", "_a._b", "A", "a_", "x" * 64, "-a", "x" * 254]},
            {"searches": [f"{'x' * 63}.{'x' * 63}"] * 17}, {"options": [{"name": "a"}, {"value": "b"}]},
        )),
        *({"dnsPolicy": "None", **more}
          for more in ({}, {"dnsConfig": {}}, {"dnsConfig": {"nameservers": ["10.0.0.1"]}})),
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "A b", "a.b", ""]}, {"ip": "x"}, {"ip": "fe80::1%1"}]},
    ],
    "grace": [{"terminationGracePeriodSeconds": seconds} for seconds in (-1, 0)],
    "more than a header holds": [
        {"containers": [container(env=[{"name": "A", "value": "1"}] * 300)]},
        {"containers": [container(env=[{"name": f"A{'x' * 100}", "value": "1"}] * 60)]},
        {"containers": [container(env=[{"name": f"A{'x' * 300}", "value": "1"}] * 20)]},
    ],
}  # fmt: skip
ANNOTATED = [
    *(
        template(annotations={key: profile})
        for key in OLD_ANNOTATIONS
        for profile in ("v", "runtime/default", "localhost/a/../b", "localhost//a", "unconfined")
    ),
    template({"securityContext": SECCOMP}, annotations=dict.fromkeys(OLD_ANNOTATIONS, "runtime/default")),
    template({"containers": [container(securityContext=SECCOMP)]}, annotations={OLD_ANNOTATIONS[4]: "runtime/default"}),
]


def each_template(*templates: Any) -> list[Step]:
    path = f"{CORE}/podtemplates"
    return [
        step
        for one in templates
        for step in (
            post(path, {"metadata": {"name": "t"}, "template": one}),
            delete(f"{path}/t", quiet=True),
        )
    ]


def workload(name: str = "w", spec: Any = None, **more: Any) -> dict[str, Any]:
    inner = {"selector": {"matchLabels": LABELS}, "template": template(spec), **more}
    return {"metadata": {"name": name}, "spec": inner}


BAD = {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}
SERVICE_SPECS = (
    {"clusterIP": "None", "sessionAffinity": "ClientIP"},
    {"clusterIP": "None", "externalIPs": ["192.0.2.1"]},
    {"externalIPs": ["192.0.2.1", "192.0.2.01"]},
    {"type": "ExternalName", "externalName": "a.example.com", "externalIPs": ["192.0.2.1"]},
    {"externalName": "a.example.com"},
    {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.01"},
    *({"type": "LoadBalancer", "loadBalancerSourceRanges": [one]} for one in
      ("192.0.2.0/24", "192.0.2.1/24", "192.0.02.0/24", "FD00::/64", "fd00::1/64", "::ffff:192.0.2.0/120")),
    {"trafficDistribution": "PreferClose"},
    {"trafficDistribution": "PreferSameZone"},
)  # fmt: skip
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
VOLUME_SPECS = (
    {"hostPath": {"path": "/x"}, "persistentVolumeReclaimPolicy": "Recycle"},
    {"hostPath": {"path": "/x"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [node_terms(OLD_LABELS[3])]}}},
    {"cephfs": {"monitors": ["m"]}},
    {"storageos": {"volumeName": "v"}},
    {"glusterfs": {"endpoints": "e", "path": "p"}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
)


def services() -> list[Step]:
    path, ports = f"{CORE}/services", {"ports": [{"port": 80}]}
    steps = [
        step
        for spec in SERVICE_SPECS
        for step in (
            post(path, {"metadata": {"name": "s"}, "spec": {**ports, **spec}}, only_warnings=True),
            delete(f"{path}/s", quiet=True),
        )
    ]
    hints = {"name": "s", "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}
    return [
        *steps,
        post(path, {"metadata": hints, "spec": ports}, only_warnings=True),
        patch(f"{path}/s", {"metadata": {"labels": LABELS}}, only_warnings=True),
        patch(f"{path}/s", {"spec": {"externalIPs": ["192.0.2.1"]}}, only_warnings=True),
        patch(f"{path}/s", {"spec": {"externalIPs": ["127.0.0.1"]}}, only_warnings=True),
        patch(f"{path}/s", {"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}}, only_warnings=True),
        patch(f"{path}/s/status", {"status": {"conditions": []}}, only_warnings=True),
    ]


def persistent_volumes() -> list[Step]:
    path = "/api/v1/persistentvolumes"
    steps = [
        step
        for spec in VOLUME_SPECS
        for step in (
            post(path, {"metadata": {"name": "v-{x}"}, "spec": {**VOLUME, **spec}}),
            patch(f"{path}/v-{{x}}", {"metadata": {"labels": LABELS}}),
            delete(f"{path}/v-{{x}}", quiet=True),
            patch(f"{path}/v-{{x}}", {"metadata": {"finalizers": None}}, quiet=True),
        )
    ]
    old = {f"volume.beta.kubernetes.io/{one}": "x" for one in ("storage-class", "mount-options")}
    named = {"name": "v-{x}", "annotations": old}
    return [*steps, post(path, {"metadata": named, "spec": {**VOLUME, "cephfs": {"monitors": ["m"]}}})]


def claims() -> list[Step]:
    path, modes = f"{CORE}/persistentvolumeclaims", {"accessModes": ["ReadWriteOnce"]}
    sizes = [
        {"requests": {"storage": one}, **more}
        for one in ("1Gi", "0.5")
        for more in ({}, {"limits": {"storage": "1.5"}})
    ]
    old = {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}
    return [
        *(
            post(path, {"metadata": {"name": f"c{at}"}, "spec": {**modes, "resources": one}})
            for at, one in enumerate(sizes)
        ),
        post(path, {"metadata": {"name": "old", **old}, "spec": {**modes, "resources": sizes[0]}}),
        patch(f"{path}/old", {"metadata": {"labels": LABELS}}),
    ]


def workloads() -> list[Step]:
    steps: list[Step] = []
    for plural in ("deployments", "replicasets", "daemonsets", "statefulsets"):
        path, more = f"{APPS}/{plural}", {"serviceName": "s"} if plural == "statefulsets" else {}
        steps += [
            post(path, workload(spec=BAD, **more)),
            patch(f"{path}/w", {"metadata": {"labels": LABELS}}),
            patch(f"{path}/w", {"spec": {"minReadySeconds": 1}}),
            patch(f"{path}/w/status", {"status": {"observedGeneration": 1}}),
            put(f"{path}/w", workload(spec=BAD, minReadySeconds=2, **more)),
            post(path, workload("a.b", **more)),
            post(path, workload("x" * 70, **more)),
        ]
    limit = {"serviceName": "s", "revisionHistoryLimit": -1}
    claim = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5"}}},
    }
    steps.append(post(f"{APPS}/statefulsets", workload("limited", **limit)))
    steps.append(post(f"{APPS}/statefulsets", workload("claiming", serviceName="s", volumeClaimTemplates=[claim])))
    many = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    job = {"template": template({**BAD, "restartPolicy": "Never"})}
    steps += [
        post(f"{BATCH}/jobs", {"metadata": {"name": "a.b"}, "spec": {**job, **many}}),
        post(f"{BATCH}/jobs", {"metadata": {"name": "few"}, "spec": {**job, **many, "parallelism": 10_000}}),
        patch(f"{BATCH}/jobs/few", {"spec": {"suspend": True}}),
        post(
            f"{BATCH}/cronjobs",
            {"metadata": {"name": "a.b"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}},
        ),
        post(f"{CORE}/replicationcontrollers", {"metadata": {"name": "a.b"}, "spec": {"template": template(BAD)}}),
    ]
    return steps


CONTROLLED = "nobody reads warnings about pods that a controller makes"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "u", "controller": True}


def pods() -> list[Step]:
    path, spec = f"{CORE}/pods", {"containers": [container()]}
    env = {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]}
    return [
        *(post(path, {"metadata": {"name": name}, "spec": spec}) for name in ("a", "a.b", "x" * 63, "x" * 64, "c")),
        *(post(path, {"metadata": {"name": f"{name}.d"}, "spec": spec}) for name in ("one", "two")),
        *(post(path, {"metadata": {"name": name}, "spec": env}) for name in ("hides", "hides-too")),
        patch(f"{path}/hides", {"metadata": {"labels": LABELS}}),
        *(
            post(path, {"metadata": {"name": f"n{at}", "annotations": {key: "v"}}, "spec": spec})
            for at, key in enumerate(OLD_ANNOTATIONS[:4])
        ),
        post(path, {"metadata": {"name": "dry"}, "spec": env}, "dryRun=All"),
        differs(CONTROLLED, post(path, {"metadata": {"name": "owned.d", "ownerReferences": [OWNER]}, "spec": env})),
    ]


def others() -> list[Step]:
    networking, fqdn = "/apis/networking.k8s.io/v1", {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}
    slices, policies = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", f"{networking}/namespaces/{{ns}}"
    six = {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}, {"addresses": ["FD00::2", "fd00:0::3"]}]}
    backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    old = {"annotations": {"kubernetes.io/ingress.class": "c"}}
    block = {"ipBlock": {"cidr": "FD00::/64", "except": ["fd00:0::/96"]}}
    policy = {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}, block]}], "egress": [{"to": [block]}]}
    topologies = [{"matchLabelExpressions": [{"key": key, "values": ["v"]} for key in ("a", OLD_LABELS[3])]}]
    drivers, tokens = "/apis/storage.k8s.io/v1/csidrivers", {"tokenRequests": [{"audience": "a"}]}
    return [
        post(f"{CORE}/endpoints", {"metadata": {"name": "e"}, "subsets": [
            {"addresses": [{"ip": "FD00::1"}, {"ip": "fd00::1"}], "notReadyAddresses": [{"ip": "fd00:0::2"}],
             "ports": [{"port": 80}]}]}),
        patch(f"{CORE}/endpoints/e", {"metadata": {"labels": LABELS}}),
        *(
            post(slices, {
                "metadata": {"name": f"m{at}", "labels": {"endpointslice.kubernetes.io/managed-by": one}}, **six})
            for at, one in enumerate((
                "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io", "x"))
        ),
        post(f"{CORE}/endpoints", {
            "metadata": {"name": "m", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
            "subsets": [{"addresses": [{"ip": "FD00::1"}], "ports": [{"port": 80}]}]}),
        post(slices, {"metadata": {"name": "f"}, **fqdn}),
        patch(f"{slices}/f", {"metadata": {"labels": LABELS}}),
        post(slices, {"metadata": {"name": "s"}, **six}),
        patch(f"{slices}/s", {"metadata": {"labels": LABELS}}),
        post(f"{policies}/networkpolicies", {"metadata": {"name": "n"}, "spec": policy}),
        patch(f"{policies}/networkpolicies/n", {"metadata": {"labels": LABELS}}),
        post(f"{policies}/ingresses", {"metadata": {"name": "i", **old}, "spec": backend}),
        post(f"{policies}/ingresses", {"metadata": {"name": "j", **old}, "spec": {**backend, "ingressClassName": "c"}}),
        post(f"{policies}/ingresses", {"metadata": {"name": "k", **old}, "spec": backend}),
        patch(f"{policies}/ingresses/i", {"metadata": {"labels": LABELS}}),
        post("/apis/storage.k8s.io/v1/storageclasses",
             {"metadata": {"name": "s-{x}"}, "provisioner": "p", "allowedTopologies": topologies}),
        patch("/apis/storage.k8s.io/v1/storageclasses/s-{x}", {"metadata": {"labels": LABELS}}),
        post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "r-{x}"}, "handler": "h",
             "scheduling": {"nodeSelector": {OLD_LABELS[0]: "v"}}}),
        post(drivers, {"metadata": {"name": "d-{x}"}, "spec": tokens}),
        post(drivers, {"metadata": {"name": "e-{x}"}, "spec": {**tokens, "serviceAccountTokenInSecrets": False}}),
        patch(f"{drivers}/d-{{x}}", {"metadata": {"labels": LABELS}}),
        post("/api/v1/nodes", {"metadata": {"name": "n-{x}"}, "spec": {"externalID": "e", "podCIDR": "FD00::/64"}},
             only_warnings=True),
        patch("/api/v1/nodes/n-{x}", {"metadata": {"labels": LABELS}}, only_warnings=True),
        patch("/api/v1/nodes/n-{x}/status", {"status": {"conditions": []}}, only_warnings=True),
    ]  # fmt: skip


def scales() -> list[Step]:
    path, one = f"{APPS}/deployments/w/scale", {"spec": {"replicas": 2}}
    metadata = (
        *({"name": name} for name in ("w", "v", "")),
        *({"name": "w", "namespace": namespace} for namespace in ("{ns}", "other", "")),
        {},
    )
    return [
        post(f"{APPS}/deployments", workload(), quiet=True),
        *(patch(path, {"metadata": some, **one}) for some in metadata),
        *(put(path, {"metadata": some, **one}) for some in metadata),
        *(ask(path, {"metadata": {"name": "w", "uid": "x"}, **one}, only_warnings=True) for ask in (patch, put)),
    ]


WARNINGS = [
    *(Case(f"warnings of templates: {name}", each_template(*map(template, specs))) for name, specs in SPECS.items()),
    Case("warnings of templates: annotations", each_template(*ANNOTATED)),
    Case("warnings of pods", pods()),
    Case("warnings of workloads", workloads()),
    Case("warnings of services", services()),
    Case("warnings of volumes", persistent_volumes()),
    Case("warnings of claims", claims()),
    Case("warnings of other kinds", others()),
    Case("metadata of scales", scales()),
]
