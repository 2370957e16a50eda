"""One pipeline feeds all replicas in turn, ahead of time, on their own devices."""

import threading

import pytest
import tensorflow as tf

from tests.specs import small
from trainer.image_records import ReplicaFeed


def numbers() -> tf.data.Dataset:
    """Images (1, 1, 3) and labels that say their position: 0, 1, 2, ..."""
    return tf.data.Dataset.range(10_000).map(
        lambda n: (tf.fill((1, 1, 3), tf.cast(n, tf.float32)), n)
    )


def feed(devices, images=None, **changes) -> ReplicaFeed:
    return ReplicaFeed(
        images or numbers(), small(num_gpus=len(devices.replicas), **changes), devices
    )


def test_replicas_get_batches_in_turn(make_devices):
    three = feed(make_devices(3), batch_size=2)
    assert [labels.numpy().tolist() for _, labels in three.next()] == [[0, 1], [2, 3], [4, 5]]
    assert [labels.numpy().tolist() for _, labels in three.next()] == [[6, 7], [8, 9], [10, 11]]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_batches_are_on_the_device_of_their_replica(make_devices, prefetch, steps_per_execution):
    devices = make_devices(3)
    of_three = feed(devices, prefetch=prefetch, steps_per_execution=steps_per_execution)
    for _ in range(3):
        for device, (images, labels) in zip(devices.replicas, of_three.next(), strict=True):
            assert (images.device, labels.device) == (device, device)
            assert (images.backing_device, labels.backing_device) == (device, device)


@pytest.mark.parametrize("num_replicas", [1, 3])
def test_a_call_of_several_steps_takes_the_batches_of_as_many_calls(make_devices, num_replicas):
    devices = make_devices(num_replicas)
    single, several = (
        feed(devices, batch_size=2),
        feed(devices, batch_size=2, steps_per_execution=4),
    )

    @tf.function
    def at(batches, index):
        return several.at(batches, index)

    for _ in range(2):
        call = several.next()
        assert [(images.shape, labels.shape) for images, labels in call] == [
            ((4, 2, 1, 1, 3), (4, 2))
        ] * num_replicas
        for step in range(4):
            for ours, wanted in zip(at(call, tf.constant(step)), single.next(), strict=True):
                assert ours[0].numpy().tolist() == wanted[0].numpy().tolist()
                assert ours[1].numpy().tolist() == wanted[1].numpy().tolist()
    graph = at.get_concrete_function(call, tf.constant(0)).graph
    assert [op.device for op in graph.get_operations() if op.type == "StridedSlice"] == [
        device for device in devices.replicas for _ in ("images", "labels")
    ]


def test_batches_are_picked_in_a_loop_inside_a_function(make_devices):
    of_two = feed(make_devices(2), batch_size=1, steps_per_execution=3)

    @tf.function
    def labels_of_replica_1(batches):
        found = tf.TensorArray(tf.int64, size=3)
        for step in tf.range(3):
            found = found.write(step, of_two.at(batches, step)[1][1][0])
        return found.stack()

    assert labels_of_replica_1(of_two.next()).numpy().tolist() == [1, 3, 5]


@pytest.mark.parametrize(("steps_per_execution", "num_buffered"), [(1, 5), (2, 3)])
def test_prefetch_counts_batches_on_each_device(make_devices, steps_per_execution, num_buffered):
    """5 batches are 3 calls of 2 steps."""
    of_two = feed(make_devices(2), prefetch=5, steps_per_execution=steps_per_execution)
    for iterator in of_two._iterator._device_iterators:
        assert int(iterator._dataset._buffer_size) == num_buffered


def test_without_prefetch_nothing_waits_on_the_devices(make_devices):
    of_two = feed(make_devices(2), prefetch=0)
    assert not [
        iterator
        for iterator in of_two._iterator._device_iterators
        if hasattr(iterator._dataset, "_buffer_size")
    ]


def test_prefetched_batches_are_made_before_they_are_asked_for(make_devices):
    made = threading.Semaphore(0)

    def count(number):
        made.release()
        return number

    counted = tf.data.Dataset.range(1000).map(lambda n: tf.numpy_function(count, [n], tf.int64))
    images = counted.map(lambda n: (tf.zeros((1, 1, 3)), tf.ensure_shape(n, ())))
    of_two = feed(make_devices(2), images, prefetch=3, batch_size=1)
    of_two.next()
    for _ in range(2 * (1 + 3)):  # per replica: the one taken and three waiting
        assert made.acquire(timeout=300)


def test_data_threads_are_the_pipelines_own(make_devices):
    assert (
        feed(make_devices(1), data_threads=3).dataset.options().threading.private_threadpool_size
        == 3
    )
    assert (
        feed(make_devices(1), data_threads=0).dataset.options().threading.private_threadpool_size
        is None
    )


def test_the_order_is_part_of_the_pipeline(make_devices):
    assert feed(make_devices(1)).dataset.options().deterministic is True
