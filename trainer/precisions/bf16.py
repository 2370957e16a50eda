"""Computation in bfloat16, variables and gradients handed to the update in float32; no loss scale
is needed.
"""

from scalemark.abilities.precision import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="mixed_bfloat16",
    compute_type="bfloat16",
    activation_bytes=2,
    product_bits=16,
    tolerance=3e-2,
    compute_capability=(8, 0),
)
