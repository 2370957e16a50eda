"""Float32, with products of GPUs from compute capability 8.0 on in TensorFloat-32."""

POLICY, COMPUTE_TYPE, TENSOR_FLOAT_32 = "float32", "float", True
IS_LOSS_SCALED = False
