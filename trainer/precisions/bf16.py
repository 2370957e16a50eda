"""Computes in bfloat16; variables and their gradients are float32. Needs no loss scale."""

from scalemark.abilities import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="mixed_bfloat16",
    compute_type="bfloat16",
    activation_bytes=2,
    tolerance=3e-2,
    compute_capability=(8, 0),
    fastest_from=(8, 0),
)
