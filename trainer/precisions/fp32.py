"""Everything in float32; TensorFloat-32 is switched off, so that fp32 means fp32 on every GPU."""

from scalemark.abilities import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="float32",
    compute_type="float",
    activation_bytes=4,
    tolerance=0.0,
    gpu_data_format="NCHW",
)
