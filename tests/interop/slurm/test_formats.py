"""Tables to the byte, as scripts cut them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.slurm.formats import (
    Column,
    accounting_columns,
    accounting_table,
    long_columns,
    short_columns,
    table,
)
from strato.interop.slurm.jobs import SACCT_FIELDS, SACCT_SHORT, SQUEUE_FIELDS, SQUEUE_SHORT

JOB = {
    "jobid": "train-x2k9p",
    "partition": "research-gpus",
    "name": "train",
    "username": "ann",
    "statecompact": "R",
    "timeused": "1:02:03",
    "numnodes": "2",
    "reasonlist": "node-[0-1]",
    "state": "RUNNING",
    "account": "",
    "numcpus": "8",
    "exitcode": "0:0",
}


def test_squeue_as_it_is_without_options() -> None:
    assert table(short_columns(SQUEUE_SHORT, SQUEUE_FIELDS), [JOB], header=True) == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "       train-x2k9p research-    train      ann  R    1:02:03      2 node-[0-1]",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%i", "train-x2k9p"),
        ("%i|%T|%u", "train-x2k9p|RUNNING|ann"),
        ("%.5j|%5u|", "train|ann  |"),
        ("%.3i", "tra"),
        ("100%% %D", "100% 2"),
        ("", ""),
    ],
)
def test_short_formats(text: str, line: str) -> None:
    assert table(short_columns(text, SQUEUE_FIELDS), [JOB], header=False) == [line]


def test_long_formats() -> None:
    columns = long_columns("JobID:6,State,NumNodes:.4", SQUEUE_FIELDS)
    assert table(columns, [JOB], header=True) == [f"JOBID {'STATE':20}NODE", f"train-{'RUNNING':20}   2"]


def test_sacct_as_it_is_without_options() -> None:
    lines = accounting_table(accounting_columns(SACCT_SHORT, SACCT_FIELDS), [JOB], header=True)
    assert lines == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "train-x2k9p       train research-+                     8    RUNNING      0:0 ",
    ]


def test_sacct_for_scripts() -> None:
    columns = accounting_columns("jobid,State%-9,ExitCode", SACCT_FIELDS)
    assert accounting_table(columns, [JOB], header=False, delimiter="|") == ["train-x2k9p|RUNNING|0:0"]
    assert accounting_table(columns, [JOB], header=True, delimiter=";", closed=True) == [
        "JobID;State;ExitCode;",
        "train-x2k9p;RUNNING;0:0;",
    ]
    assert accounting_table(columns, [JOB], header=False) == ["train-x2k9p  RUNNING        0:0 "]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (short_columns, "%i %y", "%y is not known; known are %i"),
        (long_columns, "JobID,Nonsense", "'Nonsense' is not known"),
        (long_columns, "JobID:wide", "'wide' is no width"),
    ],
)
def test_what_is_not_known_is_refused(read: object, text: str, message: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=message):
        read(text, SQUEUE_FIELDS)


def test_columns_of_sacct_that_are_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match="'Speed' is not known; known are JobID"):
        accounting_columns("Speed", SACCT_FIELDS)
    with pytest.raises(ValueError, match="'x' is no width"):
        accounting_columns("JobID%x", SACCT_FIELDS)


@given(st.text(max_size=30), st.integers(1, 40), st.booleans())
def test_a_cell_is_as_wide_as_its_column(text: str, width: int, right: bool) -> None:
    assert len(Column("x", "X", width, right).cell(text)) == width


@given(st.text(max_size=60))
def test_any_format_is_read_or_refused(text: str) -> None:
    try:
        columns = short_columns(text, SQUEUE_FIELDS)
    except ValueError:
        return
    assert len(table(columns, [JOB], header=True)) == 2
