"""Kubeflow's operators judge ours; and that the judge sees what differs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.gobuild import NotBuilt
from tests.e2e.worlds import KubeWorld
from tests.judge.__main__ import built, judge, table
from tests.judge.cases import NAME, cases, cases_by_ssh
from tests.judge.comparison import comparable, differences
from tests.judge.known import reason_for

Json = dict[str, Any]


def pod(name: str, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}], **spec},
        "status": {"phase": "Running"},
    }


def event(type_: str, reason: str, kind: str = "TFJob") -> Json:
    return {"type": type_, "reason": reason, "involvedObject": {"kind": kind}}


def test_identities_times_and_empty_members_do_not_count() -> None:
    one, other = pod("p"), pod("p", tolerations=[])
    other["metadata"] |= {"uid": "v", "resourceVersion": "9", "annotations": {}}
    status = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Created", "lastUpdateTime": "x"}]}
    later = {"startTime": "2027-01-01T00:00:00Z", "conditions": [{"type": "Created", "lastUpdateTime": "y"}]}
    theirs = {"Pod/p": one, "TFJob/train": {"status": status}, "Event/a": event("Normal", "R")}
    ours = {"Pod/p": other, "TFJob/train": {"status": later}, "Event/b": event("Normal", "R")}
    assert list(differences("c", 0, theirs, ours)) == []


def test_every_difference_has_its_place() -> None:
    one, other = pod("train-launcher-abcde"), pod("train-launcher-vwxyz", hostNetwork=True)
    other["spec"]["containers"][0]["env"].append({"name": "B", "value": "2"})
    theirs = {"Pod/train-launcher-abcde": one, "Event/a": event("Normal", "R"), "Event/p": event("Normal", "S", "Pod")}
    found = {d.path: (d.theirs, d.ours) for d in differences("c", 1, theirs, {"Pod/train-launcher-vwxyz": other})}
    assert found == {
        "Events.Normal R": (True, None),
        "Pod/train-launcher-*.spec.containers.[c].env.[B]": (None, {"name": "B", "value": "2"}),
        "Pod/train-launcher-*.spec.hostNetwork": (None, True),
    }


def test_of_secrets_only_the_names_of_what_is_in_them_count() -> None:
    assert comparable({"Secret/s": {"metadata": {}, "data": {"key": "eA=="}}})["Secret/s"]["data"] == {"key": ""}


def test_cases_have_names_of_namespaces_and_jobs_of_every_kind() -> None:
    every = [*cases(), *cases_by_ssh()]
    assert len({case.id for case in every}) == len(every)
    assert all(case.job["metadata"]["name"] == NAME and len(case.id) < 64 for case in every)
    kinds = {(case.kind.name, case.kind.version) for case in every}
    names = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    assert kinds == {*((name, "v1") for name in names), ("MPIJob", "v2beta1")}


@pytest.mark.slow  # a quarter of an hour, and how long things take to settle is a matter of the machine
@pytest.mark.timeout(1800)
def test_kubeflows_operators_make_the_same_of_the_same_jobs() -> None:
    if not (KubeWorld.find_binaries() / "kube-apiserver").exists():
        pytest.skip("no control plane; build it with tests/e2e/kube/controlplane/build.sh")
    try:
        built()
    except NotBuilt as error:
        pytest.skip(str(error))
    compared, found = judge()
    assert compared > 150
    assert table([one for one in found if not reason_for(one)], everything=True) == ""
