"""An object of each kind that generated requests are about: path, and what a user might write."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

LABELS = {"app": "a"}
CONTAINER = {
    "name": "c",
    "image": "i:1",
    "command": ["x", "y"],
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"containerPort": 80, "name": "web"}],
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
}
POD = {
    "containers": [CONTAINER],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "nodeSelector": {"x": "y"},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    "terminationGracePeriodSeconds": 5,
}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
SELECTOR = {"matchLabels": LABELS}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
HTTP_PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}

NAMESPACED: dict[str, Json] = {
    "v1/pods": {"spec": POD},
    "v1/configmaps": {"data": {"a": "b"}, "binaryData": {"c": "AAE="}},
    "v1/secrets": {"data": {"a": "Yg=="}, "stringData": {"c": "d"}, "type": "Opaque"},
    "v1/services": {"spec": {"selector": LABELS, "clusterIP": "None", "ports": [{"port": 80, "targetPort": "web"}]}},
    "v1/serviceaccounts": {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "x"}]},
    "v1/persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "v1/podtemplates": {"template": TEMPLATE},
    "v1/replicationcontrollers": {"spec": {"replicas": 1, "selector": LABELS, "template": TEMPLATE}},
    "v1/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "v1/events": {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
    },
    "apps/v1/deployments": {"spec": {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/replicasets": {"spec": {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/statefulsets": {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/daemonsets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/controllerrevisions": {"revision": 1, "data": {"a": 1}},
    "batch/v1/jobs": {
        "spec": {"completions": 2, "parallelism": 1, "template": {"spec": {**POD, "restartPolicy": "Never"}}}
    },
    "batch/v1/cronjobs": {
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "OnFailure"}}}},
        }
    },
    "policy/v1/poddisruptionbudgets": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "coordination.k8s.io/v1/leases": {
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 10, "renewTime": "2024-01-01T00:00:00.000000Z"}
    },
    "rbac.authorization.k8s.io/v1/roles": {"rules": RULES},
    "rbac.authorization.k8s.io/v1/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"}],
    },
    "networking.k8s.io/v1/networkpolicies": {"spec": {"podSelector": SELECTOR, "policyTypes": ["Ingress"]}},
    "networking.k8s.io/v1/ingresses": {"spec": {"rules": [{"host": "h.example.com", "http": {"paths": [HTTP_PATH]}}]}},
    "discovery.k8s.io/v1/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 80, "name": "web"}],
    },
    "autoscaling/v2/horizontalpodautoscalers": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}
    },
}
CLUSTERED: dict[str, Json] = {
    "v1/persistentvolumes": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    },
    "scheduling.k8s.io/v1/priorityclasses": {"value": 5, "description": "d"},
    "storage.k8s.io/v1/storageclasses": {"provisioner": "example.com/p", "parameters": {"a": "b"}},
    "storage.k8s.io/v1/csidrivers": {"spec": {"attachRequired": False}},
    "rbac.authorization.k8s.io/v1/clusterroles": {"rules": RULES},
    "rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
    },
    "node.k8s.io/v1/runtimeclasses": {"handler": "runc"},
    "networking.k8s.io/v1/ingressclasses": {"spec": {"controller": "example.com/c"}},
}
WITH_STATUS = frozenset(
    "pods services persistentvolumeclaims replicationcontrollers deployments replicasets statefulsets daemonsets jobs "
    "cronjobs poddisruptionbudgets ingresses horizontalpodautoscalers persistentvolumes".split()
)
WITH_SCALE = frozenset("replicationcontrollers deployments replicasets statefulsets".split())
