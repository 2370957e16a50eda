"""Variable updates, one file each: where variables are read, where gradients meet, who applies
them.

Each file declares ABILITIES, see `scalemark/abilities/`, and offers `create(spec, initial, devices,
optimizer) -> VariableUpdate`; the protocol stands in `trainer/towers.py`. `initial` holds the value
of every trainable variable. One whose every worker trains offers `join(spec, cluster, rank) ->
Devices`, too: those of one worker, once all workers have joined.
"""
