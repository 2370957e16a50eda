"""The cost model: what a step takes on hardware that may not be here, with numpy only."""
