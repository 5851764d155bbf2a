"""Files that are too deep, or whose numbers are too long: each command that reads one says so without a traceback."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from strato.cli.inputs import InputFile
from strato.cli.main import cli, main
from strato.cli.run import components, webhook  # noqa: F401 - first, before another test's client is in their place
from tests.cli.test_exit_status import leaves

_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: "
_JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: "
_DEEP, _LONG = "[" * 3000 + "]" * 3000, "9" * 5000
_CONFIGURATION = (
    'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: '
)

FILES = {
    "lists in YAML": f"a: {_DEEP}\n",
    "maps in YAML": "".join(f"{' ' * level}a:\n" for level in range(3000)),
    "maps in JSON": '{"a":' * 3000 + "1" + "}" * 3000,
    "a pod's lists": _POD + _DEEP,
    "a job's lists": _JOB + _DEEP,
    "a configuration's lists": _CONFIGURATION + _DEEP,
    "a list of lists of definitions": f'{{"apiVersion": "v1", "kind": "Config", "clusters": {_DEEP}}}',
    "an integer in YAML": f"a: {_LONG}\n",
    "an integer in JSON": f'{{"a": {_LONG}}}',
    "an integer as key": f"? {_LONG}\n: 1\n",
    "a float": f"a: 1e{_LONG}\n",
    "a pod's integer": f"{_POD}{{containers: [{{name: a, image: b}}], priority: {_LONG}}}\n",
    "a job's integer": f"{_JOB}{{minAvailable: {_LONG}, tasks: []}}\n",
    "a configuration's integer": _CONFIGURATION + _LONG,
}

_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
)
FILES["aliases of aliases"] = _BOMB
FILES["merge keys of merge keys"] = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{level}: &a{level} {{p: *a{level - 1}, q: *a{level - 1}, <<: [*a{level - 1}, *a{level - 1}]}}\n"
    for level in range(1, 24)
)
FILES["a pod of aliases"] = _BOMB + _POD + "{containers: *a9}\n"

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: b}]}\n"

COMMANDS = [
    "schedule -f FILE",
    "schedule -f POD --config FILE",
    "explain pod/x -f FILE",
    "explain pod/x -f POD --config FILE",
    "config check FILE",
    "sim run FILE",
    "sim run TRACE --queues FILE",
    "sim run TRACE --config FILE",
    "flow solve FILE",
    "job run -f FILE",
    "jobflow create -f FILE",
    "jobtemplate create -f FILE",
    "install --dry-run -f FILE",
    "image import x FILE",
    "restore FILE",
    "explain pod/x --log FILE",
    "queue tree -f FILE",
    "queue tree -f POD --config FILE",
    "when job/x -f FILE",
    "when pod/x -f POD --config FILE",
    "what-if -f FILE",
    "what-if -f POD --config FILE",
    "what-if -f POD --policy FILE",
    "what-if -f POD --submit FILE",
    "what-if --log FILE",
    "submit FILE",
    "slurm sbatch FILE",
    "report --store FILE",
    "advise --store FILE",
    "flow simulate FILE",
    "sim run TRACE --policy FILE",
    "sim sweep FILE --over nodes.count=1",
    "sim traces FILE",
    "sim load FILE",
    "sim record -o LOG --config FILE",
    "sim replay FILE",
    "sim replay LOG --policy FILE",
    "sim utilisation FILE",
    "yarn check FILE",
    "yarn import FILE",
    "jobflow delete -f FILE",
    "jobtemplate delete -f FILE",
    "image push FILE x/y:z",
    "run mesos --kubeconfig POD --credentials FILE",
    "run node --kubeconfig POD --stages FILE",
    "--kubeconfig FILE job list",
    "--kubeconfig FILE status",
    "run apiserver --port 0 --encryption-key-file FILE",
    "run apiserver --port 0 --audit-policy-file FILE --audit-log-path -",
    "run scheduler --kubeconfig FILE",
    "run webhook --kubeconfig FILE",
]


def test_every_command_that_reads_a_file_is_in_the_table() -> None:
    tried = [command.partition("FILE")[0].split() for command in COMMANDS]
    for words, command in leaves(cli, (), click.Context(cli, info_name="strato")):
        for parameter in command.params:
            if isinstance(parameter.type, InputFile):
                options = set(parameter.opts) if isinstance(parameter, click.Option) else {words[-1]}
                assert any(tuple(given[: len(words)]) == words and options & set(given) for given in tried), (
                    f"{' '.join(words)} {parameter.opts}"
                )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_file_is_refused_in_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("STRATO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    places = {
        "POD": tmp_path / "pod.yaml",
        "TRACE": tmp_path / "trace.csv",
        "LOG": tmp_path / "log",
        "FILE": tmp_path / "file",
    }
    places["POD"].write_text(POD)
    places["TRACE"].write_text("submit,run_time\n0,1\n")
    for what, text in FILES.items():
        places["FILE"].write_text(text)
        places["FILE"].chmod(0o600)
        with pytest.raises(SystemExit) as ended:
            main([str(places.get(word, word)) for word in command.split()])
        out, err = capfd.readouterr()
        assert ended.value.code in (0, 1, 2), what
        assert "Traceback" not in out + err, f"{what}: {err[-500:]}"
        assert "recursion" not in err, what
        assert max(map(len, (out + err).splitlines()), default=0) < 2500, what
        if ended.value.code:
            assert out + err, what
