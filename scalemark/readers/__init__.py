"""Reads throughput from what a training program prints or writes: one file per kind of program.

```
  bytes -> Lines -> open_reader("keras").read_line(line) -> Reading
                    one file of kinds/ per kind; FieldReader is what several of them share
```
"""
