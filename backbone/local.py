"""The local engine: a transformers Qwen-VL model behind the `VLM` interface, with shared prefixes and named adapters.

One lock serves all callers: a method holds it for one call, so a demo and a server can share the weights. Results do
not depend on what was computed before: positions, samples' generators and adapters belong to the call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backbone.adapters import Adapters
from backbone.boxes import BoxConvention
from backbone.chat import Chat
from backbone.contracts import Image, check_image
from backbone.decoding import Rules, decode
from backbone.encoding import Cost, Encoder
from backbone.errors import CancelledError, ConfigError, DataError, ModelError
from backbone.network import Decoder, Network, RowsDecoder
from backbone.pixels import Pixels
from backbone.prefix import PrefixCache, PrefixState
from backbone.ragged import Row
from backbone.usage import encoded_cost, generation_of, generations_of, prefix_of
from backbone.vlm import VLM, Generation, Message, Messages, Prefix, check_lengths

END_TOKENS = ("<|im_end|>", "<|endoftext|>")


class LocalVLM(VLM):
    """Weights, processor, prefix cache and adapters of one model; build it with ``VLM.load``."""

    def __init__(self, name: str, model: Any, processor: Any, pixels: Pixels, cache_mebibytes: int) -> None:
        """``model`` and ``processor`` are transformers'; `backbone.loading` has checked that they fit together."""
        if cache_mebibytes < 0:
            raise ConfigError(f"cache_mebibytes must not be negative, got {cache_mebibytes}")
        self.name, self.pixels = name, pixels
        self.family = str(model.config.model_type)
        self.boxes = BoxConvention.for_family(self.family)
        self.model = model
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.network = Network(model)
        self._lock = threading.RLock()
        self.adapters = Adapters(model, self._probe, self._lock)
        self._chat = Chat(processor, pixels)
        self._cache = PrefixCache(cache_mebibytes * 2**20)
        self._encoder = Encoder(self.network, self._chat, self._cache)
        self._ends = _end_tokens(model, self.tokenizer)

    # Generation

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
        """See `VLM.generate`. A `Prefix` brings the adapter it was encoded with; naming another one is an error."""
        rules = self._rules(n, temperature, max_new_tokens, stop, choices, top_p)
        with self._call(_adapter_of(prompt, adapter)) as adapter:
            started = time.perf_counter()
            _check_cancel(cancel)
            state, cost = self._resolve(prompt, adapter)
            _check_cancel(cancel)
            positions = torch.full((n,), state.next_position)
            out = decode(
                lambda: Decoder(self.network, state.key_values, positions, room=max_new_tokens),
                self.network.logits(state.last_hidden).expand(n, -1),
                [(seed, i) for i in range(n)],
                rules,
                self.tokenizer,
                cancel,
                on_text,
            )
            return generation_of(out, cost, started, stage)

    def generate_batch(self, prompts: Sequence[Messages], **options: Any) -> list[Generation]:
        """See `VLM.generate_batch`; ``options`` are those of `generate`, ``on_text`` gets ``prompt * n + sample``.

        All prompts are encoded in one pass without the prefix cache; each ledger entry carries its own tokens and an
        equal part of the time.
        """
        known = {
            "n",
            "temperature",
            "top_p",
            "max_new_tokens",
            "stop",
            "choices",
            "adapter",
            "seed",
            "cancel",
            "on_text",
            "stage",
        }
        if unknown := sorted(set(options) - known):
            raise ConfigError(f"generate_batch: unknown options {unknown}; known: {sorted(known)}")
        n, seed, cancel = options.get("n", 1), options.get("seed", 0), options.get("cancel")
        sampling = (options.get("temperature", 0.0), options.get("max_new_tokens", 128))
        rules = self._rules(n, *sampling, options.get("stop", ()), options.get("choices"), options.get("top_p", 1.0))
        if not prompts:
            return []
        with self._call(options.get("adapter")) as adapter:
            started = time.perf_counter()
            _check_cancel(cancel)
            rendered = [self._chat.render(self._chat.prepare(p), generation_prompt=True) for p in prompts]
            batch = self._encoder.encode_batch(rendered, n, adapter, self._weights(), self.tokenizer.pad_token_id)
            seeds = [(seed, i) for _ in prompts for i in range(n)]
            out = decode(batch.make_decoder, batch.logits, seeds, rules, self.tokenizer, cancel, options.get("on_text"))
            costs = [encoded_cost(prompt) for prompt in rendered]
            return generations_of(out, costs, started, options.get("stage", "generate"))

    def generate_many(
        self,
        prefixes: Sequence[Prefix],
        *,
        seeds: Sequence[int],
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        cancel: threading.Event | None = None,
        on_text: Callable[[int, str], None] | None = None,
        stage: str = "generate",
    ) -> list[Generation]:
        """See `VLM.generate_many`."""
        check_lengths("generate_many", prefixes, seeds)
        states = [self._state(prefix) for prefix in prefixes]
        if not self._together(s.adapter for s in states):
            return super().generate_many(
                prefixes,
                seeds=seeds,
                temperature=temperature,
                top_p=top_p,
                max_new_tokens=max_new_tokens,
                stop=stop,
                cancel=cancel,
                on_text=on_text,
                stage=stage,
            )
        rules = self._rules(1, temperature, max_new_tokens, stop, None, top_p)
        with self._call(states[0].adapter):
            started = time.perf_counter()
            _check_cancel(cancel)
            logits = self.network.logits(torch.stack([s.last_hidden for s in states]))
            stepper = self._rows_decoder(states, max_new_tokens)
            try:
                seeded = [(seed, 0) for seed in seeds]
                out = decode(lambda: stepper, logits, seeded, rules, self.tokenizer, cancel, on_text)
            finally:
                stepper.release()
            return generations_of(out, [Cost(reused=len(s.ids)) for s in states], started, stage)

    def _rules(
        self, n: int, temperature: float, limit: int, stop: Sequence[str], choices: Sequence[str] | None, top_p: float
    ) -> Rules:
        if n < 1:
            raise ConfigError(f"n must be at least 1, got {n}")
        if isinstance(stop, str) or isinstance(choices, str):
            raise ConfigError("stop and choices are sequences of strings, got one string; put it in a tuple")
        return Rules(self._ends, temperature, limit, tuple(stop), None if choices is None else tuple(choices), top_p)

    # Prefixes

    def prefill(self, messages: Messages, *, adapter: str | None = None, generation_prompt: bool = True) -> Prefix:
        """See `VLM.prefill`."""
        return self.prefill_many([messages], adapter=adapter, generation_prompt=generation_prompt)[0]

    def extend(self, prefix: Prefix, messages: Messages, *, generation_prompt: bool = True) -> Prefix:
        """See `VLM.extend`.

        The whole conversation is rendered again, so that the template sees all of it; only what differs from ``prefix``
        is encoded. An assistant message continues the prefix's generation prompt.
        """
        state = self._state(prefix)
        with self._call(state.adapter):
            started = time.perf_counter()
            together = state.messages + self._chat.prepare(messages)
            return self._encoded([together], [state], state.adapter, generation_prompt, started, "extend")[0]

    def prefill_many(
        self, conversations: Sequence[Messages], *, adapter: str | None = None, generation_prompt: bool = True
    ) -> list[Prefix]:
        """See `VLM.prefill_many`."""
        with self._call(adapter):
            started = time.perf_counter()
            messages = [self._chat.prepare(m) for m in conversations]
            return self._encoded(messages, [None] * len(messages), adapter, generation_prompt, started, "prefill")

    def extend_many(
        self, prefixes: Sequence[Prefix], additions: Sequence[Messages], *, generation_prompt: bool = True
    ) -> list[Prefix]:
        """See `VLM.extend_many`."""
        check_lengths("extend_many", prefixes, additions)
        states = [self._state(prefix) for prefix in prefixes]
        if not self._together(s.adapter for s in states):
            return super().extend_many(prefixes, additions, generation_prompt=generation_prompt)
        with self._call(states[0].adapter):
            started = time.perf_counter()
            pairs = zip(states, additions, strict=True)
            messages = [state.messages + self._chat.prepare(added) for state, added in pairs]
            return self._encoded(messages, states, states[0].adapter, generation_prompt, started, "extend")

    def _encoded(
        self,
        conversations: Sequence[tuple[Message, ...]],
        bases: Sequence[PrefixState | None],
        adapter: str | None,
        generation_prompt: bool,
        started: float,
        name: str,
    ) -> list[Prefix]:
        prompts = [self._chat.render(m, generation_prompt=generation_prompt) for m in conversations]
        found = self._encoder.encode_many(prompts, adapter, self._weights(), bases)
        share = 1000 * (time.perf_counter() - started) / max(len(found), 1)
        return [prefix_of(state, cost, share, name) for state, cost in found]

    def next_logits(self, prefix: Prefix) -> Tensor:
        """Logits float32 (V,) of the token that follows the prefix."""
        state = self._state(prefix)
        with self._call(state.adapter):
            return self.network.logits(state.last_hidden)

    def next_logits_many(self, prefixes: Sequence[Prefix], paths: Sequence[Sequence[int]] | None = None) -> Tensor:
        """Logits float32 (B, V) of what follows each prefix, or each prefix and the tokens of its path, in one pass.

        The prefixes stay as they are.
        """
        paths = [()] * len(prefixes) if paths is None else paths
        check_lengths("next_logits_many", prefixes, paths)
        states = [self._state(prefix) for prefix in prefixes]
        if not self._together(s.adapter for s in states):
            return torch.stack([self._logits_after(p, path) for p, path in zip(prefixes, paths, strict=True)])
        with self._call(states[0].adapter):
            hidden = [state.last_hidden for state in states]
            longer = [i for i, path in enumerate(paths) if len(path)]
            if longer:
                tails = self._hidden_after([states[i] for i in longer], [paths[i] for i in longer])
                for i, tail in zip(longer, tails, strict=True):
                    hidden[i] = tail
            return self.network.logits(torch.stack(hidden))

    def _hidden_after(self, states: Sequence[PrefixState], paths: Sequence[Sequence[int]]) -> list[Tensor]:
        """Hidden state (D,) at the last token of every path after its state, in one pass."""
        device = self.network.device
        rows = [
            Row(s.history.continued(len(s.ids), len(p)), len(s.ids), len(p)) for s, p in zip(states, paths, strict=True)
        ]
        try:
            ids = torch.tensor([[token for path in paths for token in path]], device=device)
            where = [torch.arange(len(p)) + s.next_position for s, p in zip(states, paths, strict=True)]
            embeddings, _ = self.network.embed(ids, [])
            hidden = self.network.forward_rows(embeddings, torch.cat(where).expand(3, 1, -1), rows)
        finally:
            for row in reversed(rows):
                row.history.release(row.begin, row.begin + row.count)
        return [hidden[end - 1] for end in np.cumsum([row.count for row in rows])]

    def _logits_after(self, prefix: Prefix, path: Sequence[int]) -> Tensor:
        if not len(path):
            return self.next_logits(prefix)
        with torch.no_grad():
            embeddings = self.network.text.embed_tokens(torch.tensor(path, device=self.network.device))
            mask = torch.ones(len(path), prefix.length + len(path), dtype=torch.bool).tril(prefix.length)
            return self.network.logits(self.run(prefix, embeddings, mask)[-1].to(self.network.dtype))

    def run(self, prefix: Prefix, embeddings: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Extra embeddings attend to a prefix in one pass that leaves the prefix as it is.

        Args:
            prefix: T encoded tokens.
            embeddings: (Q, D) or (B, Q, D), in the language model's width D.
            mask: bool (Q, T + Q) or (B, Q, T + Q); True where a query may look: first the prefix, then the queries.
            positions: int (Q,) rotary positions relative to the first one after the prefix; default 0, 1, 2, ...

        Returns:
            Hidden states float32 after the final norm, in the shape of ``embeddings``. Gradients flow to whatever
            requires them (embeddings, adapters) unless the caller turned them off; the prefix is constant.

        Raises:
            DataError: shapes do not fit the prefix or the model, or a query may look at nothing.
        """
        state = self._state(prefix)
        batch = embeddings if embeddings.ndim == 3 else embeddings[None]
        shape = (*batch.shape[:2], len(state.ids) + batch.shape[1])
        allowed = mask if mask.ndim == 3 else mask[None].expand(shape[0], -1, -1)
        if batch.ndim != 3 or batch.shape[2] != self.network.width or allowed.dtype != torch.bool:
            raise DataError(
                f"run: expected embeddings (Q, {self.network.width}) or (B, Q, {self.network.width}) and a bool mask, "
                f"got {tuple(embeddings.shape)} and {mask.dtype}"
            )
        if tuple(allowed.shape) != shape:
            raise DataError(f"run: expected a mask of shape {shape[1:]} or {shape}, got {tuple(mask.shape)}")
        offsets = torch.arange(shape[1]) if positions is None else positions
        if offsets.shape != (shape[1],):
            raise DataError(f"run: expected positions of shape ({shape[1]},), got {tuple(offsets.shape)}")
        with self._call(state.adapter, grad=torch.is_grad_enabled()):
            batch = batch.to(self.network.device, self.network.dtype)
            where = (offsets.to(self.network.device) + state.next_position).expand(3, shape[0], -1)
            past = tuple((k.expand(shape[0], -1, -1, -1), v.expand(shape[0], -1, -1, -1)) for k, v in state.key_values)
            hidden, _ = self.network.forward(batch, where, past, self.network.attention_mask(allowed))
        return hidden.float().reshape(embeddings.shape)

    def hidden(self, prefix: Prefix, layers: Sequence[int]) -> Tensor:
        """Hidden states float32 (len(layers), T, D) of the prefix; recomputed in one pass, pictures are not.

        Layer 0 gives the embeddings, ``i`` what decoder layer ``i`` reads, the number of layers the output after the
        final norm; negative numbers count from there.
        """
        state = self._state(prefix)
        numbers = self._layer_numbers("hidden", layers)
        with self._call(state.adapter):
            return self._encoder.layer_inputs(state.ids, state.pictures, state.features, numbers)

    def key_values(self, prefix: Prefix, layer: int) -> tuple[Tensor, Tensor]:
        """Keys (rotated) and values of one layer, float32 (heads, T, head width) each; the caller's own copies."""
        state = self._state(prefix)
        if not -self.network.layers <= layer < self.network.layers:
            raise DataError(f"key_values: layer {layer} of {self.network.layers} does not exist")
        keys, values = state.key_values[layer]
        return keys[0].float().clone(), values[0].float().clone()

    def image_features(self, images: Sequence[Image], *, adapter: str | None = None) -> list[Tensor]:
        """What the vision tower gives the language model for each image: float32 (rows, columns, D) patch grids."""
        pictures = [self._chat.picture(check_image(image, f"image {i}")) for i, image in enumerate(images)]
        with self._call(adapter):
            features = self._encoder.features(pictures, adapter, self._weights())
        rows = [(p.grid[1] // self._chat.merge, p.grid[2] // self._chat.merge) for p in pictures]
        return [f.merged.float().reshape(*shape, -1).clone() for f, shape in zip(features, rows, strict=True)]

    def image_states(self, messages: Messages, *, layer: int = -1, adapter: str | None = None) -> list[Tensor]:
        """See `VLM.image_states`. What the vision tower made of a picture is kept: another question is cheap."""
        numbers = self._layer_numbers("image_states", [layer])
        with self._call(adapter):
            prompt = self._chat.render(self._chat.prepare(messages), generation_prompt=False)
            if not prompt.pictures:
                raise DataError("image_states: the messages hold no picture; give at least one image part")
            features = self._encoder.features(prompt.pictures, adapter, self._weights())
            for picture, seen in zip(prompt.pictures, features, strict=True):
                self._cache.keep(picture, adapter, self._weights(), seen)
            end = prompt.starts[-1] + prompt.pictures[-1].tokens  # what follows changes nothing
            states = self._encoder.layer_inputs(prompt.ids[:end], prompt.pictures, features, numbers)[0]
        grids = [(p.grid[1] // self._chat.merge, p.grid[2] // self._chat.merge) for p in prompt.pictures]
        return [
            states[start : start + rows * columns].reshape(rows, columns, -1).clone()
            for start, (rows, columns) in zip(prompt.starts, grids, strict=True)
        ]

    def fingerprint(self) -> str:
        """See `VLM.fingerprint`; adapters that are attached and not merged do not count."""
        with self._lock:
            return self.network.fingerprint()

    def forget(self) -> None:
        """Empty the prefix cache; prefixes that callers hold stay valid."""
        with self._lock:
            self._cache.clear()

    # Internals

    @contextmanager
    def _call(self, adapter: str | None, *, grad: bool = False) -> Iterator[str | None]:
        with self._lock, self.adapters.active(adapter), torch.set_grad_enabled(grad):
            yield adapter

    def _layer_numbers(self, name: str, layers: Sequence[int]) -> list[int]:
        count = self.network.layers + 1
        if not layers or any(not -count <= i < count for i in layers):
            raise DataError(f"{name}: layers must lie in {-count} to {count - 1}, got {list(layers)}")
        return [i % count for i in layers]

    def _together(self, adapters: Iterable[str | None]) -> bool:
        """Whether prefixes with these adapters can share a pass."""
        return self.network.ragged and len(set(adapters)) == 1

    def _rows_decoder(self, states: Sequence[PrefixState], limit: int) -> RowsDecoder:
        positions = torch.tensor([s.next_position for s in states])
        return RowsDecoder(self.network, [(s.history, len(s.ids)) for s in states], positions, limit)

    def _weights(self) -> int:
        return self.network.weights_version() + (self.adapters.version << 40)

    def _state(self, prefix: Prefix) -> PrefixState:
        state = prefix.state
        if not isinstance(state, PrefixState) or state.owner is not self._encoder:
            raise ModelError(f"prefix {prefix.key} was made by another model; prefill it with {self.name}")
        if state.weights != self._weights():
            raise ModelError(
                f"prefix {prefix.key} was made before the weights of {self.name} changed; prefill it again"
            )
        return state

    def _resolve(self, prompt: Messages | Prefix, adapter: str | None) -> tuple[PrefixState, Cost]:
        if isinstance(prompt, Prefix):
            return self._state(prompt), Cost(reused=prompt.length)
        rendered = self._chat.render(self._chat.prepare(prompt), generation_prompt=True)
        return self._encoder.encode(rendered, adapter, self._weights())

    def _probe(self) -> Tensor:
        """Logits of a fixed text; what `Adapters.merge` compares."""
        with torch.no_grad():
            ids = np.arange(32, dtype=np.int64) + 100
            embeddings, _ = self.network.embed(self._encoder.tokens(ids), [])
            hidden, _ = self.network.forward(embeddings, self.network.positions(ids, [])[:, None])
            return self.network.logits(hidden)


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    stated = getattr(model.generation_config, "eos_token_id", None)
    ends = set(stated if isinstance(stated, list) else [] if stated is None else [stated])
    unknown = tokenizer.unk_token_id
    named = {tokenizer.convert_tokens_to_ids(t) for t in END_TOKENS}
    return frozenset(int(i) for i in ends | named | {tokenizer.eos_token_id} if i is not None and i != unknown)


def _adapter_of(prompt: Messages | Prefix, adapter: str | None) -> str | None:
    if not isinstance(prompt, Prefix) or not isinstance(prompt.state, PrefixState):
        return adapter
    if adapter is not None and adapter != prompt.state.adapter:
        raise ModelError(
            f"prefix was encoded with adapter {prompt.state.adapter!r}, not {adapter!r}; prefill it with that"
        )
    return prompt.state.adapter


def _check_cancel(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise CancelledError("generation was cancelled before its first token")
