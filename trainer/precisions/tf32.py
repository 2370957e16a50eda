"""Float32, with products of GPUs from compute capability 8.0 on in TensorFloat-32."""

from scalemark.abilities import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="float32",
    compute_type="float",
    activation_bytes=4,
    tolerance=5e-3,
    tensor_float_32=True,
    # ResNet-50 on an H200: 2,122 [2,106, 2,137] images/s, and 1,897 [1,892, 1,903] in NHWC, where
    # TensorFlow transposes before and behind each normalization in float32
    gpu_data_format_without_xla="NCHW",
    gpu_only="TensorFloat-32 is a way of GPUs",
    compute_capability=(8, 0),
)
