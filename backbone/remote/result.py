"""From a complete reply to a `Generation` with its ledger stage."""

from __future__ import annotations

import logging
from collections.abc import Callable

from backbone.contracts import Stage
from backbone.errors import RemoteError
from backbone.remote.choices import match
from backbone.remote.reply import STOPPED, Reply, Sample
from backbone.remote.request import Request
from backbone.vlm import Generation

logger = logging.getLogger(__name__)


class Reader:
    """Reads the replies of one server and says once, in the log, what that server leaves out."""

    def __init__(self, name: str, error: Callable[[str], RemoteError]) -> None:
        """``error`` makes a RemoteError that names the server."""
        self._name, self._error = name, error
        self._noted: set[str] = set()

    def read(self, reply: Reply, request: Request, visual_tokens: int, stage: str, milliseconds: float) -> Generation:
        """The generation of a reply; ``visual_tokens`` are those of the prompt's pictures.

        Raises:
            RemoteError: samples are missing, none of the choices was answered, or the counts contradict each other.
        """
        reply.check_complete()
        samples = reply.samples * (request.n // request.asked)
        texts = [match(s.text, request.choices, self._name) if request.choices else s.text for s in samples]
        # An answer that only begins with its choice has other tokens than the text returned.
        counts = [self._token_count(s) if s.text == t else 0 for s, t in zip(samples, texts, strict=True)]
        return Generation(
            tuple(texts),
            tuple(tuple(s.token_ids[:c]) for s, c in zip(samples, counts, strict=True)),
            tuple(tuple(s.log_probs[:c]) for s, c in zip(samples, counts, strict=True)),
            tuple(s.finish == STOPPED for s in samples),
            self._stage(reply, visual_tokens, stage, milliseconds),
        )

    def _token_count(self, sample: Sample) -> int:
        if not sample.log_probs:
            self._note("no log-probabilities", "log_probs are empty")
        if not sample.token_ids:
            self._note("no token ids", "token_ids are empty")
        if sample.log_probs and sample.token_ids and len(sample.log_probs) != len(sample.token_ids):
            raise self._error(f"gave {len(sample.token_ids)} token ids with {len(sample.log_probs)} log-probabilities")
        return sample.content_tokens()

    def _stage(self, reply: Reply, visual_tokens: int, name: str, milliseconds: float) -> Stage:
        lengths = [max(len(s.log_probs), len(s.token_ids)) for s in reply.samples]
        generated, prompt, note = reply.count("completion_tokens"), reply.count("prompt_tokens"), ""
        if generated is None or prompt is None:
            self._note("no usage", "the ledger counts visual tokens as the prompt, and the tokens that were listed")
            generated, prompt, note = sum(lengths), visual_tokens, "the server reported no usage"
        if visual_tokens > prompt:
            raise self._error(
                f"counted {prompt} prompt tokens, but the pictures alone are {visual_tokens} visual tokens at the "
                "limits used here: the served model has another family or smaller limits; state &max_pixels= or "
                "&factor= in the model's name"
            )
        reused = min(reply.cached_tokens(), prompt)
        return Stage(
            name,
            # The server does not say which tokens it reused; pictures come first in a prompt, the question last.
            visual_tokens=min(visual_tokens, prompt - reused),
            prompt_tokens=prompt - reused,
            reused_tokens=reused,
            generated_tokens=generated,
            forward_passes=max(lengths) or -(-generated // len(lengths)),
            milliseconds=milliseconds,
            first_token_ms=reply.first_token_ms,
            reason=note,
        )

    def _note(self, what: str, consequence: str) -> None:
        if what not in self._noted:
            self._noted.add(what)
            logger.warning("model server %s gives %s: %s", self._name, what, consequence)
