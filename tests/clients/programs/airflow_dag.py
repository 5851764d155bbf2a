"""What Airflow does with pods: one returns a value through the xcom sidecar, one is given it, one fails."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

RETURN = "mkdir -p /airflow/xcom; echo '{\"answer\": 42}' > /airflow/xcom/return.json; echo counted"
USE = "test {{ ti.xcom_pull(task_ids='count')['answer'] }} = 42"


def in_pod(task: str, script: str, *, returns: bool = False) -> KubernetesPodOperator:
    return KubernetesPodOperator(
        task_id=task,
        name=task,
        image="strato/host",
        cmds=["sh", "-c"],
        arguments=[script],
        do_xcom_push=returns,
        startup_timeout_seconds=240,
    )


with DAG("pods", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
    in_pod("count", RETURN, returns=True) >> in_pod("use", USE) >> in_pod("fail", "exit 3")

if __name__ == "__main__":
    run = dag.test()
    for name in ("count", "use", "fail"):
        print("ok", name, run.get_task_instance(name).state)
