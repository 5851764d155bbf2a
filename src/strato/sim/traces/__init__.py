"""Reads traces of jobs (submission, width, run time, requests) in the formats in which their publishers ship them.

`read_trace` recognises the format of files by their content (`registry.FORMATS`; one file per format in `formats`) and
returns a `Trace`. A line that cannot be read is skipped, counted and reported with its number; in a strict reading it
is an error. The times of a trace are moved so that its first job is submitted at zero.
"""

from strato.node.shapes import GPU
from strato.sim.traces.formats.ours import parse_csv
from strato.sim.traces.formats.swf import parse_swf
from strato.sim.traces.input import trace_text
from strato.sim.traces.read import read_files, read_trace
from strato.sim.traces.reading import ReadOptions
from strato.sim.workloads.jobs import Trace, TraceJob

__all__ = [
    "GPU",
    "ReadOptions",
    "Trace",
    "TraceJob",
    "parse_csv",
    "parse_swf",
    "read_files",
    "read_trace",
    "trace_text",
]
