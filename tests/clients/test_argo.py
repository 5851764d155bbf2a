"""Argo Workflows, controller and executor built from its module: steps with parameters and logs, a step that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.clients.foreign import FOLDERS, installed
from tests.e2e.gobuild import module_files
from tests.e2e.worlds import EmbeddedWorld, PartsWorld, eventually, free_port

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(3600)]

MODULE = "github.com/argoproj/argo-workflows/v3"
EXECUTOR_IMAGE = "quay.io/argoproj/argoexec:v3.7.3"
NEEDED = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: workflow}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: executor}
rules:
- {apiGroups: [argoproj.io], resources: [workflowtaskresults], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: executor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: executor}
subjects: [{kind: ServiceAccount, name: workflow}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: workflow-controller-configmap}
data: {metricsConfig: "{port: METRICS_PORT}"}
"""
WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: three}
spec:
  serviceAccountName: workflow
  entrypoint: main
  arguments: {parameters: [{name: greeting, value: hello}]}
  templates:
  - name: main
    steps:
    - - {name: make, template: make}
    - - name: shout
        template: shout
        arguments: {parameters: [{name: text, value: "{{steps.make.outputs.parameters.text}}"}]}
    - - name: count
        template: count
        arguments: {parameters: [{name: text, value: "{{steps.shout.outputs.result}}"}]}
  - name: make
    outputs: {parameters: [{name: text, valueFrom: {path: /tmp/text}}]}
    container:
      image: strato/host
      command: [sh, -c, "echo making; echo {{workflow.parameters.greeting}} > /tmp/text"]
  - name: shout
    inputs: {parameters: [{name: text}]}
    script: {image: strato/host, command: [sh], source: "echo {{inputs.parameters.text}} | tr a-z A-Z"}
  - name: count
    inputs: {parameters: [{name: text}]}
    container:
      image: strato/host
      command: [sh, -c, "echo {{inputs.parameters.text}} has $(printf {{inputs.parameters.text}} | wc -c)"]
"""
FAILING = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: failing}
spec:
  serviceAccountName: workflow
  entrypoint: main
  templates:
  - {name: main, container: {image: strato/host, command: [sh, -c, "exit 3"]}}
"""


class Controller(PartsWorld):
    """Argo's controller, as a process of this machine, and the namespace it looks after."""

    def __init__(self, world: EmbeddedWorld, namespace: str, directory: Path) -> None:
        super().__init__(directory)
        self.kubeconfig, self.namespace = world.kubeconfig, namespace

    def start(self, program: Path) -> None:
        scope = ["--namespaced", "--namespace", self.namespace, "--managed-namespace", self.namespace]
        image = ["--executor-image", EXECUTOR_IMAGE, "--executor-image-pull-policy", "IfNotPresent"]
        identity = ["env", f"LEADER_ELECTION_IDENTITY={self.namespace}"]
        self._spawn("argo", [*identity, str(program), "--kubeconfig", str(self.kubeconfig), *scope, *image])

    def ended(self, manifest: str) -> dict[str, object]:
        """Create a workflow; return its status when it has ended."""
        name = yaml.safe_load(manifest)["metadata"]["name"]
        self.kubectl("create", "-n", self.namespace, "-f", "-", stdin=manifest)

        def status() -> dict[str, object]:
            found = (self.get("workflow", name, "-n", self.namespace) or {}).get("status", {})
            return found if found.get("finishedAt") else {}

        try:
            return eventually(status, timeout=600, what=f"workflow {name} ends", every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log('argo')[-6000:]}") from error


@pytest.fixture
def argo(sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> Iterator[Controller]:
    programs = installed("argo", ["go", "mod", "download", MODULE], ["sh", "build.sh"])
    manifests = module_files(FOLDERS / "argo", MODULE) / "manifests" / "base" / "crds" / "minimal"
    sandbox.kubectl("apply", "-k", str(manifests))
    sandbox.kubectl("apply", "-n", namespace, "-f", "-", stdin=NEEDED.replace("METRICS_PORT", str(free_port())))
    sandbox.own("image", "build", EXECUTOR_IMAGE, str(programs / "image"), "--entrypoint", "argoexec")
    controller = Controller(sandbox, namespace, tmp_path)
    controller.start(programs / "controller" / "workflow-controller")
    yield controller
    controller.stop()


def test_a_workflow_of_three_steps_passes_parameters_on(argo: Controller) -> None:
    status = argo.ended(WORKFLOW)
    assert status["phase"] == "Succeeded", status
    assert status["progress"] == "3/3"
    pods = argo.items("pods", "-n", argo.namespace, "-l", "workflows.argoproj.io/workflow=three")
    logs = {
        pod["metadata"]["name"]: argo.kubectl("logs", pod["metadata"]["name"], "-n", argo.namespace) for pod in pods
    }
    assert len(logs) == 3
    text = "\n".join(logs.values())
    assert "making" in text
    assert "HELLO has 5" in text

    failed = argo.ended(FAILING)
    assert failed["phase"] == "Failed", failed
    assert "exit code 3" in str(failed["message"])
