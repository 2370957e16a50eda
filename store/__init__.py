"""The results database and the words (`store.records`) that every other room uses."""
