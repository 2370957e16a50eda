"""Trains a tiny GPT-2 on random tokens by the Trainer of Hugging Face."""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
parser.add_argument("--batch", type=int, default=8, help="sequences per process")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--optim", default="adamw_torch")
parser.add_argument("--steps", type=int, default=100)
options = parser.parse_args()

NUM_TOKENS, LENGTH = 1000, 64
tokens = torch.randint(NUM_TOKENS, (512, LENGTH), generator=torch.Generator().manual_seed(0))
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=NUM_TOKENS, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=2)
)
arguments = TrainingArguments(
    use_cpu=not torch.cuda.is_available(),
    output_dir=options.output,
    per_device_train_batch_size=options.batch,
    gradient_accumulation_steps=options.accumulate,
    optim=options.optim,
    max_steps=options.steps,
    logging_steps=10,
    save_strategy="no",
    report_to="none",
)
rows = [{"input_ids": row, "labels": row} for row in tokens]
trainer = Trainer(model=model, args=arguments, train_dataset=rows)
ended = trainer.train()
trainer.save_metrics("train", ended.metrics)
trainer.save_state()
