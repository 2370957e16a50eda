"""All-reduces, one file each: they sum the replicas' copies of a gradient on every replica.

Each declares ABILITIES (see `scalemark/abilities.py`) and `create(devices) -> AllReduce`, a
protocol of `trainer/towers.py`.
"""
