"""Text that people or other programs read: escaped, without secrets, and cut to size."""
