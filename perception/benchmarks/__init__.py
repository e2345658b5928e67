"""Benchmarks of visual search: generated mini-V* and loaders for V*Bench, HR-Bench and XLRS-Bench."""
