"""Computation in bfloat16, variables and gradients handed to the update in float32; no loss scale
is needed.
"""

POLICY, COMPUTE_TYPE, TENSOR_FLOAT_32 = "mixed_bfloat16", "bfloat16", False
IS_LOSS_SCALED = False
