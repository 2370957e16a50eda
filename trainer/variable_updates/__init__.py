"""Variable updates, one file each: where variables are read, where gradients meet, who applies them.

Each file offers `create(spec, initial, devices, optimizer) -> VariableUpdate`; the protocol stands in `trainer/towers.py`.
`initial` holds the value of every trainable variable.
"""
