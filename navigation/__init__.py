"""Hydra-Nav: finding an object in an unseen home, with fast steps and slow reasoning only when needed."""
