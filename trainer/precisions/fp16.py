"""Computation in float16, variables and gradients handed to the update in float32; needs a loss
scale.
"""

POLICY, COMPUTE_TYPE, TENSOR_FLOAT_32 = "mixed_float16", "half", False
IS_LOSS_SCALED = True
