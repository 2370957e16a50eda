"""Records of errors that a GPU reports while a trial runs, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalemark.records.measurement import GpuTelemetry
from scalemark.records.validation import JsonRecord
from scalemark.text.wording import counted

# NVIDIA's own names, of "Xid Errors" (docs.nvidia.com/deploy/xid-errors)
_XID_NAMES = {
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors",
    48: "Double Bit ECC Error",
    62: "Internal micro-controller halt",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    79: "GPU has fallen off the bus",
    92: "High single-bit ECC error rate",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    109: "Context Switch Timeout Error",
    119: "GSP RPC Timeout",
    120: "GSP Error",
    140: "Unrecovered ECC Error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class XidError(JsonRecord):
    """An error that the driver reports by its number: a line of `gpu_errors.jsonl`.

    Each number is written once per GPU.
    """

    time_s: float  # time.monotonic(), as of the samples of telemetry
    uuid: str  # of the GPU, or of the MIG device; empty where the driver could not tell
    xid: int

    def __str__(self) -> str:
        name = _XID_NAMES.get(self.xid, "see NVIDIA's catalog of Xid errors")
        return f"{self.uuid or 'a GPU'} reported Xid {self.xid}: {name}"


def said_of_errors(gpu: GpuTelemetry) -> Iterator[str]:
    """Yield the reasons to doubt a measurement whose GPU had errors."""
    for xid in gpu.xids:
        yield str(XidError(time_s=0.0, uuid=gpu.uuid, xid=xid))
    if gpu.num_uncorrected_errors:
        errors = counted(gpu.num_uncorrected_errors, "memory error")
        yield f"{gpu.uuid} had {errors} that ECC could not correct"
