"""The list that says which kinds of training jobs there are."""

from __future__ import annotations

import pytest

from strato.api import catalog, crds, trainingkinds
from strato.api.trainingkinds import SWITCHES, kinds_of, kinds_off
from strato.errors import UsageError

CASES = [
    pytest.param("*", (), id="all"),
    pytest.param("", (), id="no word"),
    pytest.param("none", tuple(SWITCHES), id="none"),
    pytest.param("*,-TFJob", ("TFJob",), id="one is left out"),
    pytest.param(" * , -mpijob ,-TRAINJOB", ("MPIJob", "TrainJob"), id="any case, with blanks"),
    pytest.param("jaxjob", tuple(name for name in SWITCHES if name != "JAXJob"), id="one alone"),
    pytest.param("-JAXJob", tuple(SWITCHES), id="left out of nothing"),
]


@pytest.mark.parametrize(("text", "off"), CASES)
def test_kinds_are_switched_by_name(text: str, off: tuple[str, ...]) -> None:
    assert kinds_off(text) == kinds_of(off)


def test_all_problems_of_a_list_come_at_once() -> None:
    with pytest.raises(UsageError) as told:
        kinds_off("TFJobs,-JAXJob,JAXJob,none")
    assert str(told.value) == (
        "kinds of training jobs 'TFJobs,-JAXJob,JAXJob,none': 'TFJobs' is no kind of training job; did you mean "
        "'TFJob'?; JAXJob is named twice; name it once; 'none' is no kind of training job; known: JAXJob, MPIJob, "
        "PaddleJob, PyTorchJob, TFJob, TrainJob, XGBoostJob"
    )


def test_every_kind_of_training_job_has_a_switch() -> None:
    assert {kind for kinds in SWITCHES.values() for kind in kinds} == {
        *catalog.TRAINING,
        catalog.TRAINJOB,
        catalog.TRAININGRUNTIME,
        catalog.CLUSTERTRAININGRUNTIME,
    }
    assert trainingkinds.switch_of(catalog.MPIJOB_V1) == "MPIJob"
    assert trainingkinds.switch_of(catalog.POD) == ""


def test_a_kind_that_is_off_has_no_definition() -> None:
    every = {body["metadata"]["name"] for body in crds.manifests()}
    left = {body["metadata"]["name"] for body in crds.manifests(kinds_of(["TFJob", "MPIJob"]))}
    assert every - left == {"tfjobs.kubeflow.org", "mpijobs.kubeflow.org"}
