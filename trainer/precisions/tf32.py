"""Float32, with products of GPUs from compute capability 8.0 on in TensorFloat-32."""

from scalemark.abilities.precision import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="float32",
    compute_type="float",
    activation_bytes=4,
    product_bits=19,
    tolerance=5e-3,
    tensor_float_32=True,
    gpu_only="TensorFloat-32 is a way of GPUs",
    compute_capability=(8, 0),
)
