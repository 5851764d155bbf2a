"""What Kubeflow's SDK does: a TFJob of four roles, awaited, read and deleted; then a function as a job."""

from __future__ import annotations

import sys

from kubeflow.training import (
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    KubeflowOrgV1SchedulingPolicy,
    KubeflowOrgV1TFJob,
    KubeflowOrgV1TFJobSpec,
    TrainingClient,
)
from kubernetes.client import (
    CoreV1Api,
    V1ConfigMap,
    V1ConfigMapVolumeSource,
    V1Container,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
    V1Volume,
    V1VolumeMount,
)

NAMESPACE, IMAGE, QUEUE, PRIORITY_CLASS = sys.argv[1:]
REPORT = "import json, os; c = json.loads(os.environ['TF_CONFIG']); print(c['task'], sorted(c['cluster']))"


def replicas(count: int) -> KubeflowOrgV1ReplicaSpec:
    container = V1Container(
        name="tensorflow",
        image=IMAGE,
        command=["python3", "-c", REPORT],
        resources={"requests": {"cpu": "100m", "memory": "64Mi"}},
    )
    return KubeflowOrgV1ReplicaSpec(
        replicas=count, restart_policy="OnFailure", template=V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))
    )


def train(parameters: dict) -> None:
    import json
    import os

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']} trains at rate {parameters['rate']}")


trainer = TrainingClient(namespace=NAMESPACE)
trainer.create_job(
    KubeflowOrgV1TFJob(
        api_version="kubeflow.org/v1",
        kind="TFJob",
        metadata=V1ObjectMeta(name="ranking", namespace=NAMESPACE),
        spec=KubeflowOrgV1TFJobSpec(
            run_policy=KubeflowOrgV1RunPolicy(
                clean_pod_policy="None",
                scheduling_policy=KubeflowOrgV1SchedulingPolicy(queue=QUEUE, priority_class=PRIORITY_CLASS),
            ),
            tf_replica_specs={"Chief": replicas(1), "PS": replicas(1), "Worker": replicas(2), "Evaluator": replicas(1)},
        ),
    )
)
job = trainer.wait_for_job_conditions("ranking", job_kind="TFJob", timeout=240)
assert job.status.replica_statuses["Chief"].succeeded == 1, job.status
assert trainer.is_job_succeeded("ranking", job_kind="TFJob")
print("ok a TFJob of four roles is created and awaited", flush=True)

names = trainer.get_job_pod_names("ranking")
assert sorted(names) == [f"ranking-{one}" for one in ("chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1")], names
logs, _ = trainer.get_job_logs("ranking", job_kind="TFJob", is_master=False, replica_type="worker", replica_index=1)
(log,) = logs.values()
assert log.strip() == "{'type': 'worker', 'index': 1} ['chief', 'evaluator', 'ps', 'worker']", log
print("ok its pods are found by role and their logs are read", flush=True)

trainer.delete_job("ranking", job_kind="TFJob")
assert not trainer.list_jobs(job_kind="TFJob")
print("ok it is deleted", flush=True)

# a function needs an image with bash and a command "python", which Debian calls python3
tools = V1ConfigMap(metadata=V1ObjectMeta(name="tools"), data={"python": '#!/bin/sh\nexec python3 "$@"\n'})
CoreV1Api().create_namespaced_config_map(NAMESPACE, tools)
trainer.create_job(
    name="function",
    job_kind="TFJob",
    train_func=train,
    parameters={"rate": 0.1},
    num_workers=2,
    num_ps_replicas=1,
    base_image=IMAGE,
    env_vars={"PATH": "/tools:/usr/bin:/bin"},
    volumes=[V1Volume(name="tools", config_map=V1ConfigMapVolumeSource(name="tools", default_mode=0o555))],
    volume_mounts=[V1VolumeMount(name="tools", mount_path="/tools")],
    resources_per_worker={"cpu": "100m", "memory": "64Mi"},
)
trainer.wait_for_job_conditions("function", job_kind="TFJob", timeout=240)
logs, _ = trainer.get_job_logs("function", job_kind="TFJob", is_master=True)
assert list(logs.values()) == ["worker 0 trains at rate 0.1\n"], logs
trainer.delete_job("function", job_kind="TFJob")
print("ok a function runs as a job", flush=True)
