"""All-reduces, one file each: how the replicas' copies of one gradient become the same average on every replica.

Each file offers what `trainer.towers.AllReduce` asks for; gradients has one tensor a replica.
"""
