"""A short cost model of a training step: work, bytes, links, launches.

It needs no engine and no database: the simulator plays it, planning takes FLOPs and memory from it,
and explanations the bytes that a strategy sends.
"""
