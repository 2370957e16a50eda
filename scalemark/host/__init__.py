"""The surroundings of a trial on its host: processes, memory, software, variables."""
