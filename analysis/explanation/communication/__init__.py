"""What gradients take on their way: bytes, links, and whether a loss is communication."""
