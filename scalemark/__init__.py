"""What every part of scalemark shares: records, run folders, statistics, text, and the host. No TensorFlow, no database."""
