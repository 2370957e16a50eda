"""Racing: which repeats are still worth running, now that some strategies are clearly slower than
others.
"""
