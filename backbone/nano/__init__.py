"""Nano: a small model of Qwen3-VL's own classes, trained from nothing on a CPU."""
