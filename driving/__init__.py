"""Reasoning-VLA: planning a trajectory in one parallel pass."""
