"""Generated homes: what is in them, how they look, how far it is from here to there."""
