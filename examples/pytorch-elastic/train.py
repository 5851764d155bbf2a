"""Elastic data-parallel training: any worker may be killed, and those that are left go on from the last checkpoint.

torchrun starts this program anew in every worker whenever the group of workers changes.
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

STEPS, CHECKPOINT = int(sys.argv[1]), pathlib.Path("/model/checkpoint.pt")

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = [torch.load(CHECKPOINT) if rank == 0 and CHECKPOINT.exists() else None]
dist.broadcast_object_list(state)  # all begin where the first one's checkpoint ends
begin = 0
if state[0] is not None:
    begin = state[0]["step"]
    model.load_state_dict(state[0]["model"])
print(f"rank {rank} of {world} begins at step {begin}", flush=True)
for step in range(begin, STEPS):
    x = torch.rand(64, 1) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1)
    optimizer.zero_grad()
    loss.backward()  # gradients are averaged over the workers here
    optimizer.step()
    if rank == 0:
        new = CHECKPOINT.with_suffix(".new")
        torch.save({"step": step + 1, "model": model.state_dict()}, new)
        os.replace(new, CHECKPOINT)
        print(f"step {step + 1} of {STEPS} by {world} workers", flush=True)
    time.sleep(0.1)
slope, offset = model.module.weight.item(), model.module.bias.item()
print(f"rank {rank} of {world} ends: y = {slope:.1f} x + {offset:.1f}", flush=True)
dist.destroy_process_group()
