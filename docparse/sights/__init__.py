"""Questions for what has no words: which figure, where the signature is. Found through the words that stand by it."""
