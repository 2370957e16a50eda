"""The line with which a GPU's allocator gives up is found while logs grow."""

from scalemark.run_folder import RunFolder
from sweeper.loop.attempt import FolderWatch

LINE = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 784.00MiB (rounded to 822083584)\n"
)


def test_a_line_that_is_being_written_is_found_once_it_is_there(tmp_path):
    log = tmp_path / "log.txt"
    watch = FolderWatch(RunFolder(tmp_path), 0.0)
    watch.read(1.0)  # there is none yet
    log.write_text("x" * 1000 + LINE[:40])
    watch.read(1.0)
    assert watch.seen.gave_up == ""
    log.write_text("x" * 1000 + LINE + "a summary\n" * 1000)
    watch.read(1.0)
    assert watch.seen.gave_up == LINE.partition(" (rounded")[0]


def test_an_op_that_the_asynchronous_allocator_failed_is_found(tmp_path):
    """With TF_GPU_ALLOCATOR=cuda_malloc_async. A bug: NCCL's other GPUs waited for half an hour."""
    log = tmp_path / "log.txt"
    failed = (
        "OOM when allocating tensor with shape[64,112,112,64] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:1 by allocator gpu_async_1"
    )
    tried = "gpu_async_1 cuMemAllocAsync failed to allocate 205520896 bytes: CUDA_ERROR_OUT_OF_MEM"
    watch = FolderWatch(RunFolder(tmp_path), 0.0)
    log.write_text(f"E0000 {tried}\n")
    watch.read(1.0)
    assert watch.seen.gave_up == "", "what a convolution tries it can do without"
    log.write_text(f"E0000 {tried}\nW0000 OP_REQUIRES failed at x.cc:1 : RESOURCE: {failed}\n")
    watch.read(1.0)
    assert watch.seen.gave_up == failed


def test_the_log_of_each_process_counts(tmp_path):
    """With a process per GPU. A bug: only that of the first was watched."""
    folder = RunFolder(tmp_path)
    watch = FolderWatch(folder, 0.0)
    folder.log.write_text("rank worker-1: 127.0.0.1:1, log-worker-1.txt\n")
    watch.read(1.0)
    (tmp_path / "log-worker-1.txt").write_text("it starts later\n")
    (tmp_path / "log-worker-2.txt").write_text(f"it starts\n{LINE}")
    watch.read(1.0)
    assert watch.seen.gave_up == f"{LINE.partition(' (rounded')[0]} (log-worker-2.txt)"
