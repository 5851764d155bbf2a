from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from strato.errors import InvalidInput, UsageError
from strato.node.shapes import GPU, parse_nodes, total_capacity
from strato.sim.traces import parse_csv, parse_swf, read_trace

SWF = "1 10 5 100 4 -1 -1 4 200 -1 1 7 3 1 2 -1 -1 -1"


def test_csv_columns_may_be_named_and_ordered_freely() -> None:
    trace = parse_csv(
        "# a comment\nduration,Submit Time,extra,gpus,memory,queue,priority,id\n"
        "1h30m,20,x,2,1024Mi,team,5,My Job\n60,10,,,,,,\n",
        "t.csv",
    )
    late, early = trace.jobs[1], trace.jobs[0]
    assert (early.name, early.submit_seconds, early.requests) == ("job-2", 0.0, {"cpu": "1"})
    assert (late.name, late.submit_seconds, late.run_seconds) == ("my-job", 10.0, 5400.0)
    assert late.requests == {GPU: "2", "memory": "1Gi"}
    assert (late.queue, late.priority, late.replicas) == ("team", 5, 1)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("submit\n1\n", ["line 1: run_time"], id="a required column is missing"),
        pytest.param("", ["line 1: submit", "line 1: run_time"], id="empty file"),
        pytest.param("submit,run_time,duration\n", ["line 1: duration"], id="two columns say the same"),
        pytest.param(
            "submit,run_time,replicas,cpu\n1,-5,0,much\nx,,1.5,-1\n",
            [
                "line 2: cpu",
                "line 2: run_time",
                "line 2: replicas",
                "line 3: cpu",
                "line 3: submit",
                "line 3: run_time",
                "line 3: replicas",
            ],
            id="every cell is checked",
        ),
        pytest.param("submit,run_time\n1,2,3\n", ["line 2"], id="too many fields"),
        pytest.param("submit,run_time,queue\n1,2,Not_Valid\n", ["line 2: queue"], id="queue cannot be an object"),
        pytest.param("name,submit,run_time\na,1,2\nA,1,2\n", ["line 3: name"], id="one name twice"),
        pytest.param("submit,run_time\nnan,inf\n", ["line 2: submit", "line 2: run_time"], id="not finite"),
    ],
)  # fmt: skip -- one problem list a case
def test_every_problem_of_a_csv_is_listed_with_its_place(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_csv(text, "t.csv")
    assert [problem.where for problem in raised.value.problems] == [f"t.csv: {where}" for where in problems]


def test_problems_are_counted_beyond_a_hundred() -> None:
    with pytest.raises(InvalidInput, match="and 50 more problems"):
        parse_csv("submit,run_time\n" + "x,1\n" * 150, "t.csv")


def test_swf_job_is_a_gang_of_its_processors() -> None:
    trace = parse_swf(f"; header\n{SWF}\n2 15 0 -1 4 -1 -1 4 200 -1 5 7 3 1 2 -1 -1 -1\n", "t.swf", queue_by="user")
    (job,) = trace.jobs
    assert (job.name, job.submit_seconds, job.run_seconds, job.replicas) == ("job-1", 0.0, 100.0, 4)
    assert (job.requests, job.queue, job.estimate_seconds) == ({"cpu": "1"}, "user-7", 200.0)
    assert trace.skipped == 1


def test_swf_node_request_gives_the_shape_of_pods() -> None:
    (job,) = parse_swf(f"{SWF} {{n1,n2}} q_1d 2:ppn=2:x86\n", "t.swf").jobs
    assert (job.replicas, job.requests) == (2, {"cpu": "2"})


def test_swf_problems_name_line_and_field() -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_swf(f"{SWF}\n1 2 3\n{SWF.replace('100', 'soon')}\n{SWF}\n", "t.swf")
    assert [problem.where for problem in raised.value.problems] == [
        "t.swf: line 2",
        "t.swf: line 3: field 4 (run)",
        "t.swf: line 4: field 1 (job)",
    ]
    with pytest.raises(UsageError, match="choose group, queue, user"):
        parse_swf(SWF, "t.swf", queue_by="name")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"\x1f\x8bbroken", "gzip", id="broken gzip"),
        pytest.param(b"\xff\xfe\xfa", "not UTF-8", id="binary"),
        pytest.param(b"submit,run_time\n", "no job", id="header alone"),
    ],
)
def test_unreadable_trace_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_trace(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_trace_may_be_compressed_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress(f"{SWF}\n{SWF.replace('1 10', '2 20', 1)}\n".encode()))
    assert [job.name for job in read_trace(path, limit=1).jobs] == ["job-1"]


def test_node_shapes_are_read_with_defaults() -> None:
    shapes = parse_nodes("100x32cpu,256Gi + 2 x 64cpu,512Gi,8gpu,example.com/fpga=2")
    assert [(shape.count, shape.resources) for shape in shapes] == [
        (100, {"cpu": "32", "memory": "256Gi", "pods": "110"}),
        (2, {"cpu": "64", "memory": "512Gi", GPU: "8", "example.com/fpga": "2", "pods": "110"}),
    ]
    (overcommitted,) = parse_nodes("3x2cpu,overcommit=1.5")
    assert (overcommitted.cpu_overcommit_factor, overcommitted.resources["cpu"]) == (1.5, "2")
    assert total_capacity((overcommitted,))["cpu"] == 9000
    assert total_capacity(parse_nodes("3x2cpu")) == {"cpu": 6000, "memory": 3 * 8 * 2**30, "pods": 330}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("32cpu", id="no count"),
        pytest.param("0x32cpu", id="zero nodes"),
        pytest.param("2x32cores", id="unknown unit"),
        pytest.param("2x4cpu,8cpu", id="cpu twice"),
        pytest.param("2x4cpu,-1Gi", id="negative memory"),
        pytest.param("2x4cpu+", id="empty shape"),
        pytest.param("2x4cpu,overcommit=0.5", id="a factor below one"),
        pytest.param("2x4cpu,overcommit=x", id="a factor that is none"),
    ],
)
def test_bad_node_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_nodes(text)
