"""Trains a small Llama on made-up text by DDP or FSDP; torchrun starts one process per GPU."""

import argparse
import os
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Causal attention with rotary positions; groups of query heads share keys and values."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * kv_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        key_value = self.key_value(x).view(batch, length, 2 * self.kv_heads, self.size)
        key, value = key_value.transpose(1, 2).chunk(2, dim=1)
        mixed = functional.scaled_dot_product_attention(
            rotated(query, rotation), rotated(key, rotation), value, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a gated feed-forward network, each normalized before and added after."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), rotation)
        normal = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(normal)) * self.up(normal))


class Llama(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, length: int, checkpoints: bool):
        super().__init__()
        self.checkpoints = checkpoints
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads=4, kv_heads=2) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        size = width // 4
        frequencies = 10_000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.arange(length)[:, None] * frequencies[None, :]
        self.register_buffer("rotation", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            if self.checkpoints:
                x = checkpoint(block, x, self.rotation, use_reentrant=False)
            else:
                x = block(x, self.rotation)
        return self.head(self.norm(x))


def rotated(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Pairs of the last axis of [batch, heads, length, size], turned by their position."""
    cos, sin = rotation.to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


parser = argparse.ArgumentParser()
parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
parser.add_argument("--batch", type=int, default=4, help="sequences per process and micro-step")
parser.add_argument("--accumulate", type=int, default=1, help="micro-steps per step")
parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--checkpoint", choices=("no", "yes"), default="no", help="of blocks")
parser.add_argument("--compile", choices=("no", "yes"), default="no")
parser.add_argument("--length", type=int, default=128, help="tokens of a sequence")
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--vocabulary", type=int, default=512)
parser.add_argument("--steps", type=int, default=100)
options = parser.parse_args()

has_gpus = torch.cuda.is_available()
dist.init_process_group("nccl" if has_gpus else "gloo")
rank, num_ranks = int(os.environ["LOCAL_RANK"]), dist.get_world_size()
device = torch.device("cuda", rank) if has_gpus else torch.device("cpu")
if has_gpus:
    torch.cuda.set_device(device)

torch.manual_seed(0)
model: nn.Module = Llama(
    options.vocabulary,
    options.width,
    options.layers,
    options.length,
    options.checkpoint == "yes",
).to(device)
num_parameters = sum(each.numel() for each in model.parameters())
if options.parallel == "fsdp":
    mesh = dist.init_device_mesh(device.type, (num_ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
else:
    model = DistributedDataParallel(model, device_ids=[rank] if has_gpus else None)
if options.compile == "yes":
    model.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if rank == 0:
    print(f"parameters {num_parameters}", flush=True)

# each token follows from the one before, so that the loss falls
torch.manual_seed(1 + dist.get_rank())
text = torch.randint(options.vocabulary, (options.batch, 1), device=device)
for _ in range(options.length):
    text = torch.cat([text, (5 * text[:, -1:] + 7) % options.vocabulary], dim=1)


def micro_step(last: bool) -> torch.Tensor:
    """Add the gradient of one micro-batch; ranks exchange them with the last one only."""
    waits = nullcontext()
    if options.parallel == "fsdp":
        model.set_requires_gradient_sync(last)
    elif not last:
        waits = model.no_sync()
    with waits:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
        (loss / options.accumulate).backward()
    return loss.detach()


tokens = options.batch * options.accumulate * options.length * num_ranks
start = time.perf_counter()
for step in range(1, options.steps + 1):
    optimizer.zero_grad()
    for micro in range(options.accumulate):
        loss = micro_step(last=micro == options.accumulate - 1)
    optimizer.step()
    dist.all_reduce(loss)
    value = loss.item() / num_ranks  # waits for the step
    now = time.perf_counter()
    if rank == 0:
        print(f"step {step} loss {value:.5f} tokens/s {tokens / (now - start):.1f}", flush=True)
    start = now
# gloo aborts now and then where a rank ends while another still exchanges
dist.barrier()
dist.destroy_process_group()
