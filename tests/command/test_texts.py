"""What libraries print when they fail tells the outcome of a trial, and the line that is the cause is shown.

Files of `ends/` were recorded with PyTorch 2.13 and torchrun on two CPU processes. Single lines are quoted
from the sources of the libraries, or from public reports.
"""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from command import ends, outcomes
from command.outcomes import CrashedError, failed
from command.watch import ProgramEnd, ProgramLog

TRACEBACK = "Traceback (most recent call last):"
ENDS = Path(__file__).parent / "ends"


def ended(lines, exit_code=1) -> ProgramEnd:
    return ProgramEnd(
        exit_code=exit_code,
        started_s=0.0,
        ended_s=1.0,
        was_interrupted=False,
        left_behind=(),
        last_lines=tuple(lines),
        num_kernel_kills=1_000_000,
    )


@pytest.mark.parametrize(
    ("name", "outcome", "message"),
    [
        (
            "torchrun_error",
            "failed",
            "the program ended with exit code 1: [rank1]: ValueError: boom of one rank",
        ),
        ("torchrun_module", "unsupported", "[rank1]: ModuleNotFoundError: No module named 'nix'"),
        ("torchrun_oom", "out_of_memory", "DefaultCPUAllocator: can't allocate memory"),
        ("torchrun_cuda", "unsupported", "AssertionError: Torch not compiled with CUDA enabled"),
        ("torchrun_waited", "hung", "Timed out waiting 4000ms for recv operation to complete"),
    ],
)
def test_the_cause_above_the_summary_of_torchrun_is_told(name, outcome, message):
    result = failed(ended((ENDS / f"{name}.txt").read_text().splitlines()))
    assert (result.outcome, message in result.message) == (outcome, True), result.message


def test_a_program_that_a_shell_cannot_execute_was_found():
    result = failed(ended(["sh: 1: ./train: Permission denied"], 126))
    assert result.outcome == "unsupported"
    assert result.message.startswith("a shell could not execute it (the program ended with exit")


def test_a_rank_that_a_signal_ended_is_named_and_worth_another_attempt():
    lines = (ENDS / "torchrun_kill.txt").read_text().splitlines()
    with pytest.raises(CrashedError, match=r"^rank 1 was ended by SIGKILL \(the program ended"):
        failed(ended(lines))


@pytest.mark.parametrize("shares_host", [False, True])
@pytest.mark.parametrize(
    ("exit_code", "last", "is_killed"),
    [
        (1, "KeyError: 'lr'", False),
        (-15, "step 3", False),
        (1, "Unable to shutdown process 42 via 15, forcefully exiting via SIGKILL", False),
        (-9, "step 3", True),
        (137, "step 3", True),
        (1, "train.sh: line 3:    42 Killed                  python train.py", True),
        (1, "mpirun noticed that process rank 1 exited on signal 9 (Killed).", True),
        (1, "  exitcode  : -9 (pid: 24677)", True),
        (1, "died with <Signals.SIGKILL: 9>.", True),
        (1, "RuntimeError: DataLoader worker (pid(s) 42) exited unexpectedly", True),
    ],
)
def test_a_kill_by_the_kernel_counts_where_the_program_tells_of_one(
    exit_code, last, is_killed, shares_host, monkeypatch
):
    """A neighbor in the same control group may be the one that was killed."""
    monkeypatch.setattr(outcomes.processes, "num_kernel_kills", lambda: 1_000_001)
    try:
        result = failed(ended([last], exit_code), shares_host=shares_host)
        is_lack, message = result.outcome == "out_of_memory", result.message
    except CrashedError as error:
        is_lack, message = False, str(error)
    assert is_lack == (is_killed and not shares_host)
    assert ("perhaps by the kernel" in message) == (is_killed and shares_host)


LINES = {  # of a library, and the outcome that it tells
    # PyTorch: c10/cuda/CUDACachingAllocator.cpp, of several releases
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a": "out_of_memory",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "out_of_memory",
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0;": "out_of_memory",
    "[rank3]: torch.AcceleratorError: CUDA error: out of memory": "out_of_memory",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.00 GiB.": "out_of_memory",
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.99 GB,": "out_of_memory",
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0;": "out_of_memory",
    "mxnet.base.MXNetError: cudaMalloc failed: out of memory": "out_of_memory",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,096 bytes": "out_of_memory",
    "srun: error: n1: task 0: Out Of Memory": "out_of_memory",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": "out_of_memory",
    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED": "out_of_memory",
    "node1:11:42 [0] enqueue.cc:74 NCCL WARN Cuda failure 2 'out of memory'": "out_of_memory",
    "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed. ": "out_of_memory",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).": "out_of_memory",
    # JAX and TensorFlow
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.": "out_of_memory",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 1.00GiB (1073741824B) on device ordinal 0": "out_of_memory",
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2": "out_of_memory",
    "OOM when allocating tensor with shape[64,256,112,112] and type float on": "out_of_memory",
    # the host's memory
    "MemoryError": "out_of_memory",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape": "out_of_memory",
    "terminate called after throwing an instance of 'std::bad_alloc'": "out_of_memory",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.": "out_of_memory",
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.": "out_of_memory",
    # collectives: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, gloo, torch elastic
    "[rank1]:[E1123 05:00:00.123456789 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.": "hung",
    "[E ProcessGroupNCCL.cpp:475] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels,": "hung",
    "[rank0]:[F1123 ProcessGroupNCCL.cpp:1554] [PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress": "hung",
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.": "hung",
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).": "hung",
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError": "hung",
    "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect": "hung",
    "F1123 xla/service/rendezvous.cc:120] Termination timeout for `all reduce` of 40 seconds exceeded. Exiting to ensure a consistent program state.": "hung",
    # what is not there
    "ModuleNotFoundError: No module named 'torch'": "unsupported",
    "[default1]:ModuleNotFoundError: No module named 'apex'": "unsupported",
    "/usr/bin/python3: No module named torch.distributed.run": "unsupported",
    "ImportError: cannot import name 'AdamW' from 'transformers' (/opt/venv/transformers/__init__.py)": "unsupported",
    "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory": "unsupported",
    "python3: can't open file '/home/me/trian.py': [Errno 2] No such file or directory": "unsupported",
    # the driver: torch/cuda/__init__.py, c10/cuda
    "RuntimeError: Found no NVIDIA driver on your system. Please check that": "unsupported",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": "unsupported",
    "RuntimeError: No CUDA GPUs are available": "unsupported",
    "torch.AcceleratorError: CUDA error: invalid device ordinal": "unsupported",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "unsupported",
    "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices.": "unsupported",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "failed",
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable": "failed",
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use": "failed",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_library_tells_the_outcome(line):
    found = ends.reason(["Traceback (most recent call last):", line, "[rank0]: and more"])
    assert found is not None
    assert (found.outcome, found.line) == (LINES[line], line)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: boom",
        # an allocator that goes on with less
        "W0000 cuda_executor.cc:912] failed to allocate 15.43GiB (16565010432 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "[rank0]:[I1123 ProcessGroupNCCL.cpp:972] [PG ID 0 Rank 0] ProcessGroupNCCL initialization options: size: 2, global rank: 0, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0",
        "W0000 dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "E0000 cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "INFO: Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform",
        "train.sh: line 3: nvidia-smi: command not found",
        "grpc error: StatusCode.DEADLINE_EXCEEDED: while reading from a bucket",
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Segmentation fault. ",
        # advice, settings and quoted source lines
        "hint: if you see 'CUDA out of memory', lower --batch",
        "tip: a job that is OOMKilled needs more",
        "Set PYTORCH_CUDA_ALLOC_CONF to avoid CUDA out of memory.",
        "UserWarning: CUDA out of memory may follow from max_split_size_mb",
        "    except torch.cuda.OutOfMemoryError:",
        "[rank0]:     raise RuntimeError(f'rank {rank}: CUDA out of memory. Lower the batch')",
        "    raise MemoryError('Cannot allocate memory')",
    ],
)
def test_a_line_that_need_not_be_the_cause_tells_nothing(line):
    """A bug: a hint about memory made out_of_memory of any crash, and a doubt of any run."""
    assert ends.reason([line]) is None
    assert not ends.says_memory_ran_out(line)


@pytest.mark.parametrize(
    "line",
    [
        "  what():  CUDA out of memory. Tried to allocate 2 GiB",
        "torch.cuda.OutOfMemoryError",
        "12:00:01 ERROR    CUDA out of memory",
        "caught CUDA out of memory, trying 16",
        "skipped a batch: HIP out of memory (caught)",
        "CUDA out of memory on batch 7, skipping",
        "skipping as of CUDA out of memory. Tried to allocate 2 GiB",
    ],
)
def test_an_error_that_was_caught_says_that_memory_ran_out(line):
    assert ends.reason([line]).outcome == "out_of_memory"
    assert ends.says_memory_ran_out(line)


@pytest.mark.parametrize(
    "said", ["CUDA out of memory. Lower the batch", "std::bad_alloc: out_of_memory: CUDA error at: m.hpp:80"]
)  # fmt: skip
def test_a_memory_error_that_names_cuda_is_of_the_gpu(said):
    assert ends.reason([f"MemoryError: {said}"]).meaning.startswith("out of GPU memory")
    assert ends.reason(["MemoryError"]).meaning.startswith("out of host memory")


def test_what_a_rank_lacked_counts_before_the_others_that_waited_for_it():
    lines = [
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank0]:[E ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout",
    ]
    assert ends.reason(lines).outcome == "out_of_memory"
    waited = ["[rank1]: ModuleNotFoundError: No module named 'apex'", lines[1]]
    assert ends.reason(waited).outcome == "unsupported"


CAUSES = {  # the end of an output, and the line of it that says why
    "KeyError: 'lr'\ndone": "KeyError: 'lr'",
    "hello\nbye": "bye",
    "KeyError: 'lr'\nsubprocess.CalledProcessError: Command '['python', 'a.py']' returned non-zero exit status 1.": "KeyError: 'lr'",
    "[rank0]: KeyError: 'lr'\n[rank1]: torch.distributed.DistBackendError: NCCL error, ncclRemoteError: A call failed": "[rank0]: KeyError: 'lr'",
    "ValueError: bad shard\n[rank2]: RuntimeError: NCCL communicator was aborted on 2": "ValueError: bad shard",
    "[1,0]<stderr>:KeyError: 'lr'\nmpirun noticed": "[1,0]<stderr>:KeyError: 'lr'",
    "0: KeyError: 'lr'\nsrun: error: node1: task 0": "0: KeyError: 'lr'",
    "3: ValueError: x\n0: slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026 ***": "3: ValueError: x",
    "srun: error: n1: task 1: Segmentation fault (core dumped)\nsrun: error: n1: tasks 0,2-3: Terminated": "srun: error: n1: task 1: Segmentation fault (core dumped)",
    "step 1\nmpirun noticed that process rank 1 with PID 42 on node n1 exited on signal 9 (Killed).\n-----": "mpirun noticed that process rank 1 with PID 42 on node n1 exited on signal 9 (Killed).",
    "[1,2]<stderr>:KeyError: 'lr'\n[1,0]<stderr>:RuntimeError: read failed\n  Process name: [[12345,1],2]": "[1,2]<stderr>:KeyError: 'lr'",
    "Rank 1: RuntimeError: x\nRank 0: RuntimeError: Connection closed by peer [::1]": "Rank 1: RuntimeError: x",
    'Traceback (most recent call last):\n  File "t.py"\nomegaconf.MissingMandatoryValue: model\n    full_key: model': "omegaconf.MissingMandatoryValue: model",
    'TypeError: forward()\nException ignored in: <function f>\nTraceback (most recent call last):\n  File "x.py"\nAttributeError: close': "TypeError: forward()",
    "Exception ignored in: <function f>\nAttributeError: close\nTraceback (most recent call last):\nValueError: x": "ValueError: x",
    "RuntimeError: x\nException ignored in: <function f>\nOSError: y": "RuntimeError: x",
    "  what():  CUDA error: an illegal access\nException raised from c10 at x.cpp:43": "  what():  CUDA error: an illegal access",
    'Traceback (most recent call last):\n  File "t.py"\n    assert a < b\nAssertionError': "AssertionError (assert a < b)",
    "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): 'fc.weight'.\n\tmore": "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): 'fc.weight'.",
    "(W pid=1) ValueError: bad config\nray.exceptions.RayTaskError(ValueError): ray::_Inner.train()\n  File x\nValueError: bad config\nray.train.base_trainer.TrainingFailedError: The Ray Train run failed.": "ValueError: bad config",
    "Key 'a' is not in struct\nSet HYDRA_FULL_ERROR=1": "Key 'a' is not in struct",
}


@pytest.mark.parametrize("lines", CAUSES)
def test_the_line_of_the_program_is_shown_and_not_that_of_its_launcher(lines):
    assert outcomes.last_error(lines.split("\n")) == CAUSES[lines]
    assert outcomes.last_error([]) == ""


def test_a_fork_server_of_programs_loads_every_reader():
    """A bug: it ended at a reader without a file of its own, and each attempt was spawned."""
    script = "from command.__main__ import preload; preload(); import sys; print('scalemark.readers.kinds.bars' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "True\n"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["a", "train.cu: error: no such device", "CUDA error: invalid argument", "done"], 2),
        (["step 3 error: 0.25", "NCCL error: unhandled", "bye"], 1),
        (["epoch 1 error: 0.25", "last"], 1),
    ],
)
def test_a_line_that_names_an_error_says_why(lines: list[str], wanted: int):
    assert outcomes.last_error(lines) == lines[wanted]


@pytest.mark.parametrize(
    ("second", "other", "is_whole"),
    [("step 2\n", "", True), ("x" * 100, "", False), ("step 2\n", "a warning\n", False)],
)
def test_a_log_is_read_again_where_it_holds_what_was_printed_and_nothing_else(
    second, other, is_whole
):
    path = Path("log.txt")
    path.write_text("before\n")
    with closing(ProgramLog(path, head_bytes=50)) as log:
        log.write(b"step 1\n", 0.5)
        log.flush()
        with path.open("a") as watcher:
            watcher.write(other)
        log.write(second.encode(), 1.5)
        log.flush()
        assert log.is_whole == is_whole
    if is_whole:
        assert (list(log.ends_bytes), list(log.arrivals_s)) == ([14, 21], [0.5, 1.5])
