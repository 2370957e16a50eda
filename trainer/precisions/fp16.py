"""Computes in float16; variables and their gradients are float32. Needs a loss scale."""

from scalemark.abilities import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="mixed_float16",
    compute_type="half",
    activation_bytes=2,
    tolerance=5e-3,
    is_loss_scaled=True,
    fastest_from=(7, 0),
    no_nchw_on_cpu="CPUs have no float16 convolution in it",
)
