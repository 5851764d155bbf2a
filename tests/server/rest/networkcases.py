"""Ingresses, network policies and endpoints, right ones and wrong ones; autoscalers and bindings of too little."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import Case, delete, patch, post, put

CORE = "/api/v1/namespaces/{ns}"
NETWORKING = "/apis/networking.k8s.io/v1"
INGRESSES, POLICIES = f"{NETWORKING}/namespaces/{{ns}}/ingresses", f"{NETWORKING}/namespaces/{{ns}}/networkpolicies"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
SERVICE = {"service": {"name": "s", "port": {"number": 80}}}
LONG = "x" * 260


def named(**members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "o"}, **members}


def path(path: Any = "/", kind: Any = "Prefix", backend: Any = SERVICE) -> dict[str, Any]:
    return {"path": path, "pathType": kind, "backend": backend}


def rules(*paths: Any, host: Any = "h.example.com") -> dict[str, Any]:
    return {"rules": [{"host": host, "http": {"paths": list(paths)}}]}


INGRESS_SPECS: tuple[Any, ...] = (
    None,
    {},
    {"rules": []},
    {"rules": [{}]},
    {"rules": [{"http": None}]},
    rules(),
    {"defaultBackend": {}},
    {"defaultBackend": SERVICE},
    *(rules(path(text)) for text in ("", "x", "//", "/a/./b", "/a/../b", "/%2f", "/%2F/", "/a/..", "/a/.", "/a")),
    *(rules(path(kind=kind)) for kind in (None, "", "Exact", "ImplementationSpecific", "x")),
    rules({"pathType": "ImplementationSpecific", "backend": SERVICE}),
    rules(path("x", "ImplementationSpecific")),
    *(rules(path(), host=host) for host in ("1.2.3.4", "::1", "A", "*.x", "*", "x.*", "*.*.x", "a_b", LONG)),
    *(
        rules(path(backend=backend))
        for backend in (
            None,
            {},
            {"service": {}},
            {"service": {"name": None, "port": {"number": 80}}},
            {"service": {"name": "S", "port": {"number": 80}}},
            {"service": {"name": "1s", "port": {"number": 80}}},
            {"service": {"name": "s"}},
            {"service": {"name": "s", "port": {}}},
            {"service": {"name": "s", "port": {"name": "web"}}},
            {"service": {"name": "s", "port": {"number": 80, "name": "web"}}},
            {"service": {"name": "s", "port": {"number": 70000}}},
            {"service": {"name": "s", "port": {"number": -1}}},
            {"service": {"name": "s", "port": {"name": "W_"}}},
            {"resource": {"apiGroup": "", "kind": "K", "name": "n"}},
            {"resource": {"apiGroup": "a_b", "kind": "K", "name": "n"}},
            {"resource": {"apiGroup": "x.io", "kind": "", "name": ""}},
            {"resource": {"apiGroup": "x.io", "kind": "a/b", "name": ".."}},
            {**SERVICE, "resource": {"apiGroup": "x.io", "kind": "K", "name": "n"}},
        )
    ),
    *(
        {"defaultBackend": SERVICE, "tls": [entry]}
        for entry in (
            {},
            {"hosts": ["h", "*.h", "*", "A"]},
            {"secretName": "s"},
            {"secretName": "S"},
        )
    ),
    *({"defaultBackend": SERVICE, "ingressClassName": name} for name in ("", "c", "C")),
)
CONTROLLERS = (None, "", "c", "x.io/", "/c", "x.io/c", "x.io/c/d", "x.io/a b", "X/c", "x.io/%41", f"x.io/{LONG}")
PARAMETERS: tuple[Any, ...] = (
    {},
    {"kind": "K", "name": "n"},
    {"apiGroup": "a_b", "kind": "a/b", "name": "..", "scope": "Cluster"},
    {"kind": "K", "name": "n", "scope": "x"},
    {"kind": "K", "name": "n", "scope": "Cluster", "namespace": "d"},
    {"kind": "K", "name": "n", "scope": "Namespace"},
    {"kind": "K", "name": "n", "scope": "Namespace", "namespace": ""},
    {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "D"},
    {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "d"},
)
SELECTORS: tuple[Any, ...] = (
    {},
    {"matchLabels": {"a b": "c"}},
    {"matchLabels": {"a": "c d"}},
    {"matchExpressions": [{"key": "a", "operator": "In"}]},
    {"matchExpressions": [{"key": "a b", "operator": "In", "values": ["c d"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["c"]}]},
    {"matchExpressions": [{"key": "a", "operator": "x"}, {}]},
)
PORTS: tuple[Any, ...] = (
    {},
    {"protocol": "x"},
    {"protocol": ""},
    {"port": 0},
    {"port": 70000},
    {"port": "web"},
    {"port": "W_"},
    {"port": "", "endPort": 3},
    {"port": 80, "endPort": 90},
    {"port": 80, "endPort": 79},
    {"port": 80, "endPort": 70000},
    {"port": "web", "endPort": 90},
    {"endPort": 90},
)
PEERS: tuple[Any, ...] = (
    {},
    {"podSelector": {}},
    {"podSelector": {"matchLabels": {"a b": "c"}}},
    {"podSelector": {}, "namespaceSelector": {}},
    {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
    {"ipBlock": {}},
    {"ipBlock": {"cidr": "10.0.0.0"}},
    {"ipBlock": {"cidr": "10.0.0.0/33"}},
    {"ipBlock": {"cidr": "010.0.0.0/8"}},
    {"ipBlock": {"cidr": "10.0.0.1/8"}},
    {"ipBlock": {"cidr": "10.0.0.0/08"}},
    {"ipBlock": {"cidr": "10.0.0.0/255.0.0.0"}},
    {"ipBlock": {"cidr": "10.0.0.0/-1"}},
    {"ipBlock": {"cidr": "fe80::%1/10"}},
    {"ipBlock": {"cidr": "::ffff:10.0.0.0/104"}},
    {"ipBlock": {"cidr": "fe80::/10", "except": ["fe80::/16"]}},
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/16", "x", "10.0.0.0/7"]}},
    {"ipBlock": {"cidr": "x", "except": ["10.1.0.0/16", "y"]}},
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["fe80::/16"]}},
)
POLICY_SPECS: tuple[Any, ...] = (
    None,
    {},
    *({"podSelector": selector} for selector in SELECTORS),
    *({"podSelector": {}, "policyTypes": types} for types in ([], ["Ingress"], ["x", ""], ["Ingress", "Egress", "x"])),
    {"podSelector": {}, "ingress": [{"ports": list(PORTS)}]},
    {"podSelector": {}, "egress": [{"ports": list(PORTS)}, {}]},
    {"podSelector": {}, "ingress": [{}, {"from": list(PEERS)}]},
    {"podSelector": {}, "egress": [{"to": list(PEERS[:4])}]},
)
IPS = (
    *(None, "", "x", "50%", "10.1.2.3", "010.1.2.3", "0.0.0.0", "169.254.1.1", "224.0.0.1", "224.0.1.1"),
    *("::", "fe80::1", "ff02::1", "2001:DB8::1", "2001:db8::1", "::ffff:10.1.2.3"),
    *("fe80::1%eth0", "10.1.2.3%eth0", "2001:db8::1%0", "1::2::3", "10.1.2", "10.1.2.3/8", " 10.1.2.3"),
)
ENDPOINT_PORTS: tuple[Any, ...] = (
    [{}],
    [{"port": 0}],
    [{"port": 70000, "name": "A"}],
    [{"port": 80}, {"port": 80}],
    [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}],
    [{"port": 80, "protocol": "x"}],
    [{"port": 80, "protocol": ""}],
    [{"port": 80, "appProtocol": "a b"}],
    [{"port": 80, "appProtocol": ""}],
    [{"port": 80, "name": LONG}],
)
SUBSETS: tuple[Any, ...] = (
    [{}],
    [{"ports": [{"port": 80}]}],
    [{"notReadyAddresses": [{"ip": "10.1.2.3"}]}],
    [{"addresses": [{"ip": ip} for ip in IPS]}],
    [{"notReadyAddresses": [{"ip": ip} for ip in IPS[:4]]}],
    [{"addresses": [{"ip": "10.1.2.3", "hostname": "A", "nodeName": "B_"}]}],
    [{"addresses": [{"ip": "10.1.2.3", "hostname": "a", "nodeName": ""}]}],
    *([{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}] for ports in ENDPOINT_PORTS),
)


def endpoint_slice(**members: Any) -> dict[str, Any]:
    one = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80, "name": "a"}]}
    return named(**{**one, **members})


ADDRESSES = [ip for ip in IPS if ip is not None]
SLICE_MEMBERS: tuple[dict[str, Any], ...] = (
    *({"addressType": kind} for kind in (None, "", "x")),
    {"endpoints": None, "ports": None},
    {"endpoints": [{"addresses": [address]} for address in ADDRESSES]},
    {"addressType": "IPv6", "endpoints": [{"addresses": [address]} for address in ADDRESSES]},
    {"addressType": "FQDN", "endpoints": [{"addresses": ["a", "a.b", "A.b", "a_.b", "1.2.3.4", LONG]}]},
    {"addressType": "x", "endpoints": [{"addresses": ["y"]}]},
    {"endpoints": [{}, {"addresses": []}, {"addresses": ["10.1.2.3"] * 101}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "hostname": "A", "nodeName": "B_"}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "hostname": "", "nodeName": ""}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}, {"name": ""}]}}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": f"a{n}"} for n in range(9)]}}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "hints": {"forNodes": [{"name": "a"}, {"name": "a"}, {"name": "B_"}]}}]},
    {"endpoints": [{"addresses": ["10.1.2.3"], "zone": "a b"}]},
    *({"ports": ports} for ports in ENDPOINT_PORTS),
    {"ports": [{"port": 80, "name": ""}, {"port": 81}]},
    {"ports": [{"name": "a"}, {"port": None, "name": "b"}]},
)
TARGETS: tuple[Any, ...] = (
    *({"kind": "Deployment", "name": "a", "apiVersion": version} for version in (None, "", "v1", "v2", "apps/v1")),
    *({"kind": "Deployment", "name": "a", "apiVersion": version} for version in ("a/b/c", "apps/", "/v1", "x")),
    *({"kind": kind, "name": "a", "apiVersion": "v1"} for kind in ("ReplicationController", "a/b", "")),
    *({"kind": "K", "name": name, "apiVersion": "x.io/v1"} for name in ("", "a/b", "..")),
)
ROLES: tuple[Any, ...] = (
    None,
    {},
    *({"kind": "Role", "name": "r", "apiGroup": group} for group in (None, "", "x")),
    {"kind": "x", "name": "a/b", "apiGroup": "rbac.authorization.k8s.io"},
)
SUBJECTS: tuple[Any, ...] = (
    {},
    {"kind": "User"},
    {"kind": "User", "name": "u"},
    {"kind": "User", "name": "u", "apiGroup": "x"},
    {"kind": "Group", "name": "g", "apiGroup": ""},
    {"kind": "Group", "name": "g", "apiGroup": "x"},
    {"kind": "ServiceAccount", "name": "A", "namespace": "d"},
    {"kind": "ServiceAccount", "name": "a"},
    {"kind": "ServiceAccount", "name": "a", "apiGroup": "x", "namespace": "d"},
    {"kind": "x", "name": "a"},
)


def policy(spec: Any) -> dict[str, Any]:
    return named() if spec is None else named(spec=spec)


def each(collection: str, *bodies: Any) -> list[Any]:
    """Return creations, each in the place of the one before."""
    return [step for body in bodies for step in (post(collection, body), delete(f"{collection}/o", quiet=True))]


def autoscaler(**spec: Any) -> dict[str, Any]:
    return named(spec={"maxReplicas": 3, "scaleTargetRef": {"kind": "K", "name": "a", "apiVersion": "x.io/v1"}, **spec})


def ingress_class(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "o-{x}"}, "spec": spec}


def binding(**members: Any) -> dict[str, Any]:
    role = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    return named(**{"roleRef": role, **members})


CLASSES = f"{NETWORKING}/ingressclasses"
CLASSED = {"defaultBackend": SERVICE, "ingressClassName": "c"}
GIVEN = {"kubernetes.io/ingress.class": "other"}
IP_NAMES = (
    *("192.0.2.77", "2001:db8::77", "192.0.02.77", "192.0.2.077", "2001:db8::0:77", "2001:DB8::78", "2001:db8::%eth0"),
    *("fe80::1%1", "::ffff:192.0.2.77", "192.0.2", "x", "192.0.2.77/32", "0.0.0.0", "::"),
)
CIDRS = (
    *("192.0.2.1/24", "192.0.02.0/24", "192.0.2.0/024", "2001:DB8::/64", "2001:db8:0::/64", "2001:db8::1/64"),
    *("::ffff:192.0.2.0/120", "192.0.2.0", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/ 24", "fe80::%1/64", "x/24", ""),
)
PARENT = {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}

NETWORKS = [
    Case("specs of ingresses", each(INGRESSES, *(policy(spec) for spec in INGRESS_SPECS))),
    Case("classes of ingresses", [
        post(INGRESSES, {"metadata": {"name": "o", "annotations": GIVEN}, "spec": CLASSED}),
        post(INGRESSES, named(spec=CLASSED)),
        patch(f"{INGRESSES}/o", {"metadata": {"annotations": GIVEN}}),
        patch(f"{INGRESSES}/o", {"spec": {"defaultBackend": None}}),
    ]),
    Case("controllers of ingress classes", [
        step
        for controller in CONTROLLERS
        for step in (post(CLASSES, ingress_class(controller=controller)), delete(f"{CLASSES}/o-{{x}}", quiet=True))
    ]),
    Case("parameters of ingress classes", [
        *(
            step
            for one in PARAMETERS
            for step in (
                post(CLASSES, ingress_class(controller="x.io/c", parameters=one)),
                delete(f"{CLASSES}/o-{{x}}", quiet=True),
            )
        ),
        post(CLASSES, ingress_class(controller="x.io/c"), quiet=True),
        patch(f"{CLASSES}/o-{{x}}", {"spec": {"controller": "x.io/d"}}),
        patch(f"{CLASSES}/o-{{x}}", {"spec": {"controller": None}}),
        post(CLASSES, {"metadata": {"name": "other-{x}"}}),
    ]),
    Case("specs of network policies", each(POLICIES, *(policy(spec) for spec in POLICY_SPECS))),
    Case("names of addresses", [
        step
        for name in IP_NAMES
        for step in (
            post(f"{NETWORKING}/ipaddresses", {"metadata": {"name": name}, "spec": PARENT}),
            *([delete(f"{NETWORKING}/ipaddresses/{name}", quiet=True)] if "%" not in name and "/" not in name else []),
        )
    ]),
    Case("ranges of services that cannot be", [
        post(f"{NETWORKING}/servicecidrs", {"metadata": {"name": "o-{x}"}, "spec": {"cidrs": ranges}})
        for ranges in (*([one] for one in CIDRS), ["192.0.2.1/24", "x"])
    ]),
    Case("subsets of endpoints", [
        *each(f"{CORE}/endpoints", *(named(subsets=subsets) for subsets in SUBSETS)),
        post(f"{CORE}/endpoints", named(subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}])),
        put(f"{CORE}/endpoints/o", named(subsets=[{}])),
    ]),
    Case("members of endpoint slices", [
        *each(SLICES, *(endpoint_slice(**members) for members in SLICE_MEMBERS)),
        post(SLICES, endpoint_slice()),
        patch(f"{SLICES}/o", {"addressType": "IPv6"}),
        patch(f"{SLICES}/o", {"addressType": None}),
        patch(f"{SLICES}/o", {"endpoints": [{"addresses": ["x"]}]}),
    ]),
    Case("targets of autoscalers", each(AUTOSCALERS, *(autoscaler(scaleTargetRef=target) for target in TARGETS))),
    Case("bounds of autoscalers", each(
        AUTOSCALERS,
        named(),
        *(autoscaler(maxReplicas=most) for most in (None, 0, -1)),
        *(autoscaler(minReplicas=least) for least in (None, 0, -1, 4)),
    )),
    Case("roles of bindings", each(f"{RBAC}/rolebindings", *(binding(roleRef=role) for role in ROLES))),
    Case("subjects of bindings", each(f"{RBAC}/rolebindings", *(binding(subjects=[one]) for one in SUBJECTS))),
]  # fmt: skip
