"""The filters of command lines: which attempts, trials or published figures a command is about."""
