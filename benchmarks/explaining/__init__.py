"""What `benchmarks/explain.py` asks explanations about."""
