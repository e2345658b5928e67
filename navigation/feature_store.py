"""What a vision tower that does not learn says of each picture, computed once: most of a training step is spared."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backbone.chat import Chat, Picture
from backbone.errors import ConfigError
from backbone.local import LocalVLM
from backbone.prefix import Features

AT_ONCE = 12  # pictures in one pass: of more, what passes between layers leaves a processor's cache


class FeatureStore:
    """Features by the pictures' digests, which hold their content; up to a limit of memory, never thrown away."""

    def __init__(self, vlm: LocalVLM, adapter: str | None, mebibytes: int) -> None:
        """The tower, with ``adapter``, must not change while the store is in use."""
        if mebibytes < 1:
            raise ConfigError(f"a store of features needs at least 1 MiB, got {mebibytes}")
        self._vlm, self._adapter = vlm, adapter
        self._chat = Chat(vlm.processor, vlm.pixels)
        self._room = mebibytes * 2**20
        self._known: dict[str, Features] = {}

    def __len__(self) -> int:
        """Pictures that are kept."""
        return len(self._known)

    def features(self, pictures: Sequence[Picture]) -> list[Features]:
        """The features of ``pictures`` in order; those seen for the first time go through the tower."""
        new = {p.digest: p for p in pictures if p.digest not in self._known}
        found = self._see(list(new.values()))
        for digest, features in found.items():
            size = sum(t.nbytes for t in (features.merged, *features.deepstack))
            if size <= self._room:
                self._room -= size
                self._known[digest] = features
        return [self._known.get(p.digest) or found[p.digest] for p in pictures]

    @torch.no_grad()
    def _see(self, pictures: Sequence[Picture]) -> dict[str, Features]:
        out: dict[str, Features] = {}
        with self._vlm.adapters.active(self._adapter):
            for begin in range(0, len(pictures), AT_ONCE):
                part = pictures[begin : begin + AT_ONCE]
                for picture, seen in zip(part, self._vlm.network.see(*self._chat.patches(part)), strict=True):
                    # copies: a picture's part of a common tensor would keep all of it alive
                    out[picture.digest] = Features(seen.merged.clone(), tuple(d.clone() for d in seen.deepstack))
        return out
