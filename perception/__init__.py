"""SPARC: find where a question has to be looked at in a small copy of the image, then answer from close-ups."""
