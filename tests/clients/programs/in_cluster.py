"""What a program in a pod does with the account it is given: reads its own namespace, and may do nothing else."""

from __future__ import annotations

from pathlib import Path

from kubernetes import client, config

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

config.load_incluster_config()
namespace = (ACCOUNT / "namespace").read_text()
core = client.CoreV1Api()
assert [item.metadata.name for item in core.list_namespaced_pod(namespace).items] == ["inside"]
print("ok the pod finds itself in its own namespace")
review = client.AuthenticationV1Api().create_self_subject_review({})
assert review.status.user_info.username == f"system:serviceaccount:{namespace}:reader"
print("ok it is its service account")
try:
    core.list_namespaced_secret(namespace)
except client.ApiException as error:
    code = error.status
else:
    code = 200
assert code == 403, code
print("ok it may do nothing else")
