"""Recipes of torchtune by model, nodes, devices and method; and what cannot be tuned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.torchtune import OF_THE_RUNTIME, Tuning, gpus_of, is_tuning, problems, settings_of

LORA, QLORA, DORA = "model.lora_attn_modules=[q_proj]", "model.quantize_base=True", "model.use_dora=true"
ONE = "torchtune-llama3.2-1b"
LARGE = "torchtune-llama3.3-70b"

RECIPES = [
    pytest.param(1, "auto", 1, (), "full_finetune_single_device", "_full_single_device", id="one device"),
    pytest.param(1, "1", 0, (), "full_finetune_single_device", "_full_single_device", id="one process"),
    pytest.param(1, "auto", 4, (), "full_finetune_distributed", "_full", id="several devices"),
    pytest.param(2, "auto", 1, (), "full_finetune_distributed", "_full_multinode", id="several nodes"),
    pytest.param(1, "auto", 1, (LORA,), "lora_finetune_single_device", "_lora_single_device", id="LoRA"),
    pytest.param(1, "2", 2, (LORA,), "lora_finetune_distributed", "_lora", id="LoRA on several devices"),
    pytest.param(1, "1", 1, (LORA, QLORA), "lora_finetune_single_device", "_qlora_single_device", id="QLoRA"),
    pytest.param(1, "2", 2, (QLORA,), "lora_finetune_distributed", "_qlora", id="QLoRA on several devices"),
    pytest.param(1, "1", 1, (LORA, QLORA, DORA), "lora_finetune_single_device", "_lora_single_device", id="DoRA"),
    pytest.param(
        1,
        "1",
        1,
        ("model.quantize_base=False",),
        "full_finetune_single_device",
        "_full_single_device",
        id="not quantized",
    ),
]


@pytest.mark.parametrize(("nodes", "processes", "gpus", "args", "recipe", "suffix"), RECIPES)
def test_the_recipe_follows_from_nodes_devices_and_method(
    nodes: int, processes: str, gpus: int, args: tuple[str, ...], recipe: str, suffix: str
) -> None:
    tuning = Tuning(runtime=ONE, nodes=nodes, processes=processes, gpus=gpus, args=args)
    assert tuning.recipe() == (recipe, f"llama3_2/1B{suffix}")
    meets = nodes > 1 or (gpus > 1 if processes == "auto" else int(processes) > 1)
    told = tuning.arguments("t-node-0-0.t:29500", ["output_dir=/o"])
    assert told == [
        *(["--rdzv_endpoint=t-node-0-0.t:29500"] if meets else []),
        recipe,
        "--config",
        f"llama3_2/1B{suffix}",
        "output_dir=/o",
    ]


@pytest.mark.parametrize(
    ("runtime", "own", "gpus", "place", "words"),
    [
        ("r", {}, 1, "spec.runtimeRef.name", "must have a supported pretrained model"),
        (ONE, {"numNodes": 2}, 1, "spec.trainer.numNodes", "must be 1 for llama3_2/1B model"),
        ("torchtune-qwen2.5-1.5b", {"args": [QLORA]}, 1, "spec.runtimeRef.name", "QLoRA is not supported for qwen2_5"),
        (ONE, {"args": [QLORA]}, 2, "spec.trainer.numProcPerNode", "must be auto or 1 for llama3_2/1B"),
        (ONE, {"args": [QLORA]}, 2, "spec.trainer.resourcesPerNode", "must have gpu resource with value 1"),
        (LARGE, {"numNodes": 2, "args": [LORA]}, 8, "spec.trainer.numNodes", "not supported for multi-node training"),
        (ONE, {"args": ["a=b", "output_dir=/x"]}, 1, "spec.trainer.args[1]", "it is managed by the runtime"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_the_place(
    runtime: str, own: dict[str, Any], gpus: int, place: str, words: str
) -> None:
    spec = {"runtimeRef": {"name": runtime}, "trainer": {"command": ["tune", "run"], **own}}
    found = {cause.field: cause.message for cause in problems(spec, {"limits": {"nvidia.com/gpu": str(gpus)}})}
    assert words in found.get(place, ""), found


@pytest.mark.parametrize(("runtime", "nodes"), [(ONE, 1), (LARGE, 4)])
def test_what_can_be_tuned_is_not_refused(runtime: str, nodes: int) -> None:
    own = {"command": ["tune", "run"], "numNodes": nodes, "args": ["batch_size=4"]}
    spec = {"runtimeRef": {"name": runtime}, "trainer": own}
    assert list(problems(spec, {"limits": {"nvidia.com/gpu": "2"}})) == []


def test_a_command_of_ones_own_is_left_alone() -> None:
    assert is_tuning(["tune", "run"])
    assert not any(map(is_tuning, (None, [], ["tune", "run", "x"], ["tune"])))


def test_settings_of_a_runtime_are_those_that_jobs_may_not_say() -> None:
    command = ["tune", "run", *(f"{name}=x" for name in OF_THE_RUNTIME), "batch_size=1"]
    assert settings_of(command) == [f"{name}=x" for name in OF_THE_RUNTIME]


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({}, 0),
        ({"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}, 2),
        ({"requests": {"amd.com/gpu": 1}}, 1),
        ({"limits": {"nvidia.com/gpu": "0"}, "requests": {"nvidia.com/gpu": "3"}}, 3),
    ],
)
def test_devices_of_a_node_are_counted(resources: dict[str, Any], count: int) -> None:
    assert gpus_of(resources) == count


@given(st.text(max_size=40), st.integers(1, 9), st.sampled_from(["auto", "1", "3"]), st.lists(st.text(max_size=20)))
def test_whatever_is_said_there_is_one_recipe(runtime: str, nodes: int, processes: str, args: list[str]) -> None:
    tuning = Tuning(runtime=runtime, nodes=nodes, processes=processes, gpus=0, args=args)
    recipe, config = tuning.recipe()
    assert recipe.endswith(("_single_device", "_distributed"))
    assert config.startswith(tuning.model)
    assert recipe.endswith("_single_device") == config.endswith("_single_device")
