"""All-reduces, one file each: how the replicas' copies of one gradient become the same sum on every
replica.

Each file declares ABILITIES, see `scalemark/abilities/`, and offers `create(devices) ->
AllReduce`; the protocol stands in `trainer/towers.py`.
"""
