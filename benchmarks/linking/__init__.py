"""What `benchmarks/links.py` measures beside the trials."""
