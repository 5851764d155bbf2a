"""Doors through which files of others come in: for each a few samples and what reads them, as its command does."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strato import kernelstats
from strato.agent.containers import read_annotation
from strato.agent.koordinator.cpusets import parse_cpus
from strato.agent.policy import read_policy
from strato.agent.registry import HandlerRegistry
from strato.agent.sampling import groupfiles, weights
from strato.agent.sampling.layouts import ControlGroup, SandboxLayout
from strato.agent.volcano.config import read_colocation
from strato.api import yamltext
from strato.cli.main import main
from strato.client import kubeconfig
from strato.errors import StratoError
from strato.interop.mesos import resourcetext
from strato.interop.mesos.resourcejson import from_json
from strato.interop.yarn import capacityimport, fairimport, importing, placing
from strato.node.hollow.commandlines import run_of
from strato.node.hollow.distributions import parse_distribution
from strato.node.hollow.failures import parse_failure
from strato.node.hollow.stages import read_stages
from strato.node.hollow.stages.functions import KNOWN
from strato.node.hollow.stages.gotemplate import TemplateFailed
from strato.node.hollow.stages.lifecycle import delay_seconds, next_stage, patch_of
from strato.node.images import credentials, documents
from strato.node.images.rootwriter import BadImage
from strato.node.sandbox import seccomp
from strato.node.sandbox.staticpods import read_static_pod
from strato.node.shapes import parse_nodes
from strato.server import encryption
from strato.server.audit import policy as auditpolicy
from strato.sim.experiments.file import read_experiment
from strato.sim.load.experiment import read_test
from strato.sim.models.reading import read_models
from strato.sim.traces import ReadOptions, read_files
from strato.sim.traces.describe import describe, to_table
from strato.sim.utilisation.options import read_experiment as read_utilisation
from strato.sim.utilisation.usetraces import parse_use_trace
from strato.sim.workloads.spec import is_model, make
from tests.attack import filesamples
from tests.sim.traces.samples import GAVEL_THROUGHPUTS, MAPPED, SAMPLES

Files = Mapping[str, bytes]
"""Content by name; the first is the one that is damaged."""
EXAMPLES: Final = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Door:
    """One way in.

    Attributes:
        name: As findings call it.
        samples: What it reads when nothing is wrong.
        read: Reads the damaged file; its folder holds the others. Raises a `StratoError` for what it refuses.
        allowed: Errors that its caller expects beside `StratoError`.
        is_slow: It runs a command or decides something; it gets a fifth of the cases that others get.
    """

    name: str
    samples: Sequence[Files]
    read: Callable[[Path, random.Random], None]
    allowed: tuple[type[Exception], ...] = ()
    is_slow: bool = False


class Misbehaved(Exception):
    """A command printed a traceback, or ended with a status that it does not have."""


def command(*words: str) -> None:
    """Run a command of ours in this process."""
    printed = io.BytesIO()
    out = io.TextIOWrapper(printed, "utf-8", "backslashreplace", write_through=True)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(words)
    except SystemExit as ended:
        if ended.code not in (0, 1, 2):
            raise Misbehaved(f"strato {' '.join(words)} ended with {ended.code}") from None
    if b"Traceback" in printed.getvalue():
        raise Misbehaved(f"strato {' '.join(words)} printed {printed.getvalue()[-600:]!r}")


def _texts(*texts: str, name: str = "file") -> list[Files]:
    return [{name: text.encode()} for text in texts]


def _example(*names: str) -> list[Files]:
    return [{Path(name).name: (EXAMPLES / name).read_bytes()} for name in names]


# -- traces ------------------------------------------------------------------------------------------------------------

_BESIDE: Final[Files] = {
    "file.csv": b"submit,run_time\n0,1\n",
    "simulation_throughputs.json": GAVEL_THROUGHPUTS.encode(),
    "data.csv": MAPPED.encode(),
}


def _traces() -> list[Files]:
    return [{sample.name: sample.text.encode(), **_BESIDE} for sample in SAMPLES]


def _compressed_traces() -> list[Files]:
    found: list[Files] = [
        {f"{sample.name}.gz": gzip.compress(sample.text.encode(), 1), **_BESIDE} for sample in SAMPLES
    ]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for sample in SAMPLES[2:4]:
            member = tarfile.TarInfo(f"folder/{sample.name}")
            member.size = len(sample.text.encode())
            tar.addfile(member, io.BytesIO(sample.text.encode()))
    found.append({"traces.tar.gz": archive.getvalue()})
    return found


def _parquet_traces() -> list[Files]:
    import pyarrow
    from pyarrow import parquet

    found: list[Files] = []
    rows = {"submit": [0.0, 10.0, 20.5], "run_time": [60, 70, 80], "name": ["a", None, "c"], "cpu": ["1", "2", "x"]}
    for codec in ("none", "gzip", "snappy"):
        buffer = io.BytesIO()
        parquet.write_table(pyarrow.table(rows), buffer, compression=codec)
        found.append({"jobs.parquet": buffer.getvalue()})
    return found


def _read_trace(path: Path, rng: random.Random) -> None:
    formats = [sample.format for sample in SAMPLES if path.name.startswith(sample.name)]
    options = ReadOptions(
        format=rng.choice(formats) if formats and rng.random() < 0.5 else "",
        strict=rng.random() < 0.3,
        queue_by=rng.choice(("", "", "", "", "", "", "user", "queue")),
        limit=rng.choice((0, 0, 0, 2)),
    )
    trace = read_files([path], options)
    if trace.jobs:
        to_table(describe(trace, path.name, ()))


def _run_trace_commands(path: Path, rng: random.Random) -> None:
    more = rng.choice(
        (("-o", "json"), ("--head", "5"), ("--strict",), ("--write", str(path.parent / "out.csv.gz")), ())
    )
    command("sim", "traces", str(path), *more)


# -- documents of experiments ------------------------------------------------------------------------------------------


def _read_models(path: Path, rng: random.Random) -> None:
    try:
        document = yamltext.load(path.read_bytes())
    except yamltext.InvalidYaml:  # named by whoever reads the file
        return
    if path.name == "throughputs.json":
        document = {"gpuSpeed": {"throughputs": path.name, "recordedOn": "v100"}}
    if isinstance(document, dict):
        read_models(document, path.parent)


def _read_specs(path: Path, rng: random.Random) -> None:
    """One line is one text of a command line: shapes, distributions, failures, workload models, sizes, durations."""
    for line in path.read_text("utf-8", "replace").splitlines()[:40]:
        for read in (parse_nodes, parse_distribution, parse_failure):
            with contextlib.suppress(ValueError, StratoError):
                read(line)
        with contextlib.suppress(StratoError):
            if is_model(line) and line.startswith("lublin:"):
                make(line, lambda _: read_files([path], ReadOptions()))
        run_of(line.split())


# -- logs --------------------------------------------------------------------------------------------------------------


def _log_samples() -> list[Files]:
    """Record a short story, and write its frames anew where a sample is to be damaged within them."""
    import tempfile

    from tests.sim.recording.recordings import record

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        record(log, _short_story, snapshot_bytes=2000, file_bytes=8000)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return [files, {"plain": b"".join(files[name] for name in sorted(files))}]


async def _short_story(h: Any) -> None:
    from strato.testing.manifests import vcjob

    for number in range(4):
        await h.apply(vcjob(f"j-{number}", queue="a", min_available=2).task("worker", 2, cpu="1", run_seconds=20))
        await h.clock.sleep(5.0)
    await h.clock.sleep(60.0)


def resealed(data: bytes, damage: Callable[[bytes], bytes]) -> bytes:
    """Return a log whose frames are damaged inside, with checksums that are right again."""
    import struct

    from strato.sim.recording import compression
    from strato.sim.recording.frames import MAGIC, to_frame

    head, at, made = struct.Struct(">2sBBIIdII"), len(MAGIC), [MAGIC]
    while at + head.size <= len(data):
        mark, method, flags, packed, size, instant, _, _ = head.unpack_from(data, at)
        body = data[at + head.size : at + head.size + packed]
        if mark != b"SF" or len(body) < packed:
            break
        made.append(to_frame(damage(compression.decompress(method, body, size)), instant, flags))
        at += head.size + packed
    return b"".join(made)


def _replay(path: Path, rng: random.Random) -> None:
    from strato.sim.recording.log import open_log
    from strato.sim.recording.state import state_at

    way = rng.random()
    if way < 0.5:
        log = open_log(path)
        state = state_at(log, log.end)
        state.manifests()
    elif way < 0.75:
        command("sim", "replay", str(path), "-o", rng.choice(("json", "table")))
    else:
        command("sim", "replay", str(path), "--at", rng.choice(("+10s", "+1h")), "-o", str(path.parent / "out"))


# -- YARN --------------------------------------------------------------------------------------------------------------


def _capacity() -> bytes:
    rows = "\n".join(
        f"<property><name>yarn.scheduler.capacity.{name}</name><value>{value}</value></property>"
        for name, value in filesamples.CAPACITY.items()
    )
    return f"<configuration><property><name>factor</name><value>2</value></property>{rows}</configuration>".encode()


def _import_yarn(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.1:
        command("yarn", rng.choice(("check", "import")), str(path), "-d", str(path.parent))
        return
    sources = importing.sorted_sources([path])
    kind = fairimport if sources.root.name == "allocations" else capacityimport
    kind.imported(sources, importing.ImportOptions())


def _place_yarn(path: Path, rng: random.Random) -> None:
    found = placing.read(path)
    queues = [{"metadata": {"name": name}} for name in ("prod", "adhoc", "root", "default")]
    submission = placing.SubmittedWork(queue=rng.choice(("", "prod", "x")), user="ada", groups=("staff",), name="n")
    with contextlib.suppress(placing.NotPlaced):
        found.place(submission, queues)


# -- stages ------------------------------------------------------------------------------------------------------------


def _play_stages(path: Path, rng: random.Random) -> None:
    stages = read_stages([path])
    pod = json.loads(json.dumps(filesamples.STAGED_POD))
    for name in ("weight", "run"):
        pod["metadata"]["annotations"][name] = rng.choice(filesamples.STAGE_TEXTS)
    next_stage(stages, pod, rng)
    for stage in stages:
        delay_seconds(stage, pod, 1.7e9, rng)
        for step in stage.steps:
            if step.template is not None:
                with contextlib.suppress(TemplateFailed):
                    patch_of(step, pod, KNOWN)


# -- agent and node ----------------------------------------------------------------------------------------------------


def _group_samples() -> list[Files]:
    names = list(filesamples.GROUP_FILES)
    return [
        {first: b"", **{name: filesamples.GROUP_FILES[name].encode() for name in (first, *names)}} for first in names
    ]


def _read_group(path: Path, rng: random.Random) -> None:
    folder = str(path.parent)
    group = ControlGroup(folder, folder, folder, is_unified=rng.random() < 0.7, network=folder)
    for read in (groupfiles.read_cpu, groupfiles.read_quota, groupfiles.read_holdings):
        with contextlib.suppress(OSError, ValueError):
            read(group)
    weights.read_weight(group)
    weights.gives_way(group)


def _read_proc(path: Path, rng: random.Random) -> None:
    folder = path.parent if path.name != "dev" else path.parent.parent
    for read in (kernelstats.busy_seconds, kernelstats.memory, kernelstats.traffic):
        with contextlib.suppress(OSError, ValueError, KeyError, OverflowError):
            read(str(folder))


def _read_node_texts(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    text = data.decode("utf-8", "replace")
    read_annotation({"strato.dev/suppressed": text})
    SandboxLayout(str(path)).pod("uid", "Burstable")
    with contextlib.suppress(ValueError):
        kernelstats.pressure(text)
    with contextlib.suppress(ValueError):
        parse_cpus(text)


def _read_image_documents(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    with contextlib.suppress(credentials.BadCredentials):
        credentials.parse_config(data, "file", is_old=rng.random() < 0.3)
    document = documents.parse(data, "document")
    for read in (documents.suiting, documents.manifest_of, lambda one: documents.config_of(one, 1)):
        with contextlib.suppress(BadImage):
            read(document)


def _read_mesos_json(path: Path, rng: random.Random) -> None:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    from_json(found)


def _read_seccomp(path: Path, rng: random.Random) -> None:
    seccomp.from_profile(documents.parse(path.read_bytes(), "profile"))


# -- others ------------------------------------------------------------------------------------------------------------


def _private(read: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    """Return a reader of a file that only its owner may read."""

    def reading(path: Path, rng: random.Random) -> None:
        path.chmod(0o600)
        read(path)

    return reading


def _plainly(read: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def reading(path: Path, rng: random.Random) -> None:
        read(path)

    return reading


def _text(read: Callable[[str], object]) -> Callable[[Path, random.Random], None]:
    def reading(path: Path, rng: random.Random) -> None:
        read(path.read_text("utf-8", "replace"))

    return reading


def _schedule(path: Path, rng: random.Random) -> None:
    what = rng.choice((("schedule",), ("explain", "pod/p"), ("explain", "job/j")))
    command(*what, "-f", str(path))


def _submit(path: Path, rng: random.Random) -> None:
    command("submit", "--dry-run=client", str(path), *rng.choice(((), ("--array=0-3",), ("--wrap", "x"))))


def doors() -> list[Door]:
    """Return all of them."""
    return [
        Door("traces", _traces(), _read_trace),
        Door("compressed traces", _compressed_traces(), _read_trace),
        Door("Parquet traces", _parquet_traces(), _read_trace),
        Door("sim traces", [*_traces(), *_compressed_traces()], _run_trace_commands, is_slow=True),
        Door(
            "experiments",
            [{"file": filesamples.EXPERIMENT.encode(), "file.csv": b"submit,run_time\n0,1\n"}],
            _plainly(read_experiment),
        ),
        Door("load tests", _example("load-test.yaml"), _plainly(read_test)),
        Door("utilisation experiments", _example("utilisation/small.yaml"), _plainly(read_utilisation)),
        Door(
            "models",
            [
                *_texts(filesamples.MODELS),
                {"file": filesamples.MODELS_OF_FILES.encode(), "throughputs.json": GAVEL_THROUGHPUTS.encode()},
                {"throughputs.json": GAVEL_THROUGHPUTS.encode()},
            ],
            _read_models,
        ),
        Door("use traces", _texts(filesamples.USE_TRACE), _text(parse_use_trace)),
        Door("texts of options", _texts(*filesamples.SPECS), _read_specs),
        Door("recorded logs", _log_samples(), _replay, is_slow=True),
        Door("YARN imports", [{"file.xml": filesamples.FAIR.encode()}, {"file.xml": _capacity()}], _import_yarn),
        Door("YARN placement", [{"file.xml": filesamples.FAIR.encode()}, {"file.xml": _capacity()}], _place_yarn),
        Door("stages", _texts(filesamples.STAGES), _play_stages),
        Door(
            "policies of the agent",
            _texts(filesamples.POLICY),
            _text(lambda text: read_policy(text, {"pool": "gpu"}, HandlerRegistry())),
        ),
        Door("colocation", _texts(filesamples.COLOCATION), _text(lambda text: read_colocation(text, {"a": "b"}))),
        Door("control groups", _group_samples(), _read_group),
        Door("files of /proc", [{"stat": b"", **_proc("stat")}, _proc("meminfo"), _proc("net/dev")], _read_proc),
        Door(
            "notes of the node",
            _texts('{"a": {"id": "x", "from": "max", "to": 5}}', '{"unified": "/x"}', "0-3,7"),
            _read_node_texts,
        ),
        Door(
            "static pods",
            _texts(filesamples.STATIC_POD),
            lambda path, rng: (read_static_pod(path.read_bytes(), "n"), None)[1],
        ),
        Door("image documents", _texts(filesamples.IMAGE), _read_image_documents, allowed=(BadImage,)),
        Door(
            "seccomp profiles", _texts(filesamples.SECCOMP), _read_seccomp, allowed=(BadImage, seccomp.ProfileProblem)
        ),
        Door("kubeconfigs", _texts(filesamples.KUBECONFIG), _plainly(lambda path: kubeconfig.load([path]))),
        Door(
            "encryption keys",
            _texts(filesamples.ENCRYPTION, "a: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            _private(encryption.load_encryption),
        ),
        Door("audit policies", _texts(filesamples.AUDIT), _plainly(auditpolicy.load)),
        Door("Mesos resources", _texts(*filesamples.MESOS), _text(resourcetext.parse), allowed=(ValueError,)),
        Door("Mesos resources in JSON", _texts(filesamples.MESOS_JSON), _read_mesos_json),
        Door(
            "scheduler configurations",
            _texts(filesamples.PLUGINS),
            _plainly(lambda path: command("config", "check", str(path))),
            is_slow=True,
        ),
        Door("manifests", _texts(filesamples.MANIFESTS, name="file.yaml"), _schedule, is_slow=True),
        Door("batch scripts", _texts(filesamples.SCRIPT), _submit, is_slow=True),
        Door(
            "flow problems",
            _texts(filesamples.DIMACS),
            _plainly(lambda path: command("flow", "solve", str(path))),
            is_slow=True,
        ),
    ]


def _proc(first: str) -> Files:
    return {name: filesamples.PROC_FILES[name].encode() for name in (first, *filesamples.PROC_FILES)}
