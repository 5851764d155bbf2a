"""Fine-tuning with torchtune: the recipe that a TrainJob runs, and its validation (spec training K). Pure.

In a TrainJob whose command is ``tune run``, the runtime's name determines the model (``torchtune-llama3.2-1b``) and the
arguments determine the method. Recipe and configuration follow from these, the number of nodes and their devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strato.api.meta import Json
from strato.api.quantity import value
from strato.api.status import invalid_value
from strato.errors import Cause

ENTRYPOINT: Final = ("tune", "run")
AUTO: Final = "auto"
"""Number of processes: as many as a node has devices."""
_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN = "llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B"
MODELS: Final = (_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN)
OF_THE_RUNTIME: Final = ("checkpointer.checkpoint_dir", "output_dir", "tokenizer.merges_file", "tokenizer.path")
"""Settings that only a runtime sets, in the command of its node."""
_LORA, _QUANTIZED, _DORA = "model.lora_attn_modules", "model.quantize_base", "model.use_dora"
_QLORA: Final = "_qlora"


def is_tuning(command: Sequence[str] | None) -> bool:
    """Return whether a job's command is ``tune run``, so that the runtime determines what is run."""
    return tuple(command or ()) == ENTRYPOINT


def gpus_of(resources: Mapping[str, Any]) -> int:
    """Return how many GPUs a node has, by its limits or else its requests."""
    for member in ("limits", "requests"):
        amounts = resources.get(member) or {}
        count = sum(value(amount) for name, amount in amounts.items() if "gpu" in name.lower())
        if count:
            return count
    return 0


def settings_of(command: Sequence[str]) -> list[str]:
    """Return the settings in the command of a runtime's node."""
    return [word for word in command if word.partition("=")[0] in OF_THE_RUNTIME]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """One fine-tuning run."""

    runtime: str
    """Name of the runtime, which names the model."""
    nodes: int
    processes: str
    """Processes per node: a number, or ``auto``."""
    gpus: int
    """GPUs per node."""
    args: Sequence[str] = ()

    @property
    def model(self) -> str:
        """The model's name in torchtune; empty if the runtime's name does not have three parts."""
        parts = self.runtime.split("-")
        return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""

    @property
    def is_on_one_device(self) -> bool:
        """Whether there is only one process."""
        return self.nodes == 1 and (self.processes == "1" or self.gpus == 1)

    @property
    def meets(self) -> bool:
        """Whether there are several processes, which need a rendezvous."""
        several = self.gpus > 1 if self.processes == AUTO else int(self.processes) > 1
        return self.nodes > 1 or several

    @property
    def is_quantized(self) -> bool:
        """Whether it is QLoRA."""
        return _is_true(self.args, _QUANTIZED) and not _is_true(self.args, _DORA)

    @property
    def is_low_rank(self) -> bool:
        """Whether it is LoRA."""
        return any(_LORA in arg for arg in self.args)

    def recipe(self) -> tuple[str, str]:
        """Return the recipe, and the name of its configuration."""
        device, suffix = ("single_device", "_single_device") if self.is_on_one_device else ("distributed", "")
        if self.nodes == 1 and (self.is_quantized or self.is_low_rank):
            method, tail = "lora", f"{_QLORA if self.is_quantized else '_lora'}{suffix}"
        else:
            method, tail = "full", "_full_multinode" if self.nodes > 1 else f"_full{suffix}"
        return f"{method}_finetune_{device}", f"{self.model}{tail}"

    def arguments(self, meeting: str, settings: Sequence[str]) -> list[str]:
        """Return the arguments of ``tune run``: the rendezvous, the recipe, and the runtime's settings."""
        recipe, config = self.recipe()
        meets = [f"--rdzv_endpoint={meeting}"] if self.meets else []
        return [*meets, recipe, "--config", config, *settings]


def problems(spec: Json, resources: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the problems of a job's spec.

    Args:
        spec: Spec of a TrainJob whose command is `ENTRYPOINT`.
        resources: Resources of its nodes.
    """
    own, runtime = spec.get("trainer") or {}, (spec.get("runtimeRef") or {}).get("name") or ""
    nodes = 1 if own.get("numNodes") is None else int(own["numNodes"])
    processes = AUTO if own.get("numProcPerNode") is None else str(own["numProcPerNode"])
    args = [str(one) for one in own.get("args") or ()]
    tuning = Tuning(runtime=runtime, nodes=nodes, processes=processes, gpus=gpus_of(resources), args=args)
    model, place = tuning.model, "spec.runtimeRef.name"
    if model not in MODELS:
        text = f"must have a supported pretrained model ({', '.join(MODELS)}), invalid model configured: {model}"
        yield invalid_value(place, runtime, text)
    if nodes > 1 and model != _LLAMA_70B:
        yield invalid_value("spec.trainer.numNodes", nodes, f"must be 1 for {model} model")
    if _QLORA in tuning.recipe()[1]:
        if model == _QWEN:
            yield invalid_value(place, runtime, f"QLoRA is not supported for {model} model")
        if not tuning.is_on_one_device and model in (_LLAMA_1B, _LLAMA_3B):
            text = f"must be auto or 1 for {model} model when using QLoRA"
            yield invalid_value("spec.trainer.numProcPerNode", processes, text)
            text = f"must have gpu resource with value 1 for {model} model when using QLoRA"
            yield invalid_value("spec.trainer.resourcesPerNode", own.get("resourcesPerNode"), text)
    if nodes > 1 and (tuning.is_low_rank or tuning.is_quantized):
        text = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        yield invalid_value("spec.trainer.numNodes", nodes, text)
    for position, arg in enumerate(args):
        key = arg.partition("=")[0]
        if key in OF_THE_RUNTIME:
            text = f'must not set immutable config "{key}" in trainer args; it is managed by the runtime'
            yield invalid_value(f"spec.trainer.args[{position}]", arg, text)


def _is_true(args: Sequence[str], setting: str) -> bool:
    pairs = (arg.partition("=") for arg in args)
    return any(setting in name and given.strip().lower() == "true" for name, _, given in pairs)
