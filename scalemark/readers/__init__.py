"""Reads throughput from what a training program prints or writes: one file per kind of program."""
