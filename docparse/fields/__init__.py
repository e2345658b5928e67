"""Evidence fields: what every word and patch of a document says about a question."""
