"""How strategies scale: curves, laws, crossovers, and from how many GPUs on more do not pay."""
