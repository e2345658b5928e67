"""A vision-language model behind an OpenAI-compatible server: text generation with images.

It has no hidden states, key/value caches or prefixes: those calls raise `UnsupportedError`. The server's own prefix
cache still works, and what it reports as reused is counted as such in the ledger.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from backbone.boxes import BoxConvention
from backbone.errors import ConfigError, UnsupportedError
from backbone.pixels import Pixels
from backbone.remote.address import Address
from backbone.remote.messages import to_chat
from backbone.remote.reply import Reply
from backbone.remote.request import Request
from backbone.remote.result import Reader
from backbone.remote.transport import Transport
from backbone.vlm import VLM, Generation, Messages, Prefix

API_KEY = "FOVEA_API_KEY"  # sent as a bearer token; never OPENAI_API_KEY, which belongs to another host


class RemoteVLM(VLM):
    """A served model, named ``http://host:port/v1#model?family=qwen3_vl`` (see `backbone.remote.address`).

    Differences from local weights: ``log_probs`` and ``token_ids`` hold empty tuples where the server gives none (a
    warning is logged once). ``forward_passes`` counts one for each token of the longest sample, since servers do not
    report theirs. Pictures are resized here by ``pixels``, so limits and boxes hold whatever the server's own limits
    are. Usable from several threads; `close` it, or use it as a context manager.
    """

    def __init__(
        self,
        name: str,
        *,
        pixels: Pixels | None = None,
        timeout_s: float = 120.0,
        connect_timeout_s: float = 5.0,
        retries: int = 2,
        concurrency: int = 8,
    ) -> None:
        """Connect and find the model.

        Args:
            name: see the class.
            pixels: limits to use instead of the family's own (and the name's).
            timeout_s: longest wait for the server's next sign of life, in seconds.
            connect_timeout_s: longest wait for a connection, in seconds.
            retries: further tries after a failed connection, 429 or 503; never after an answer has begun.
            concurrency: requests under way at once.

        Raises:
            ConfigError: the name is malformed or does not tell the model family.
            RemoteError: the server does not answer, is none, or does not serve the model.
        """
        if not timeout_s > 0 or not connect_timeout_s > 0 or retries < 0 or concurrency < 1:
            raise ConfigError(
                "remote model: timeouts must be positive, retries >= 0 and concurrency >= 1, got "
                f"{timeout_s}, {connect_timeout_s}, {retries}, {concurrency}"
            )
        address = Address.parse(name)
        self.name = name
        self._transport = Transport(
            address.url,
            connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s,
            retries=retries,
            concurrency=concurrency,
            api_key=os.environ.get(API_KEY),
        )
        try:
            self._served = self._list_models()
            self.model = self._choose_model(address.model)
            entry = self._served[self.model]
            names = (self.model, *(str(entry[key]) for key in ("root", "parent") if entry.get(key)))
            self.family, own_pixels = address.resolve(names)
        except BaseException:
            self.close()
            raise
        self.pixels = pixels or own_pixels
        self.boxes = BoxConvention.for_family(self.family)
        self._server = str(entry.get("owned_by", "")).lower()
        self._reader = Reader(name, self._transport.error)

    def close(self) -> None:
        """End running requests and free the connections; returns at once. Calls after it raise `RemoteError`."""
        self._transport.close()

    def __enter__(self) -> RemoteVLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def generate(
        self,
        prompt: Messages | Prefix,
        *,
        n: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        choices: Sequence[str] | None = None,
        adapter: str | None = None,
        seed: int = 0,
        cancel: threading.Event | None = None,
        on_text: Callable[[int, str], None] | None = None,
        stage: str = "generate",
    ) -> Generation:
        """As `VLM.generate`; ``adapter`` is the name under which the server serves a LoRA adapter.

        Greedy samples are all equal, so ``temperature`` 0 asks for one and repeats it. ``choices`` are constrained by
        vLLM and SGLang, which may spell one in other tokens than the tokenizer would and give log-probabilities under
        the constraint; any other server's free answer is matched, and is an error when it is none of them.

        Raises:
            ConfigError: an impossible setting.
            DataError: malformed messages or pictures.
            RemoteError: the server fails, answers something else, or does not serve ``adapter``.
            UnsupportedError: ``prompt`` is a prefix.
            CancelledError: ``cancel`` was set; the connection was closed, which ends generation on the server.
        """
        request = Request(n, temperature, max_new_tokens, stop, choices, adapter, seed, top_p)
        return self._run([prompt], request, stage, cancel, on_text)[0]

    def generate_batch(
        self,
        prompts: Sequence[Messages],
        *,
        cancel: threading.Event | None = None,
        stage: str = "generate",
        **options: Any,
    ) -> list[Generation]:
        """One generation per prompt by concurrent requests, which the server batches; options as `generate`.

        The first failure ends the others. ``on_text`` is refused: it could not say which prompt a piece belongs to.
        """
        if options.pop("on_text", None) is not None:
            raise ConfigError("generate_batch: on_text cannot tell the prompts apart; stream with generate()")
        return self._run(prompts, Request(**options), stage, cancel, None)

    def _run(
        self,
        prompts: Sequence[Messages | Prefix],
        request: Request,
        stage: str,
        cancel: threading.Event | None,
        on_text: Callable[[int, str], None] | None,
    ) -> list[Generation]:
        model = self.model if request.adapter is None else self._choose_model(request.adapter)
        settings = request.body(model, self._server)
        if any(isinstance(prompt, Prefix) for prompt in prompts):
            raise UnsupportedError(f"{self.name}: a remote model keeps no prefixes; give it the whole messages")
        chats = [to_chat(prompt, self.pixels) for prompt in prompts if not isinstance(prompt, Prefix)]
        replies = [Reply(request.asked, self._transport.error) for _ in chats]

        def on_event(index: int, milliseconds: float, event: dict[str, Any]) -> None:
            for sample, piece in replies[index].add(milliseconds, event):
                if on_text is not None:
                    for copy in range(sample, request.n, request.asked):
                        on_text(copy, piece)

        times = self._transport.stream([{**settings, "messages": chat} for chat, _ in chats], on_event, cancel)
        return [
            self._reader.read(reply, request, sum(self.visual_tokens(*size) for size in sizes), stage, took)
            for reply, (_, sizes), took in zip(replies, chats, times, strict=True)
        ]

    def _list_models(self) -> dict[str, dict[str, Any]]:
        """What the server serves, by name."""
        answer = self._transport.get_json("/models")
        data = answer.get("data")
        entries = data if isinstance(data, list) else []
        served = {e["id"]: e for e in entries if isinstance(e, dict) and isinstance(e.get("id"), str)}
        if not served or len(served) != len(entries):
            raise self._transport.error(
                f"/models answered {str(answer)[:200]}; expected {{'data': [{{'id': ...}}]}} with at least one model"
            )
        return served

    def _choose_model(self, wanted: str | None) -> str:
        """The wanted model or adapter if it is served, or the only base model (adapters state their parent)."""
        if wanted is None:
            base = [name for name, entry in self._served.items() if not entry.get("parent")]
            if len(base) == 1:
                return base[0]
            raise self._transport.error(f"serves {len(base)} models; name one behind a #: {', '.join(self._served)}")
        if wanted not in self._served:
            raise self._transport.error(f"does not serve {wanted!r}; it serves: {', '.join(self._served)}")
        return wanted
