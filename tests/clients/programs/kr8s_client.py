"""What kr8s does in a namespace: objects, conditions, scale, logs, commands and forwarded ports."""

from __future__ import annotations

import sys
import urllib.request

import kr8s
from kr8s.objects import ConfigMap, Deployment, Pod, Service, new_class

NAMESPACE = sys.argv[1]
SERVE = "echo started; mkdir /tmp/web; cd /tmp/web; echo hello > page.txt; exec python3 -m http.server 8000"


def objects() -> None:
    settings = ConfigMap({"metadata": {"name": "settings", "namespace": NAMESPACE}, "data": {"a": "1"}})
    settings.create()
    settings.patch({"data": {"b": "2"}})
    settings.label(kept="yes")
    settings.annotate(said="yes")
    (found,) = kr8s.get("configmaps", namespace=NAMESPACE, label_selector={"kept": "yes"})
    assert dict(found.data) == {"a": "1", "b": "2"}
    print("ok objects are created, patched, labelled and found")
    queue = new_class("Queue", "scheduling.volcano.sh/v1beta1", namespaced=False)
    assert queue.get("default").spec.weight == 1
    print("ok custom resources are read")


def pods() -> None:
    main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", SERVE], "ports": [{"containerPort": 8000}]}
    main["readinessProbe"] = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 1},
    }
    metadata = {"name": "web", "namespace": NAMESPACE, "labels": {"app": "web"}}
    web = Deployment(
        {
            "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        }
    )
    web.create()
    web.wait("condition=Available", timeout=120)
    assert web.ready()
    print("ok a deployment is waited for")
    (pod,) = web.pods()
    assert isinstance(pod, Pod)
    pod.wait("condition=Ready", timeout=120)
    assert next(iter(pod.logs(follow=True))) == "started"
    print("ok a log is followed")
    done = pod.exec(["sh", "-c", "echo out; echo err >&2"])
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 0)
    assert pod.exec(["sh", "-c", "exit 7"], check=False).returncode == 7
    print("ok commands run in it")
    port = [{"port": 80, "targetPort": 8000}]
    service = Service({"metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": port}})
    service.create()
    for target in (pod, service):
        with (
            target.portforward(8000, local_port="auto") as local,
            urllib.request.urlopen(f"http://127.0.0.1:{local}/page.txt", timeout=60) as answer,
        ):
            assert answer.read() == b"hello\n"
    print("ok ports of a pod and of a service are forwarded")
    assert service.proxy_http_get("page.txt").text == "hello\n"
    print("ok a service answers through the proxy")
    web.scale(2)
    web.wait("jsonpath='{.status.readyReplicas}'=2", timeout=120)
    web.delete(propagation_policy="Foreground")
    web.wait("delete", timeout=120)
    print("ok it is scaled and deleted")


objects()
pods()
