"""Sentinel-VLA: driving a robot arm that watches its own status."""
