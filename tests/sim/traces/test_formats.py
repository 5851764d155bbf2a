"""Each format by a small file with its oddities: what jobs come out, what is skipped, what is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from strato.errors import InvalidInput, UsageError
from strato.node.shapes import GPU
from strato.sim.traces import ReadOptions, Trace, TraceJob, read_files, read_trace
from strato.sim.traces.input import InputFile
from strato.sim.traces.registry import FORMATS, recognised
from tests.sim.traces import samples
from tests.sim.traces.samples import SAMPLES, Sample


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _read(folder: Path, **files: str) -> Trace:
    """Read files; the keys are their names with the dot as two underscores."""
    paths = [_write(folder, name.replace("__", "."), text) for name, text in files.items()]
    return read_trace(paths)


def _by_name(trace: Trace) -> dict[str, TraceJob]:
    return {job.name: job for job in trace.jobs}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.format} {sample.name}")
@pytest.mark.parametrize("is_named", [True, False], ids=["named as shipped", "named anyhow"])
def test_format_is_recognised_by_content(tmp_path: Path, sample: Sample, is_named: bool) -> None:
    path = _write(tmp_path, sample.name if is_named else "data.txt", sample.text)
    assert [kind.name for kind in recognised(InputFile(path))] == [sample.format]


@pytest.mark.parametrize(
    "sample", [one for one in SAMPLES if one.format != "mapping"], ids=lambda sample: f"{sample.format} {sample.name}"
)
def test_odd_lines_are_named_and_an_error_when_strict(tmp_path: Path, sample: Sample) -> None:
    (tmp_path / "simulation_throughputs.json").write_text(samples.GAVEL_THROUGHPUTS)
    path = _write(tmp_path, sample.name, sample.text)
    trace = read_files([path], ReadOptions())
    assert trace.skipped == sum(trace.reasons.values())
    if trace.problems:
        with pytest.raises(InvalidInput) as raised:
            read_files([path], ReadOptions(strict=True))
        assert raised.value.problems == trace.problems
    else:
        assert read_files([path], ReadOptions(strict=True)).jobs == trace.jobs


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} == set(FORMATS)


def test_our_csv(tmp_path: Path) -> None:
    trace = _read(tmp_path, jobs__csv=samples.OURS)
    jobs = _by_name(trace)
    assert set(jobs) == {"a", "b", "c"}
    first = jobs["a"]
    assert (first.run_seconds, first.replicas, first.min_replicas, first.members) == (5400.0, 4, 2, 2)
    assert first.requests == {"cpu": "2", "memory": "1Gi", GPU: "1"}
    assert (first.node_selector, first.deadline_seconds, first.user) == ({"zone": "a"}, 7200.0, "alice")
    assert jobs["b"].after == ("a", "c")
    assert jobs["c"].after == ()
    assert [problem.where.removeprefix(f"{tmp_path}/") for problem in trace.problems] == [
        "jobs.csv: line 5: name",
        "jobs: c",
    ]


def test_swf_with_comments_that_name_the_machine(tmp_path: Path) -> None:
    trace = _read(tmp_path, log__swf=samples.SWF)
    first, second = trace.jobs
    assert (first.replicas, first.requests, first.user, first.waited_seconds) == (4, {"cpu": "1"}, "user-7", 5.0)
    assert (second.replicas, second.requests) == (2, {"cpu": "4"})
    assert [(shape.count, shape.resources["cpu"]) for shape in trace.nodes] == [(4, "2")]
    assert [problem.where.partition(": ")[2] for problem in trace.problems] == ["line 7: field 2 (submit)", "line 8"]
    assert trace.skipped == 3


def test_swf_takes_the_machines_beside_it(tmp_path: Path) -> None:
    _write(tmp_path, "log.machines", "0\tseth\t120\t2\t1\t1048576\n1\tx\n")
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(samples.SWF.encode()))
    (shape,) = read_trace(tmp_path / "log.swf.gz").nodes
    assert (shape.count, shape.resources) == (120, {"cpu": "2", "memory": "1Gi", "pods": "110"})


def test_openb_shares_models_and_machines(tmp_path: Path) -> None:
    _write(tmp_path, "openb_node_list_all_node.csv", samples.OPENB_NODES)
    trace = read_trace(_write(tmp_path, "openb_pod_list_default.csv", samples.OPENB_PODS))
    jobs = _by_name(trace)
    assert set(jobs) == {"openb-pod-0000", "openb-pod-0001", "openb-pod-0002"}
    shared = jobs["openb-pod-0000"]
    assert shared.requests == {"cpu": "12", "memory": "16Gi", "volcano.sh/gpu-memory": "460"}
    assert (shared.submit_seconds, shared.run_seconds, shared.waited_seconds) == (50.0, 570.0, 30.0)
    assert jobs["openb-pod-0001"].requests["volcano.sh/gpu-number"] == "2"
    assert jobs["openb-pod-0001"].annotations == {"nvidia.com/use-gputype": "V100M16,V100M32"}
    assert jobs["openb-pod-0002"].requests == {"cpu": "500m", "memory": "1Gi"}
    (gpu_node, cpu_node) = trace.nodes
    assert gpu_node.resources["volcano.sh/gpu-memory"] == "2000"
    assert (gpu_node.labels, gpu_node.name) == ({"nvidia.com/gpu.product": "P100"}, "openb-node-0000")
    assert "volcano.sh/gpu-number" not in cpu_node.resources
    assert trace.reasons == {"odd cpu_milli": 1, "odd gpu_milli": 1, "odd deletion_time": 1}


def test_openb_list_without_times_arrives_in_its_order(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\nb,1000,1024,1,500\n"
    first, second = _read(tmp_path, pods__csv=text).jobs
    assert (first.submit_seconds, second.submit_seconds, second.run_seconds) == (0.0, 1.0, 1e7)


def test_philly_csv(tmp_path: Path) -> None:
    trace = _read(tmp_path, p__csv=samples.PHILLY)
    first, second = trace.jobs
    assert (first.queue, first.replicas, first.requests, first.run_seconds) == ("6214e9", 8, {GPU: "1"}, 2951.0)
    assert second.submit_seconds == 48 * 60 + 52
    assert trace.reasons == {"odd timestamp": 1, "odd line": 1}


def test_philly_json_with_its_machines(tmp_path: Path) -> None:
    machines = "machineId, number of GPUs, single GPU mem\nm31,8, 24GB\nm32,2, 12GB\n"
    trace = _read(tmp_path, cluster_job_log=samples.PHILLY_JSON, cluster_machine_list=machines)
    (job,) = trace.jobs
    assert (job.replicas, job.run_seconds, job.waited_seconds) == (2, 134.0, 30.0)
    assert (job.queue, job.user) == ("ee9e8c", "ce2f4c")
    assert [shape.resources[GPU] for shape in trace.nodes] == ["8", "2"]
    assert trace.reasons == {"never ran to an end (no attempt with start and end)": 2, "odd line": 1}


def test_chronus_deadlines(tmp_path: Path) -> None:
    trace = _read(tmp_path, c__csv=samples.CHRONUS)
    soft, strict, best = trace.jobs
    assert (strict.deadline_seconds, strict.submit_seconds) == (8555 - 832 + 1105, 8555 - 832)
    assert (soft.deadline_seconds, soft.requests) == (159.0, {"cpu": "1"})
    assert (best.deadline_seconds, best.replicas, best.application) == (None, 4, "alexnet")


def test_elasticflow_deadlines_are_moved_with_the_trace(tmp_path: Path) -> None:
    first, second = _read(tmp_path, e__csv=samples.ELASTICFLOW).jobs
    assert (first.deadline_seconds, second.deadline_seconds) == (771120.0, 2065519.0)


def test_helios_queues_differ_by_case_only(tmp_path: Path) -> None:
    capacity = "date,vchbv,vc4om,total\n2020-09-01,64,96,160\n2020-09-02,64,96,161\n"
    trace = _read(tmp_path, cluster_log__csv=samples.HELIOS, cluster_gpu_number__csv=capacity)
    one, two, three = trace.jobs
    assert (one.queue, two.queue, three.queue) == ("vcjkd", "vcjkd-2", "vcjkd")
    assert (two.replicas, two.requests, two.waited_seconds) == (2, {GPU: "8", "cpu": "16"}, 30.0)
    assert (three.replicas, three.requests) == (3, {GPU: "1", "cpu": "2"})
    assert [shape.count for shape in trace.nodes] == [21]
    assert trace.reasons == {"never ran (cancelled)": 1, "odd submit_time": 1}


def test_alibaba_2018_names_are_a_graph(tmp_path: Path) -> None:
    machines = "m_1,0,1,2,96,100,USING\nm_1,9,1,2,96,100,USING\nm_2,0,1,2,96,50,USING\n"
    trace = _read(tmp_path, batch_task__csv=samples.ALIBABA_2018, machine_meta__csv=machines)
    jobs = _by_name(trace)
    assert jobs["j-1-1"].after == ()
    assert jobs["j-1-2"].after == ("j-1-1",)
    assert jobs["j-1-3"].after == ("j-1-1", "j-1-2")
    assert {job.submit_seconds for name, job in jobs.items() if name.startswith("j-1")} == {0.0}
    assert (jobs["j-1-2"].requests["cpu"], jobs["j-1-2"].members, jobs["j-1-2"].run_seconds) == ("500m", 1, 40.0)
    assert [shape.resources["memory"] for shape in trace.nodes] == ["512Gi", "256Gi"]
    assert trace.reasons == {"did not run to its end within the trace": 2, "odd line": 1, "odd inst_num": 1}


def test_cloudsimpy_sample(tmp_path: Path) -> None:
    trace = _read(tmp_path, jobs__csv=samples.CLOUDSIMPY)
    jobs = _by_name(trace)
    assert jobs["job-1-2"].after == ("job-1-1",)
    assert (jobs["job-1-1"].replicas, jobs["job-1-1"].members, jobs["job-1-1"].run_seconds) == (283, 1, 116.5)
    assert trace.reasons == {"odd memory": 1}


def test_pai_tables_are_joined(tmp_path: Path) -> None:
    trace = _read(
        tmp_path,
        pai_task_table__csv=samples.PAI_TASKS,
        pai_job_table__csv=samples.PAI_JOBS,
        m__csv=samples.PAI_MACHINES,
    )
    worker, half = trace.jobs
    assert half.requests == {"cpu": "6", "memory": "30000Mi", "volcano.sh/gpu-memory": "500"}
    assert (half.user, half.waited_seconds, half.run_seconds, half.application) == (
        "58540f191766",
        10.0,
        38.0,
        "tensorflow",
    )
    assert (worker.replicas, worker.requests["volcano.sh/gpu-number"], worker.waited_seconds) == (2, "2", None)
    assert [shape.labels for shape in trace.nodes] == [{"nvidia.com/gpu.product": "P100"}, {}]


def test_google_2011_tasks_of_a_second_are_one_job(tmp_path: Path) -> None:
    trace = _read(tmp_path, part__csv=samples.GOOGLE_2011, machine_events__csv=samples.GOOGLE_2011_MACHINES)
    early, late = trace.jobs
    assert (early.replicas, early.run_seconds, early.requests["cpu"], early.priority) == (1, 8.0, "8", 9)
    assert (late.replicas, late.members, late.run_seconds) == (2, 1, (3 + 6 + 13) / 2)
    assert [(shape.count, shape.resources["cpu"]) for shape in trace.nodes] == [(2, "32")]
    assert trace.reasons == {"ran before the trace began, or not to an end": 1, "odd event type": 1}


def test_google_2019_collections_give_users_and_order(tmp_path: Path) -> None:
    trace = _read(tmp_path, i__json=samples.GOOGLE_2019, c__csv=samples.GOOGLE_2019_COLLECTIONS)
    jobs = _by_name(trace)
    assert jobs["job-1"].requests == {"cpu": "16", "memory": "32Gi"}
    assert (jobs["job-1"].user, jobs["job-3"].user, jobs["job-3"].after) == ("alice", "bob", ("job-1",))
    assert (jobs["job-1"].run_seconds, jobs["job-3"].run_seconds) == (5.0, 5.0)
    assert trace.reasons["reservations (alloc instances)"] == 1
    assert {problem.where.partition(": ")[2] for problem in trace.problems} == {"line 8: type", "line 9"}


def test_azure_buckets_open_above(tmp_path: Path) -> None:
    trace = _read(tmp_path, vmtable__csv=samples.AZURE)
    second, first = trace.jobs
    assert (first.requests, first.run_seconds, first.user) == ({"cpu": "8", "memory": "32Gi"}, 1115400.0, "s1==")
    assert (second.requests["cpu"], second.requests["memory"], second.run_seconds) == ("30", "70Gi", 300.0)


def test_lisa_is_in_milliseconds(tmp_path: Path) -> None:
    first, second = _read(tmp_path, j__csv=samples.LISA).jobs
    assert (second.submit_seconds, second.run_seconds) == (29.5, 2.5)
    assert first.requests == {"cpu": "16", "memory": "100G"}


def test_gavel_needs_throughputs_for_its_steps(tmp_path: Path) -> None:
    path = _write(tmp_path, "x.trace", samples.GAVEL)
    with pytest.raises(UsageError, match=r"needs simulation_throughputs\.json"):
        read_trace(path)
    _write(tmp_path, "simulation_throughputs.json", samples.GAVEL_THROUGHPUTS)
    _write(tmp_path, "cluster_specs.json", '{"philly": ["36:0:10"]}')
    trace = read_trace(path)
    first, second = trace.jobs
    assert (first.run_seconds, first.application) == (100.0, "Transformer (batch size 128)")
    assert (second.run_seconds, second.submit_seconds, second.replicas) == (30.0, 79955.0, 2)
    assert [(shape.count, shape.labels["nvidia.com/gpu.product"]) for shape in trace.nodes] == [
        (36, "v100"),
        (10, "k80"),
    ]


def test_sacct_jobs_steps_and_arrays(tmp_path: Path) -> None:
    trace = _read(tmp_path, sacct__txt=samples.SACCT)
    jobs = _by_name(trace)
    wide, one = jobs["job-101"], jobs["job-102-4"]
    assert (wide.replicas, wide.requests) == (2, {GPU: "4", "cpu": "32", "memory": "128Gi"})
    assert (wide.estimate_seconds, wide.waited_seconds, wide.queue, wide.user) == (86400.0, 60.0, "gpu", "alice")
    assert (one.requests, one.estimate_seconds) == ({"cpu": "2", "memory": "8000Mi"}, None)
    assert trace.reasons == {
        "steps of jobs": 1,
        "had not ended (pending)": 1,
        "never ran (cancelled)": 1,
        "odd Elapsed": 1,
    }


@pytest.mark.parametrize(("by", "queue"), [("user", "alice"), ("group", "ml"), ("queue", "gpu"), ("", "gpu")])
def test_queues_are_made_of_what_is_asked_for(tmp_path: Path, by: str, queue: str) -> None:
    path = _write(tmp_path, "s.txt", samples.SACCT)
    assert _by_name(read_trace(path, queue_by=by))["job-101"].queue == queue
    with pytest.raises(UsageError, match="cannot be made by 'group'; choose queue"):
        read_trace(_write(tmp_path, "p.csv", samples.PHILLY), queue_by="group")


def test_kubectl_dump(tmp_path: Path) -> None:
    trace = _read(tmp_path, dump__yaml=samples.KUBECTL)
    jobs = _by_name(trace)
    gang = jobs["train"]
    assert (gang.replicas, gang.members, gang.queue, gang.priority) == (2, 1, "research", 7)
    assert (gang.run_seconds, gang.waited_seconds, gang.requests) == (600.0, 60.0, {"cpu": "500m", GPU: "1"})
    assert (jobs["mpi"].run_seconds, jobs["mpi"].requests, jobs["mpi-1"].replicas) == (90.0, {"cpu": "1"}, 2)
    assert (jobs["etl"].replicas, jobs["etl"].members, jobs["etl"].run_seconds) == (3, 1, 60.0)
    (node,) = trace.nodes
    assert (node.name, node.labels, node.resources[GPU]) == ("n1", {"zone": "a"}, "4")
    assert trace.reasons == {"had not ended": 1, "objects of kind Service": 1, "odd line": 1}


def test_mapping_of_any_csv(tmp_path: Path) -> None:
    _write(tmp_path, "data.csv", samples.MAPPED)
    trace = read_trace(_write(tmp_path, "m.yaml", samples.MAPPING))
    first, last = trace.jobs
    assert (first.run_seconds, first.requests) == (2.0, {"cpu": "2", "memory": "1610612736"})
    assert (last.submit_seconds, last.run_seconds) == (10.0, 2.5)
    assert trace.reasons == {"left out by a filter": 2, "odd mem": 1, "odd run_time": 1}


def test_mapping_is_checked_as_a_whole(tmp_path: Path) -> None:
    text = """kind: TraceMapping
columns: {submit: {column: a, unit: years}, colour: x, memory: {value: 1, column: b}, cpu: 5}
filters: [{column: a, min: low}, 7]
delimiter: ";;"
"""
    with pytest.raises(InvalidInput) as raised:
        read_trace(_write(tmp_path, "m.yaml", text))
    assert {problem.where.partition(": ")[2] for problem in raised.value.problems} == {
        "columns.colour",
        "columns.submit.unit",
        "columns.memory",
        "columns.cpu",
        "columns.run_time",
        "files",
        "filters[0].min",
        "filters[1]",
        "filters[1].column",
        "delimiter",
    }
    _write(tmp_path, "data.csv", "a,b\n1,2\n")
    wrong = samples.MAPPING.replace('delimiter: ";"\n', "")
    with pytest.raises(InvalidInput, match="has no column 'when'"):
        read_trace(_write(tmp_path, "m.yaml", wrong))


def test_circle_of_jobs_is_named_and_broken(tmp_path: Path) -> None:
    text = "name,submit,run_time,after\na,0,1,b\nb,0,1,a\nc,0,1,b\nd,0,1,\n"
    trace = _read(tmp_path, j__csv=text)
    assert [job.after for job in trace.jobs] == [(), (), (), ()]
    assert {problem.where for problem in trace.problems} == {"jobs: a", "jobs: b", "jobs: c"}
