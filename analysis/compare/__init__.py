"""Which of two sides is faster, by how much, and how sure that is."""
