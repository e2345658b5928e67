"""Roads to drive on: highway-env with rendered cameras, and MetaDrive with recorded logs."""
