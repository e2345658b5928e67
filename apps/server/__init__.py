"""One policy behind two protocols on one port: openpi's on ``/``, vla-eval's on ``/vla-eval``, health and metrics."""
