"""Fit a line with parameter servers: the same program is the chief, a server, a worker and the evaluator.

Workers compute gradients on data of their own and apply them to variables that lie on the servers; the chief hands out
the steps and saves the model to /model, from where the evaluator reads it.
"""

import json
import os
import pathlib
import sys
import time

import tensorflow as tf

STEPS, MODEL = int(sys.argv[1]), pathlib.Path("/model")
SLOPE, OFFSET = 3.0, -1.0
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
cluster = {role: hosts for role, hosts in config["cluster"].items() if role != "evaluator"}  # it takes no part


def lead() -> None:
    """Train, then wait for what the evaluator makes of the model."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        line = [tf.Variable(0.0), tf.Variable(0.0)]  # each on a server, in turns

    @tf.function
    def step():
        def descend():
            x = tf.random.uniform([64, 1], -1.0, 1.0)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((line[0] * x + line[1] - (SLOPE * x + OFFSET)) ** 2)
            for part, gradient in zip(line, tape.gradient(loss, line), strict=True):
                part.assign_sub(0.1 * gradient)
            return loss

        return strategy.run(descend)

    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    slope, offset = (float(part) for part in line)
    where = sorted({part.device.split("/task:")[1].split("/")[0] for part in line})
    (MODEL / "line.new").write_text(json.dumps([slope, offset]))
    (MODEL / "line.new").rename(MODEL / "line.json")
    print(f"y = {slope:.1f} x + {offset:.1f} after {STEPS} steps, on servers {', '.join(where)}", flush=True)
    wait_for(MODEL / "verdict")
    print((MODEL / "verdict").read_text(), flush=True)


def evaluate() -> None:
    """Judge the model that the chief has saved."""
    slope, offset = json.loads(wait_for(MODEL / "line.json").read_text())
    x = tf.random.uniform([1000], -1.0, 1.0)
    error = float(tf.reduce_max(tf.abs((slope * x + offset) - (SLOPE * x + OFFSET))))
    (MODEL / "verdict.new").write_text(f"worst error {error:.1f}")
    (MODEL / "verdict.new").rename(MODEL / "verdict")


def wait_for(path: pathlib.Path) -> pathlib.Path:
    while not path.exists():
        time.sleep(0.2)
    return path


if task["type"] == "chief":
    lead()
elif task["type"] == "evaluator":
    evaluate()
else:
    tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=task["type"], task_index=task["index"], protocol="grpc"
    ).join()
