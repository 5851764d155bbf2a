"""What lightkube does in a namespace: apply with conflicts, watch, wait, logs and commands, custom resources."""

from __future__ import annotations

import sys

from lightkube import ApiError, Client, codecs
from lightkube.generic_resource import create_global_resource, load_in_cluster_generic_resources
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod

NAMESPACE = sys.argv[1]
MANIFEST = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {NAMESPACE}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: strato/host, command: [sleep, "3600"]}}]}}
"""


def applies(cluster: Client) -> None:
    settings = ConfigMap(metadata=ObjectMeta(name="settings", namespace=NAMESPACE), data={"a": "1"})
    cluster.apply(settings, field_manager="first")
    settings.data = {"a": "2"}
    try:
        cluster.apply(settings, field_manager="second")
    except ApiError as error:
        code = error.status.code
    else:
        code = 200
    assert code == 409, code
    assert cluster.apply(settings, field_manager="second", force=True).data == {"a": "2"}
    print("ok objects are applied, with conflicts and force")
    for made in codecs.load_all_yaml(MANIFEST):
        cluster.apply(made, field_manager="first")
    cluster.wait(Deployment, "web", for_conditions=["Available"], namespace=NAMESPACE)
    cluster.delete(Deployment, "web", namespace=NAMESPACE)
    print("ok a deployment is applied from YAML and waited for")
    load_in_cluster_generic_resources(cluster)
    queue = create_global_resource("scheduling.volcano.sh", "v1beta1", "Queue", "queues")
    assert cluster.get(queue, "default").spec["weight"] == 1
    print("ok custom resources are read")


def streams(cluster: Client) -> None:
    main = Container(name="main", image="strato/host", command=["sh", "-c", "echo started; exec sleep 3600"])
    spec = PodSpec(containers=[main], terminationGracePeriodSeconds=1)
    cluster.create(Pod(metadata=ObjectMeta(name="worker", namespace=NAMESPACE), spec=spec))
    for _, pod in cluster.watch(Pod, namespace=NAMESPACE, fields={"metadata.name": "worker"}, server_timeout=120):
        if pod.status and pod.status.phase == "Running":
            break
    print("ok a pod is watched until it runs")
    assert next(iter(cluster.log("worker", namespace=NAMESPACE, follow=True))) == "started\n"
    print("ok its log is followed")
    done = cluster.exec(
        "worker", namespace=NAMESPACE, command=["sh", "-c", "cat; echo err >&2; exit 7"], stdin="typed", stdout=True,
        stderr=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.exit_code) == ("typed", "err\n", 7), done
    print("ok commands run in it, with streams and an exit code")


with Client(namespace=NAMESPACE) as connected:
    applies(connected)
    streams(connected)
