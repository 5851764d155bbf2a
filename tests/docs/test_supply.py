"""What the container image installs: pinned, hashed, listed, and no less than what the project asks for."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def locked(name: str) -> dict[str, str]:
    """Return version by package of a lock file."""
    pins = re.findall(r"^([\w.-]+)==([\w.+!-]+)", (DEPLOY / name).read_text(), re.MULTILINE)
    return {package.lower().replace("_", "-"): version for package, version in pins}


def wanted(name: str) -> list[Requirement]:
    if name == "build.lock":
        return [Requirement(line) for line in (DEPLOY / "build.in").read_text().split()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"]]


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_every_dependency_is_locked_in_a_version_that_fits(name: str) -> None:
    pins = locked(name)
    problems = [
        f"{requirement} is locked as {pins.get(requirement.name)}; run: make lock"
        for requirement in wanted(name)
        if requirement.name not in pins or pins[requirement.name] not in requirement.specifier
    ]
    assert not problems


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_every_pin_has_a_hash_and_no_registry_is_named(name: str) -> None:
    text = (DEPLOY / name).read_text()
    entries = [entry for entry in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE) if entry.strip()]
    assert set(locked(name)) == {entry.split("==")[0].lower().replace("_", "-") for entry in entries}
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


def test_the_image_installs_nothing_but_what_is_locked() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [part for line in lines for part in line.split("&&") if "pip install" in part]
    assert len(installs) == 3
    assert all("--require-hashes" in part or "--no-index --prefix" in part for part in installs)


def test_documentation_chart_and_installation_name_one_image() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    basic = yaml.safe_load((DEPLOY / "strato" / "values.yaml").read_text())["basic"]
    names = {basic[f"{part}_image_name"] for part in ("scheduler", "controller", "admission")}
    assert names == {"strato/strato"}
    assert basic["image_tag_version"] == version
    for page in (DEPLOY / "README.md", ROOT / "docs" / "first-steps.md"):
        built = re.findall(r"docker build -f deploy/Dockerfile -t (\S+) \.", page.read_text())
        assert built, page
        for image in built:
            registry = image.removesuffix(f"strato/strato:{version}")
            assert image != registry, f"{page}: {image} is not what the chart runs"
            if registry:
                assert f"basic.image_registry={registry.rstrip('/')}" in page.read_text()


def test_the_versions_of_python_are_said_alike() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
    oldest, newest = named[0], named[-1]
    minor = int(newest.partition(".")[2])
    assert project["requires-python"] == f">={oldest},<3.{minor + 1}"
    assert [int(version.partition(".")[2]) for version in named] == list(
        range(int(oldest.partition(".")[2]), minor + 1)
    )
    assert f"Python {oldest} to {newest}" in (ROOT / "README.md").read_text()
    base = re.search(r"ARG BASE=python:(3\.\d+)-", (DEPLOY / "Dockerfile").read_text())
    assert base is not None
    assert base[1] in named


def test_the_list_of_what_is_in_the_image_is_that_of_the_lock() -> None:
    document = json.loads((DEPLOY / "sbom.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    listed = {c["name"].lower().replace("_", "-"): c["version"] for c in document["components"]}
    assert listed == locked("requirements.lock")
