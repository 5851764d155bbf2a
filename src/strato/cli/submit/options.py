"""sbatch's options: those supported, those that may be ignored, and those that must be refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click

_PLACE = "the scheduler chooses nodes by their resources; name them by labels in a manifest instead"
_TIME = "jobs start as soon as they may; use CronJobs for a time of day"
_PINNING = "containers get cpus by their cgroup"
_SITE = "this cluster has nothing like it"

REFUSED: Final = {
    "-C,--constraint": _PLACE,
    "-w,--nodelist": _PLACE,
    "-F,--nodefile": _PLACE,
    "-x,--exclude": _PLACE,
    "--exclusive?": "a pod has what it asks for, others may use the rest of its node; ask for all of a node",
    "-b,--begin": _TIME,
    "--deadline": _TIME,
    "-H,--hold!": "submit it later, or make it wait with --dependency",
    "--reservation": "reserve by a queue's guarantee",
    "-L,--licenses": _SITE,
    "-M,--clusters": "name a cluster with --context or --kubeconfig before submit",
    "-i,--input": "a container's standard input is empty; read a file instead",
    "--signal": "pods get SIGTERM at their end, and nothing before it",
    "--uid": "the image says who runs it, or a manifest's securityContext",
    "--gid": "the image says who runs it, or a manifest's securityContext",
    "--export-file": "name variables with --export or --env",
    "--bb": _SITE,
    "--bbf": _SITE,
    "--het-group": "write a manifest with several tasks",
    "--ntasks-per-gpu": "give --ntasks-per-node and --gpus-per-node",
    "--cpus-per-gpu": "give --cpus-per-task",
    "--gpus-per-socket": _PLACE,
    "--ntasks-per-socket": _PLACE,
    "--sockets-per-node": _PLACE,
    "-B,--extra-node-info": _PLACE,
    "--container": "give --image (or --container-image) NAME",
    "--container-mounts": "write a manifest with volumes",
}
"""Unsupported options that change what runs, where or when; ``!`` marks a switch, ``?`` an optional joined value."""

IGNORED: Final = {
    "-o,--output": "the cluster keeps what containers print: strato job logs NAME",
    "-e,--error": "the cluster keeps what containers print: strato job logs NAME",
    "--open-mode": "the cluster keeps what containers print",
    "--cpu-bind": _PINNING,
    "--mem-bind": _PINNING,
    "--hint": _PINNING,
    "-m,--distribution": _PINNING,
    "--ntasks-per-core": _PINNING,
    "--threads-per-core": _PINNING,
    "--cores-per-socket": _PINNING,
    "-S,--core-spec": _PINNING,
    "--thread-spec": _PINNING,
    "--gpu-bind": _PINNING,
    "--gpu-freq": _SITE,
    "--cpu-freq": _SITE,
    "--acctg-freq": _SITE,
    "--profile": _SITE,
    "--power": _SITE,
    "--switches": "give a network topology in a manifest",
    "--contiguous!": _SITE,
    "-O,--overcommit!": "requests are what --cpus-per-task says",
    "-s,--oversubscribe!": "pods share nodes anyway",
    "--spread-job!": "the scheduler's configuration says how jobs are spread",
    "--use-min-nodes!": "the scheduler's configuration says how jobs are spread",
    "-k,--no-kill?": "a pod whose node fails is replaced by policies only",
    "--kill-on-invalid-dep": "a job whose dependency cannot come true ends",
    "--nice?": "queues and --qos say who is first",
    "--propagate?": "limits are the container's",
    "--get-user-env?": "containers have the environment of their image; name variables with --export or --env",
    "--wait-all-nodes": "all pods of a gang start together",
    "--tmp": "containers have what their node has",
    "--mcs-label": _SITE,
    "--wckey": _SITE,
    "--extra": _SITE,
    "--prefer": _PLACE,
    "--delay-boot": _SITE,
    "--reboot!": _SITE,
    "--time-min": "the limit is --time",
    "--mincpus": "a pod has --cpus-per-task of each of its tasks",
    "-v,--verbose!": "there is no more to say",
    "--ignore-pbs!": "PBS lines are comments",
}
"""Options without influence on a job's result."""


class Foreign(NamedTuple):
    """An option of sbatch's that Strato does not support."""

    flag: str
    why: str
    refused: bool


def foreign_options() -> Iterator[tuple[click.Option, Foreign]]:
    """Return hidden options for all of sbatch's that Strato does not support."""
    for table, refused in ((REFUSED, True), (IGNORED, False)):
        for key, why in table.items():
            names = key.rstrip("!?").split(",")
            name = "foreign_" + names[-1].strip("-").replace("-", "_")
            settings: dict[str, object] = {"is_flag": True} if key.endswith("!") else {"default": None}
            if key.endswith("?"):
                settings = {"is_flag": False, "flag_value": "", "default": None}
            option = click.Option([*names, name], hidden=True, expose_value=False, **settings)  # type: ignore[arg-type]  # their types differ
            yield option, Foreign(names[-1], why, refused)


FOREIGN: Final[Sequence[tuple[click.Option, Foreign]]] = tuple(foreign_options())
