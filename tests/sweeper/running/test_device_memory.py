"""The line with which a GPU's allocator gives up is found while a log grows."""

from sweeper.running.device_memory import AllocatorWatch

LINE = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 784.00MiB (rounded to 822083584)\n"
)


def test_a_line_that_is_being_written_is_found_once_it_is_there(tmp_path):
    log = tmp_path / "log.txt"
    watch = AllocatorWatch(log)
    watch.look()  # there is none yet
    log.write_text("x" * 1000 + LINE[:40])
    watch.look()
    assert watch.gave_up == ""
    log.write_text("x" * 1000 + LINE + "a summary\n" * 1000)
    watch.look()
    assert watch.gave_up == LINE.partition(" (rounded")[0]
