"""What surrounds a trial on its host: processes, memory, software, environment variables."""
