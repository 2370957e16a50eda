"""Precisions, one file each: what TensorFlow's switches must be and in which type layers compute.

Each file offers POLICY (a Keras dtype policy), COMPUTE_TYPE (of convolutions and matrix products,
as graphs name it), TENSOR_FLOAT_32 (whether GPUs may round the inputs of float32 products to 10
bits of mantissa) and IS_LOSS_SCALED (small gradients vanish without a loss scale).
"""
