"""Evidence as a law on the pages that sharpens in Jordan-Kinderlehrer-Otto steps, from coarse cells to words."""
