"""Arms to drive: Meta-World and LIBERO."""
