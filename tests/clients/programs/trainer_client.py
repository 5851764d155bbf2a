"""What Kubeflow's SDK for trainer v2 does: a function as a job of two nodes, awaited, read and deleted; and its end."""

from __future__ import annotations

import sys

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, Runtime, TrainerClient
from kubernetes import client, config

NAMESPACE, IMAGE = sys.argv[1:]
GROUP = "trainer.kubeflow.org"


def train(rate: float) -> None:
    import os
    import socket
    import time

    def address(name: str) -> str:
        while True:
            try:
                return socket.gethostbyname(name)
            except OSError:  # its pod has no address yet
                time.sleep(0.2)

    rank, nodes = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
    first, own = address(os.environ["PET_MASTER_ADDR"]), address(socket.gethostname())
    assert (first == own) == (rank == 0), (first, own)
    print(f"node {rank} of {nodes} trains at rate {rate}")


def fail() -> None:
    raise SystemExit(3)


# a function needs a folder to write to, bash and the command "torchrun", whose place Python takes here
config.load_kube_config()
core, custom = client.CoreV1Api(), client.CustomObjectsApi()
tools = client.V1ConfigMap(
    metadata=client.V1ObjectMeta(name="tools"), data={"torchrun": '#!/bin/sh\nexec python3 "$@"\n'}
)
core.create_namespaced_config_map(NAMESPACE, tools)
container = {
    "name": "node",
    "image": IMAGE,
    "workingDir": "/tmp",
    "env": [{"name": "PATH", "value": "/tools:/usr/bin:/bin"}],
    "resources": {"limits": {"cpu": "1", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
    "volumeMounts": [{"name": "tools", "mountPath": "/tools"}],
}
pods = {
    "restartPolicy": "Never",
    "containers": [container],
    "volumes": [{"name": "tools", "configMap": {"name": "tools", "defaultMode": 0o555}}],
}
node = {
    "metadata": {"labels": {f"{GROUP}/trainjob-ancestor-step": "trainer"}},
    "spec": {"backoffLimit": 0, "template": {"spec": pods}},
}
runtime = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "own-torch", "labels": {f"{GROUP}/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "podGroupPolicy": {"volcano": {}},
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": node}]}},
    },
}
custom.create_namespaced_custom_object(GROUP, "v1alpha1", NAMESPACE, "trainingruntimes", runtime)

trainer = TrainerClient(backend_config=KubernetesBackendConfig(namespace=NAMESPACE))
found = trainer.get_runtime("own-torch")
assert isinstance(found, Runtime), found
assert found.name in {one.name for one in trainer.list_runtimes()}
print("ok a runtime is found", flush=True)

name = trainer.train(
    runtime=found,
    trainer=CustomTrainer(func=train, func_args={"rate": 0.1}, num_nodes=2, resources_per_node={"cpu": 1}),
)
job = trainer.wait_for_job_status(name, timeout=240)
assert (job.status, job.num_nodes) == ("Complete", 2), job
assert {step.name: step.status for step in job.steps} == {"node-0": "Succeeded", "node-1": "Succeeded"}, job.steps
for rank in (0, 1):
    lines = list(trainer.get_job_logs(name, step=f"node-{rank}"))
    assert lines == [f"node {rank} of 2 trains at rate 0.1"], lines
print("ok a function trains on two nodes and its logs are read", flush=True)

assert [one.name for one in trainer.list_jobs(runtime=found)] == [name]
assert any(event.involved_object_kind == "Pod" for event in trainer.get_job_events(name))
trainer.delete_job(name)
assert not trainer.list_jobs()
print("ok it is listed with its events, and deleted", flush=True)

name = trainer.train(runtime="own-torch", trainer=CustomTrainer(func=fail))
assert trainer.wait_for_job_status(name, status={"Failed"}, timeout=240).status == "Failed"
trainer.delete_job(name)
print("ok one that fails is known to have failed", flush=True)
