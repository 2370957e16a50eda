"""The proof kit: what must hold on a box of GPUs, in a quarter of an hour."""
