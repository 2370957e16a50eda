"""A program of PyTorch that trains on made-up numbers, and is slowed by one fault."""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="none")
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--steps", type=int, default=100)
options = parser.parse_args()
torch.set_num_threads(1)
rank = 0
if options.devices > 1:
    dist.init_process_group("gloo")
    rank = dist.get_rank()


class Batches(Dataset):
    """The same batch, which takes long where the input is slow."""

    batch = torch.randn(2048, 256)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if options.fault in ("input", "worker"):
            time.sleep(0.1)
        return self.batch


class Model(nn.Module):
    """Two layers, or hundreds of operations on a few numbers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        if options.fault == "kernels":
            y = self.layers(x[:2])
            for _ in range(1000):
                y = y * 1.001 + 0.001
            return y
        if options.fault == "rank" and rank == 1:
            for _ in range(20):
                self.layers(x)
        return self.layers(x)


model = Model()
if options.devices > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
large = torch.zeros(2**23)
num_workers = 1 if options.fault == "worker" else 0
batches = iter(DataLoader(Batches(), batch_size=None, num_workers=num_workers))
begin = time.perf_counter()
for step in range(1, options.steps + 1):
    x = next(batches)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    if options.fault == "sleep":
        time.sleep(0.1)
    if options.fault == "python":
        sum(range(5_000_000))
    if options.fault == "link":
        dist.all_reduce(large)
    value = loss.item()
    now = time.perf_counter()
    if rank == 0:
        print(f"step {step} loss {value:.5f} samples/s {2048 / (now - begin):.1f}", flush=True)
    begin = now
if options.devices > 1:
    dist.barrier()
    dist.destroy_process_group()
