"""What is installed: from one source, with few rights, and the same from the chart."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.admission.webhook import SERVICES
from strato.api import trainingkinds
from strato.cli.install import COMPONENTS
from strato.cli.install.chart import chart_files, difference
from strato.cli.install.manifests import COMPONENTS as MANIFEST_PARTS
from strato.cli.install.manifests import chosen, resources
from strato.cli.install.values import DEFAULTS, WITHOUT_EFFECT, Chosen
from strato.cli.main import main
from strato.errors import InvalidInput
from strato.scheduler.config import DEFAULT_TEXT

Json = dict[str, Any]
CHART = Path(__file__).parents[2] / "deploy" / "strato"


KUBE = ("--kube-version", "1.36.0")
"""A helm that was built by hand otherwise renders for the oldest cluster it can imagine."""


def installed(*settings: str, namespace: str = "volcano-system") -> list[Json]:
    values = Chosen(namespace, settings=settings)
    return chosen(resources(values, DEFAULT_TEXT), values, MANIFEST_PARTS)


def named(bodies: list[Json]) -> dict[tuple[str, str], Json]:
    return {(body["kind"], body["metadata"]["name"]): body for body in bodies}


def test_the_parts_on_the_command_line_are_those_of_the_manifests() -> None:
    assert COMPONENTS == MANIFEST_PARTS


def test_the_chart_in_the_repository_is_what_would_be_written_now() -> None:
    """If not: ``strato install --chart deploy/strato``."""
    assert difference(CHART, DEFAULT_TEXT) == []


def test_every_template_keeps_its_braces_in_pairs() -> None:
    for name, text in chart_files(DEFAULT_TEXT).items():
        if not name.startswith("templates/"):
            continue
        assert text.count("{{") == text.count("}}"), name
        assert "⟦" not in text, name


def helm() -> str:
    built = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strato-kube" / "bin" / "helm"
    found = os.environ.get("STRATO_HELM") or shutil.which("helm") or (str(built) if built.exists() else "")
    if not found:
        pytest.skip("helm is not installed (https://helm.sh); STRATO_HELM may name it, 'make chart' builds it")
    return found


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), id="as it comes"),
        pytest.param(
            ("custom.scheduler_replicas=2", "custom.podmonitor_enable=true", "custom.scheduler_name=mine"),
            id="other values",
        ),
        pytest.param(("custom.admission_enable=false", "custom.controller_enable=false"), id="the scheduler alone"),
        pytest.param(("custom.enabled_admissions=/jobs/validate",), id="one admission service"),
        pytest.param(("custom.podmonitor_enable=true", "custom.scheduler_metrics_enable=false"), id="metrics off"),
        pytest.param(("custom.tfjob_enable=false", "custom.trainjob_enable=false"), id="kinds of training jobs off"),
        pytest.param(("custom.mesos_enable=true",), id="a Mesos master"),
        pytest.param(("custom.mesos_enable=true", "custom.mesos_tls_secret=mine"), id="a Mesos master with TLS"),
    ],
)
def test_helm_renders_what_install_applies(settings: tuple[str, ...]) -> None:
    flags = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(
        [helm(), "template", "x", str(CHART), "-n", "batch", *KUBE, *flags], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rendered = [body for body in yaml.safe_load_all(done.stdout) if body]
    wanted = named(installed(*settings, namespace="batch"))
    del wanted["Namespace", "batch"]  # helm makes it with --create-namespace
    assert named(rendered) == wanted


def test_every_pod_monitor_finds_a_port_that_serves_metrics() -> None:
    bodies = installed("custom.podmonitor_enable=true")
    templates = {body["metadata"]["name"]: body["spec"]["template"] for body in bodies if body["kind"] == "Deployment"}
    monitors = [body["spec"] for body in bodies if body["kind"] == "PodMonitor"]
    assert len(monitors) == len(templates) == 3
    for monitor in monitors:
        labels = monitor["selector"]["matchLabels"].items()
        (template,) = (one for one in templates.values() if labels <= one["metadata"]["labels"].items())
        (container,) = template["spec"]["containers"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        (port,) = (one["containerPort"] for one in container["ports"] if one["name"] == endpoint["port"])
        assert f"--listen-address=:{port}" in container["args"]
        assert "--enable-metrics=false" not in container["args"]
        assert endpoint["path"] == "/metrics"


@pytest.mark.parametrize("off", ["custom.scheduler_enable", "custom.scheduler_metrics_enable"])
def test_nothing_scrapes_what_serves_no_metrics(off: str) -> None:
    scraped = {
        (body["kind"], body["metadata"]["name"])
        for body in installed("custom.podmonitor_enable=true", f"{off}=false")
        if body["kind"] == "PodMonitor" or "prometheus.io/scrape" in body["metadata"].get("annotations", {})
    }
    assert scraped == {
        ("PodMonitor", "volcano-controllers"),
        ("PodMonitor", "volcano-admission"),
        ("Service", "volcano-controllers-service"),
    }


@pytest.mark.parametrize("name", list(trainingkinds.SWITCHES))
def test_a_kind_of_training_job_is_left_out_whole(name: str) -> None:
    """Its definitions, its checks, and its controller: Kubeflow's own may be there instead."""
    kinds = trainingkinds.SWITCHES[name]
    gone = named(installed()).keys() - named(installed(f"{trainingkinds.value_of(name)}=false")).keys()
    services = [one for one in SERVICES.values() if one.kind in kinds]
    assert gone == {
        *(("CustomResourceDefinition", kind.resource) for kind in kinds),
        *(("ValidatingWebhookConfiguration", one.configuration) for one in services),
    }
    for part in ("volcano-controllers", "volcano-admission"):
        bodies = named(installed(f"{trainingkinds.value_of(name)}=false", "custom.paddlejob_enable=false"))
        (container,) = bodies["Deployment", part]["spec"]["template"]["spec"]["containers"]
        (flag,) = (one for one in container["args"] if one.startswith("--training-kinds="))
        assert trainingkinds.kinds_off(flag.partition("=")[2]) == trainingkinds.kinds_of([name, "PaddleJob"])


VOLCANOS = """
basic:
  image_tag_version: v1.15.0
  scheduler_image_tag_version: v1.15.1
  image_pull_secret: regcred
  admission_config_file: config/volcano-admission.conf
  agent_image_name: volcanosh/vc-agent
custom:
  scheduler_name: ~
  leader_elect_enable: true
  scheduler_replicas: 2
  scheduler_log_level: 5
  scheduler_metrics_enable: false
  scheduler_kube_api_qps: 2000
  scheduler_sharding_mode: ~
  controller_enabled_controllers: ~
  controller_worker_threads: 3
  controller_resources: ~
  default_tolerations: [{key: dedicated, operator: Exists}]
  default_ns: {kubernetes.io/os: linux}
  admission_ns: {pool: system}
  common_labels: {team: batch, app: never}
  scheduler_podLabels: {team: sched, tier: core}
  default_csc: {allowPrivilegeEscalation: false}
  controller_sc: {runAsUser: 2000}
  enabled_admissions: "/jobs/mutate,/jobs/validate,/queues/validate"
  scheduler_config_override: |
    actions: "allocate"
    tiers: []
service:
  ipFamilies: []
"""
"""Values as a user of Volcano's chart has them."""


def test_a_values_file_of_volcanos_chart_is_taken(tmp_path: Path) -> None:
    """By the chart and by the command alike; what means nothing is told about, and nothing else."""
    values = Chosen("batch", [("values.yaml", VOLCANOS)])
    assert set(values.notes) == {
        "basic.admission_config_file",
        "custom.scheduler_kube_api_qps",
        "custom.controller_worker_threads",
        "service.ipFamilies",
    }
    wanted = named(chosen(resources(values, values("custom.scheduler_config_override")), values, MANIFEST_PARTS))
    deployment = wanted["Deployment", "volcano-scheduler"]
    pod = deployment["spec"]["template"]
    assert deployment["metadata"]["labels"] == {"app": "volcano-scheduler", "team": "batch"}
    assert pod["metadata"]["labels"] == {"app": "volcano-scheduler", "team": "sched", "tier": "core"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "regcred"}]
    assert pod["spec"]["containers"][0]["image"] == "docker.io/strato/strato:v1.15.1"
    assert {"--v=5", "--enable-metrics=false", "--scheduler-name=volcano"} <= set(pod["spec"]["containers"][0]["args"])
    file = tmp_path / "values.yaml"
    file.write_text(VOLCANOS)
    done = subprocess.run(
        [helm(), "template", "x", str(CHART), "-n", "batch", *KUBE, "-f", str(file)],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    del wanted["Namespace", "batch"]
    assert named([body for body in yaml.safe_load_all(done.stdout) if body]) == wanted


def test_a_value_that_is_misspelled_is_told_with_its_neighbour() -> None:
    with pytest.raises(InvalidInput, match=r"did you mean custom\.scheduler_replicas"):
        Chosen("n", settings=["custom.scheduler_replica=2"])


def test_no_value_is_both_used_and_without_effect() -> None:
    assert not {f"{section}.{name}" for section, names in DEFAULTS.items() for name in names} & set(WITHOUT_EFFECT)


def test_no_role_has_a_wildcard_and_only_users_roles_have_all_of_a_group() -> None:
    for body in installed():
        if body["kind"] not in ("ClusterRole", "Role"):
            continue
        for rule in body["rules"]:
            assert "*" not in rule["verbs"]
            assert "*" not in rule["apiGroups"]
            if body["metadata"]["name"].startswith("volcano-"):
                assert "*" not in rule["resources"]


def test_no_component_may_read_all_secrets() -> None:
    bodies = named(installed())
    for name in ("volcano-scheduler", "volcano-controllers", "volcano-admission"):
        rules = bodies["ClusterRole", name]["rules"]
        verbs = {verb for rule in rules if "secrets" in rule["resources"] for verb in rule["verbs"]}
        assert verbs.isdisjoint({"list", "watch"})
    admission = [rule for rule in bodies["ClusterRole", "volcano-admission"]["rules"] if "patch" in rule["verbs"]]
    assert all(rule["resourceNames"] for rule in admission)


def test_pods_are_never_held_up_and_the_own_namespace_is_never_asked_about() -> None:
    for body in installed(namespace="batch"):
        for webhook in body.get("webhooks", ()):
            if "-pods-" in body["metadata"]["name"]:
                assert webhook["failurePolicy"] == "Ignore"
            if "namespaceSelector" in webhook:
                assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "batch"]


def test_all_problems_of_the_values_come_at_once() -> None:
    files = [("v.yaml", "custom: {scheduler_replicas: two, nothing: 1}\nbasic: 5"), ("w.yaml", "{")]
    with pytest.raises(InvalidInput) as caught:
        Chosen("n", files, ["custom.podmonitor_enable=perhaps", "noequals"])
    assert [problem.where for problem in caught.value.problems] == [
        "v.yaml: custom.scheduler_replicas",
        "v.yaml: custom.nothing",
        "v.yaml: basic",
        "w.yaml",
        "--set custom.podmonitor_enable",
        "--set noequals",
    ]


def test_a_dry_run_prints_and_applies_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("custom: {scheduler_schedule_period: 2s}\n")
    with pytest.raises(SystemExit) as caught:
        main(["install", "--dry-run", "--only", "scheduler", "-f", str(values)])
    assert not caught.value.code
    bodies = named(list(yaml.safe_load_all(capsys.readouterr().out)))
    container = bodies["Deployment", "volcano-scheduler"]["spec"]["template"]["spec"]["containers"][0]
    assert "--schedule-period=2s" in container["args"]
    assert set(bodies) == {
        ("ConfigMap", "volcano-scheduler-configmap"),
        ("Deployment", "volcano-scheduler"),
        ("Service", "volcano-scheduler-service"),
    }


@pytest.mark.parametrize(
    ("part", "verb"), [("scheduler", "scheduler"), ("controllers", "controllers"), ("admission", "webhook")]
)
def test_the_arguments_of_the_deployments_are_understood(part: str, verb: str) -> None:
    from strato.cli.run import run

    bodies = named(installed())
    arguments = bodies["Deployment", f"volcano-{part}"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:2] == ["run", verb]
    with run.make_context("run", arguments[1:]) as group:
        name, command, rest = run.resolve_command(group, arguments[1:])
        assert command is not None
        command.make_context(name, list(rest), parent=group)


@pytest.mark.parametrize(
    ("settings", "files", "sources"),
    [
        pytest.param((), ("", ""), [], id="http"),
        pytest.param(
            ("custom.mesos_tls_secret=mine",),
            ("/tls/tls.crt", "/tls/tls.key"),
            [{"secret": {"name": "mine"}}],
            id="https with the certificate of a Secret",
        ),
    ],
)
def test_the_mesos_master_has_the_certificate_that_is_named(
    settings: tuple[str, ...], files: tuple[str, str], sources: list[Json]
) -> None:
    from strato.cli.run import run

    pod = named(installed("custom.mesos_enable=true", *settings))["Deployment", "strato-mesos"]["spec"]["template"][
        "spec"
    ]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "tls"]
    assert volume["projected"]["sources"] == sources
    container = pod["containers"][0]
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in container["volumeMounts"]
    with run.make_context("run", container["args"][1:]) as group:
        _, command, rest = run.resolve_command(group, container["args"][1:])
        assert command is not None
        given = command.make_context("mesos", list(rest), parent=group).params
    assert (given["tls_cert_file"], given["tls_private_key_file"]) == files
