"""The page about clients names what is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.environments import CLIENTS

PAGE = (Path(__file__).parents[2] / "docs/clients.md").read_text()


@pytest.mark.parametrize(
    "requirement", sorted({item for named in CLIENTS.values() for item in named if not item.startswith("--")})
)
def test_the_page_has_each_client_in_the_version_that_is_tested(requirement: str) -> None:
    name, version = requirement.partition("[")[0].partition("==")[0], requirement.partition("==")[2]
    assert f"| {name} {version} |" in PAGE


@pytest.mark.parametrize("version", ["v3", "v4"])
def test_the_page_has_helm_in_the_versions_that_are_tested(version: str) -> None:
    required = (Path(__file__).parent / "helm" / version / "go.mod").read_text()
    found = re.search(rf"helm.sh/helm/{version} (\S+)", required)
    assert found is not None
    assert f"| Helm {found.group(1)} |" in PAGE


FOREIGN = [
    ("kubectl", "kubectl/v1.20/go.mod", r"k8s.io/kubernetes v(\S+)"),
    ("kubectl", "kubectl/v1.36/go.mod", r"k8s.io/kubernetes v(\S+)"),
    ("controller-runtime", "operator/go.mod", r"controller-runtime v(\S+)"),
    ("client-go", "operator/go.mod", r"client-go v(\S+)"),
    ("fabric8 kubernetes-client", "java/pom.xml", r"kubernetes-client</artifactId>\s*<version>(.+)</version>"),
    ("@kubernetes/client-node", "javascript/package.json", r'client-node": "(.+)"'),
    ("Spark operator", "sparkoperator/go.mod", r"spark-operator/v2 v(\S+)"),
    ("Argo Workflows", "argo/go.mod", r"argo-workflows/v3 v(\S+)"),
    ("Nextflow", "nextflow/pom.xml", r"<artifactId>nextflow</artifactId>\s*<version>([\d.]{2,})</version>"),
]


@pytest.mark.parametrize(("client", "manifest", "pattern"), FOREIGN, ids=[row[1] + " " + row[0] for row in FOREIGN])
def test_the_page_has_clients_in_other_languages(client: str, manifest: str, pattern: str) -> None:
    found = re.search(pattern, (Path(__file__).parent / manifest).read_text())
    assert found is not None
    assert f"{client} {found.group(1)} " in PAGE or f"{client} {found.group(1)}," in PAGE


def test_the_page_says_of_each_test_how_long_it_takes() -> None:
    """Or, by a dash, that nobody has looked."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:2] == "| "]
    named = {file for row in rows for file in re.findall(r"tests/clients/(test_\w+\.py)", row[2])}
    timed = {
        file
        for row in rows
        if row[1].isdigit() or row[1] == "–"
        for file in re.findall(r"tests/clients/(test_\w+\.py)", row[2])
    }
    assert named == timed == {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
