"""Documents: find the evidence of a question on the pages, coarse to fine, and answer from it."""
