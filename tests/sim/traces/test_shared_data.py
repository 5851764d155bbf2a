"""The public traces themselves: as many jobs, pods and machines as their publishers say."""

from __future__ import annotations

import pytest

from strato.sim.traces import read_trace
from tests.sim.shareddata import data_folder

FILES = [
    ("hpc-swf/hpc2n-2002-head.swf.gz", "swf", 3145 + 25, 63_578, 120),
    ("hpc-swf/metacentrum-wagap-2013.swf.gz", "swf", 17_900, 19_266, 68),
    ("alibaba-gpu-2023-openb/pods/openb_pod_list_default.csv.gz", "openb", 8152, 8152, 1523),
    ("alibaba-gpu-2023-openb/pods/openb_pod_list_multigpu50.csv.gz", "openb", 9061, 9061, 1523),
    ("philly-2017/chronus_philly_SLO.csv.gz", "chronus", 30_940, 42_990, 0),
    ("philly-2017/elasticflow_philly_103959.csv", "elasticflow", 876, 1899, 0),
    ("philly-2017/philly_jobs.csv.gz", "philly", 82_247, 107_235, 0),
    ("alibaba-2018-batch-sample/jobs.csv.gz", "cloudsimpy", 31_756, 2_551_075, 0),
    ("alibaba-2018-batch-sample/dag_example.csv", "cloudsimpy", 6, 6, 0),
    ("gavel-throughputs/traces/51b7ef.trace.gz", "gavel", 18, 107, 500),
]


@pytest.mark.parametrize(("name", "kind", "entries", "pods", "machines"), FILES, ids=[file[0] for file in FILES])
def test_public_trace_is_read_whole(name: str, kind: str, entries: int, pods: int, machines: int) -> None:
    trace = read_trace(data_folder() / name)
    assert trace.format == kind
    assert len(trace.jobs) + trace.skipped == entries
    assert sum(job.replicas for job in trace.jobs) == pods
    assert sum(shape.count for shape in trace.nodes) == machines
    assert trace.problems == ()


def test_openb_demands_as_many_gpus_as_published() -> None:
    trace = read_trace(data_folder() / "alibaba-gpu-2023-openb/pods/openb_pod_list_default.csv.gz")
    whole = sum(int(job.requests.get("volcano.sh/gpu-number", 0)) for job in trace.jobs)
    shared = [
        int(job.requests["volcano.sh/gpu-memory"]) for job in trace.jobs if "volcano.sh/gpu-memory" in job.requests
    ]
    assert len(shared) == 3078
    assert round(whole + sum(shared) / 1000, 1) == 6086.8
    assert sum(int(shape.resources.get("volcano.sh/gpu-number", 0)) for shape in trace.nodes) == 6212
