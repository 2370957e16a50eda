"""What ran where is found wherever TensorFlow hides it."""

import tensorflow as tf

from trainer.watching import op_placement


def test_ops_in_clusters_of_xla_are_found(make_devices):
    (device,) = make_devices(1).replicas
    with tf.device(device):
        weights, momentum = tf.Variable(tf.zeros((3, 3, 1, 1))), tf.Variable(tf.zeros((3, 3, 1, 1)))

    @tf.function
    def step(images):
        with tf.device(device), tf.xla.experimental.jit_scope():
            outputs = tf.nn.conv2d(images, weights, strides=1, padding="SAME")
            gradient = tf.reduce_sum(outputs) * weights.read_value()
            with tf.name_scope("reduce"):
                total = tf.add_n([gradient, gradient])
            tf.raw_ops.ResourceApplyMomentum(
                var=weights.handle, accum=momentum.handle, lr=0.1, grad=total, momentum=0.9
            )

    with op_placement.recorded() as placement:
        step(tf.zeros((1, 4, 4, 1)))
    summary = placement.summary()
    assert set(summary.pop("xla")) == {"_XlaRun @ CPU:1"}
    assert summary == {
        "convolution": {"Conv2D @ CPU:1": 1},
        "reduction": {"AddN @ CPU:1": 1},
        "update": {"ResourceApplyMomentum @ CPU:1": 1},
        "data_format": {"NHWC @ CPU:1": 1},
        "compute_type": {"float @ CPU:1": 1},
    }
