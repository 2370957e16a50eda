"""The results database and the words (`scalemark.records`) that every other room uses."""
