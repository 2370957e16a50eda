"""The cost model: what a training step takes on hardware that may not be here. Standard library and
numpy only.
"""
