"""`python benchmarks/storing/reader.py DATABASE TIMES FILTER...`: one of many readers. Prints how
many seconds each list took.
"""

import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from store.database import open_for_reading
from store.reading import queries

url, times, *filters = sys.argv[1:]
for _ in range(int(times)):
    began = time.perf_counter()
    engine = open_for_reading(url)
    with queries.streamed(engine, queries.listing(engine, filters)) as (_columns, rows):
        assert list(rows)
    print(time.perf_counter() - began, flush=True)
