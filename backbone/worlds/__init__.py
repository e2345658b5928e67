"""Worlds to act in: the one form they share, and the bridge to simulators in another interpreter."""
