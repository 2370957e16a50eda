"""All-reduces, one file each: how the replicas' copies of one gradient become the same sum on every
replica.

Each file offers `create(devices) -> AllReduce`; the protocol stands in `trainer/towers.py`.
"""
