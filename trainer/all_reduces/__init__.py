"""All-reduces, one file each: how the replicas' copies of one gradient become the same average on every replica.

Each file offers `average(gradients, index, devices)` and `reduction_devices(devices)`; gradients has one tensor a replica.
"""
