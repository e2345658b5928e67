"""Settings of the demo."""

from __future__ import annotations

from dataclasses import dataclass

from backbone.errors import ConfigError
from backbone.images import ImageLimits


@dataclass(frozen=True)
class DemoConfig:
    """Where the demo listens and what it lets its users spend."""

    host: str = "127.0.0.1"  # this machine alone; there is no login
    port: int = 7860
    max_upload_mb: float = 32.0  # 1 MB is 1,000,000 bytes
    max_megapixels: float = 100.0  # decoding needs 7 bytes a pixel: 0.7 GB at the limit
    max_queue: int = 8  # runs waiting; one more is refused
    deadline_s: float = 120.0  # longest a run may compute
    max_worlds: int = 2  # worlds open at once; each holds a simulator
    world_deadline_s: float = 900.0  # longest an episode may be watched
    max_document_pages: int = 100  # pages read of a document; the rest is left out and said
    document_deadline_s: float = 300.0  # longest a document may be read and asked

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigError(f"port must be 1 to 65535, got {self.port}")
        for name in ("max_queue", "max_worlds", "max_document_pages"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("max_upload_mb", "max_megapixels", "deadline_s", "world_deadline_s", "document_deadline_s"):
            if not getattr(self, name) > 0:  # also true for NaN
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def max_upload_bytes(self) -> int:
        """The upload limit in bytes."""
        return round(self.max_upload_mb * 1e6)

    @property
    def image_limits(self) -> ImageLimits:
        """The same limits for the decoder."""
        return ImageLimits(max_pixels=round(self.max_megapixels * 1e6), max_bytes=self.max_upload_bytes)
