"""Reading a file takes about as much memory as the file has bytes, whatever it is allowed to have."""

import tracemalloc
from pathlib import Path

import pytest

from scalemark.run_folder import read_regular


def test_a_small_file_takes_little_memory_whatever_the_limit():
    Path("small").write_text("ä" * 1000)
    tracemalloc.start()
    try:
        assert read_regular(Path("small"), 2**28) == "ä" * 1000
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_file_of_just_the_limit_is_read_and_one_byte_more_is_refused():
    Path("full").write_bytes(b"x" * 5000)
    assert read_regular(Path("full"), 5000) == "x" * 5000
    with pytest.raises(OSError, match="found more than 4999 bytes, wanted no more"):
        read_regular(Path("full"), 4999)
