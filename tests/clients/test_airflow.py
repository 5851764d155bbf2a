"""Airflow's KubernetesPodOperator, without a scheduler: ``dag.test()`` runs the tasks where it is called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.environments import PROGRAMS, environment, run_program
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_pods_return_values_to_airflow(sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> None:
    """The sidecar that values are read from, by exec, is of an image that the connection names."""
    (tmp_path / "dags").mkdir()
    shutil.copy(PROGRAMS / "airflow_dag.py", tmp_path / "dags")
    extra = {"kube_config_path": str(sandbox.kubeconfig), "namespace": namespace}
    extra["xcom_sidecar_container_image"] = "strato/host"
    settings = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
    }
    migrate = [str(environment("airflow") / "bin" / "airflow"), "db", "migrate"]
    subprocess.run(migrate, env=os.environ | settings, check=True, capture_output=True, timeout=600)
    done = run_program("airflow", "airflow_dag.py", sandbox, timeout=900, settings=settings)
    assert done == ["count success", "use success", "fail failed"]
    assert sandbox.items("pods", "-n", namespace) == [], "the operator deletes its pods"
