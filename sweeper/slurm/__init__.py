"""Asks Slurm by its commands, in text formats that are the same from 22.05 on."""
