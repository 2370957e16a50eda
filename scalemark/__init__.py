"""Records, run folders, statistics, text, and the host: shared by all rooms. No TensorFlow."""
