"""Reads throughput from what a training program prints or writes: one file per kind of program.

```
  bytes -> Lines -> open_reader("keras").read_line(line) -> Reading
                    one file of kinds/ per kind; FieldReader is what several of them share
```
"""

from scalemark.readers.log_text import Lines
from scalemark.readers.opening import KINDS, Reader, ReadError, Reading, open_reader

__all__ = ["KINDS", "Lines", "ReadError", "Reader", "Reading", "open_reader"]
