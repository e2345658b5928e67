"""Homes to navigate in: the embedded rooms and real Habitat."""
