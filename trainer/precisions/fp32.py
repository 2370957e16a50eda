"""Everything in float32; TensorFloat-32 is switched off, so that fp32 means fp32 on every GPU."""

POLICY, COMPUTE_TYPE, TENSOR_FLOAT_32 = "float32", "float", False
IS_LOSS_SCALED = False
