"""One page for a browser that needs nothing else: summary, tables, charts, commands, provenance."""
