"""The shared vision-language backbone: contracts, model loading, prefixes, decoding, boxes, adapters, training."""
