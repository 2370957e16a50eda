"""Optimizers, one file each: slots beside a variable, and a fused update op."""
