"""Parts of benchmarks/store.py."""
