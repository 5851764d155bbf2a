"""What a first request would wait for is compiled before."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, random
from numba.core.dispatcher import Dispatcher
from strato.mincost.graph import FlowScheduler, warm_up
from strato.mincost.models import load
from strato.mincost.world import Machine, Task, Vector, FlowWorld

def compiled():
    return {d.__qualname__: len(d.signatures) for d in gc.get_objects() if isinstance(d, Dispatcher)}

warm_up()
before = compiled()
world = FlowWorld(preemption=True)
engine = FlowScheduler(world, load("cpu")(world, random.Random(1)), check_vectors=True)
engine.round(0.0)
for i in range(40):
    engine.add_machine(Machine(f"m{i}", slots=4, capacity=Vector(cpu=4000, ram=4000)))
for now in range(3):
    for i in range(100):
        engine.submit(Task(100 * now + i, f"job-{i % 7}", request=Vector(cpu=500 + i, ram=100)), float(now))
    engine.round(float(now))
lonely = FlowWorld()
small = FlowScheduler(lonely, load("trivial")(lonely, random.Random(1)))
small.round(0.0)
small.submit(Task(1, "job"), 1.0)
small.round(1.0)
small.add_machine(Machine("only", slots=1))
small.round(2.0)
engine.remove_machine("m3")
engine.round(4.0)
assert before and compiled() == before, {k: v for k, v in compiled().items() if before.get(k) != v}
"""


def test_rounds_after_the_warm_up_compile_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
