"""Measures what the devices and links of a machine can do: `python -m trainer.probing`."""
