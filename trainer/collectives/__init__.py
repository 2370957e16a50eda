"""Reduce-scatter and all-gather over equal shards, which `sharded` variable updates exchange."""
