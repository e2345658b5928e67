"""Models behind an OpenAI-compatible server such as vLLM or SGLang."""

from backbone.remote.model import RemoteVLM

__all__ = ["RemoteVLM"]
