"""Trains a small network by DDP or FSDP; torchrun starts one process per GPU."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64, help="samples per process")
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
options = parser.parse_args()

has_gpus = torch.cuda.is_available()
dist.init_process_group("nccl" if has_gpus else "gloo")
rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", rank) if has_gpus else torch.device("cpu")
if has_gpus:
    torch.cuda.set_device(device)
torch.manual_seed(0)
layers = []
for _ in range(4):
    layers += [torch.nn.Linear(256, 256), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)).to(device)
if options.parallel == "fsdp":
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
else:
    model = DistributedDataParallel(model, device_ids=[rank] if has_gpus else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.randn(options.batch, 256, device=device)
labels = torch.zeros(options.batch, dtype=torch.long, device=device)

start = time.perf_counter()
for number in range(1, options.steps + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(samples), labels)
    loss.backward()
    optimizer.step()
    if rank == 0:
        value = loss.item()  # waits for the step
        now = time.perf_counter()
        rate = options.batch * dist.get_world_size() / (now - start)
        print(f"step {number} loss {value:.5f} samples/s {rate:.1f}", flush=True)
        start = now
dist.destroy_process_group()
