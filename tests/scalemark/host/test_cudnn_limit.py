"""A tensor that cuDNN cannot describe is recognized by TensorFlow's own words."""

from scalemark.host.gpu_libraries import too_large

# of an H200 with cuDNN 9.19, for model=resnet152 batch_size=4096 data_format=NCHW
SEEN = (
    "F0000 00:00:1795670365.297083    2325 cuda_dnn.cc:655] Check failed: "
    "cudnnSetTensorNdDescriptor(handle_.get(), elem_type, nd, dims.data(), strides.data()) == "
    "CUDNN_STATUS_SUCCESS (3000 vs. 0) batch_descriptor: {count: 4096 feature_map_count: 64 "
    "spatial: 112 112  value_min: 0.000000 value_max: 0.000000 layout: BatchDepthYX}"
)


def test_a_tensor_too_large_for_cudnn_is_told_with_its_size():
    assert too_large(SEEN) == (
        "a tensor has 3,288,334,336 numbers, of 4096 examples, and cuDNN takes fewer than 2^31; "
        "choose a smaller batch_size or image_px"
    )


def test_a_descriptor_that_is_refused_for_another_reason_is_no_large_tensor():
    assert too_large(SEEN.replace("count: 4096", "count: 2048")) == ""
    assert too_large("Check failed: cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS (1 vs. 0)") == ""
