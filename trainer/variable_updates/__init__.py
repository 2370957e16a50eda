"""Variable updates, one file each: where variables are read, where gradients meet, who applies them.

Each file offers `create(initial, devices, all_reduce, optimizer, local_parameter_device) -> VariableUpdate`;
the protocol stands in `trainer/towers.py`.
"""
