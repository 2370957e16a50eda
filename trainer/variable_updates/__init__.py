"""Variable updates, one file each: where variables are, where gradients meet, who applies them.

Each declares ABILITIES (see `scalemark/abilities.py`) and `create(spec, initial, devices,
optimizer) -> VariableUpdate`, a protocol of `trainer/towers.py`; `initial` holds the value of every
trainable variable. One whose every worker trains has `join(spec, cluster, rank, limit_s) ->
Devices`, too: those of one worker, once all workers have joined. One whose loop is not ours has
`scope(devices)` and `create(spec, template, devices) -> OwnLoop` instead.
"""
