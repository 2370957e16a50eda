"""Tables and charts out of the database; reads through `store` and `analysis` only."""
