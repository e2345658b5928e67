"""Finding and checking a model by name: nano, a local directory, a hub id, or an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from backbone.errors import ConfigError, ModelError
from backbone.pixels import Pixels
from backbone.vlm import VLM

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
ATTENTION = ("sdpa", "eager", "flash_attention_2")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SHOWN = 8  # weight names quoted in an error


def load_vlm(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    pixels: Pixels | None = None,
    attention: str = "auto",
    cache_mebibytes: int = 512,
    timeout_s: float = 120.0,
) -> VLM:
    """What ``VLM.load`` does; see there.

    Raises:
        ConfigError: a setting is impossible, or the device is not there.
        ModelError: the model does not exist, is of another family, or its weights, tokenizer and config do not fit.
        RemoteError: from `backbone.remote`, for addresses.
    """
    if not name.strip():
        raise ConfigError("the model's name is empty; give nano, a hub id, a directory, or http://host:port/v1#model")
    if name.startswith(("http://", "https://")):
        from backbone.remote import RemoteVLM

        return RemoteVLM(name, pixels=pixels, timeout_s=timeout_s)
    place = _device(device)
    number = _dtype(dtype, place)
    form = _attention(attention, place)
    source, local = _source(name)
    _check_family(source, local)
    processor = _processor(source, local)
    model = _model(source, local, number, form)
    _check_tokens(name, model, processor)
    limits = _pixels(processor, pixels)
    from backbone.local import LocalVLM

    return LocalVLM(name, model.to(place), processor, limits, cache_mebibytes)


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"unknown device {device!r}; use auto, cpu, cuda or cuda:N") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {device!r} was asked for, but torch sees no GPU here; use --device cpu")
    return place


def _dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise ConfigError(f"unknown dtype {dtype!r}; use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _attention(attention: str, device: torch.device) -> str:
    if attention == "auto":
        return "sdpa"
    if attention not in ATTENTION:
        raise ConfigError(f"unknown attention {attention!r}; use auto, {', '.join(ATTENTION)}")
    if attention == "flash_attention_2" and device.type != "cuda":
        raise ModelError(f"attention 'flash_attention_2' needs a CUDA GPU, the device is {device.type}; use 'sdpa'")
    return attention


def _source(name: str) -> tuple[str, bool]:
    """Where the files are, and whether that is a directory here."""
    if name == "nano":
        from assets import NANO

        if not (NANO / "config.json").is_file():
            raise ModelError(f"nano's weights are not in {NANO}; rebuild them with: fovea train backbone")
        return str(NANO), True
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{path} has no config.json; expected a directory in hub layout (config, safetensors, tokenizer)"
            )
        return str(path), True
    if path.is_absolute() or name.startswith((".", "~")):
        raise ModelError(f"model directory {path} does not exist")
    return name, False


def _check_family(source: str, local: bool) -> None:
    family = _load("AutoConfig", source, local).model_type
    if family not in FAMILIES:
        raise ModelError(f"{source} is of model family {family!r}; supported: {', '.join(FAMILIES)}")


def _load(auto_class: str, source: str, local: bool, **options: Any) -> Any:
    """``from_pretrained`` with failures in one form; remote code is never run."""
    import transformers

    try:
        loader = getattr(transformers, auto_class)
        return loader.from_pretrained(source, local_files_only=local, trust_remote_code=False, **options)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, json.JSONDecodeError) as error:
        remedy = "check the files" if local else "check the hub id and the network, or give a local directory"
        raise ModelError(f"cannot load {source} ({auto_class}): {error}; {remedy}") from error


def _processor(source: str, local: bool) -> Any:
    processor = _load("AutoProcessor", source, local)
    missing = [part for part in ("tokenizer", "image_processor") if getattr(processor, part, None) is None]
    if missing:
        raise ModelError(f"{source}: the processor has no {' and no '.join(missing)}; copy the model's processor files")
    if not processor.chat_template:
        raise ModelError(f"{source} has no chat template; add the model's chat_template.jinja")
    return processor


def _model(source: str, local: bool, dtype: torch.dtype, attention: str) -> Any:
    options = {"dtype": dtype, "attn_implementation": attention, "use_safetensors": True, "output_loading_info": True}
    options["ignore_mismatched_sizes"] = True  # so that they are listed, and refused below by name
    with _quiet(local):
        model, info = _load("AutoModelForImageTextToText", source, local, **options)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(_weight(key) for key in info.get(kind) or ())
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise ModelError(
                f"{source}: {len(names)} {kind.replace('_keys', '')} weights: {', '.join(names[:SHOWN])}{more}; "
                "the files do not belong to this config"
            )
    if any(kind != "full_attention" for kind in getattr(model.config.text_config, "layer_types", None) or ()):
        raise ModelError(
            f"{source} has layers without full attention; prefixes of such models cannot be cut and reused"
        )
    return model.eval().requires_grad_(False)


def _weight(key: Any) -> str:
    if isinstance(key, str):
        return key
    name, found, wanted = key
    return f"{name} (found {list(found)}, expected {list(wanted)})"


@contextmanager
def _quiet(local: bool) -> Iterator[None]:
    """No progress bar for reading local files; downloads keep theirs."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    if local:
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _check_tokens(name: str, model: Any, processor: Any) -> None:
    """The tokenizer's vision tokens must be the ones that the model's config and embedding know."""
    tokenizer, config = processor.tokenizer, model.config
    wanted = {"<|image_pad|>": config.image_token_id, "<|vision_start|>": config.vision_start_token_id}
    vocabulary = tokenizer.get_vocab()
    for token, number in wanted.items():
        if vocabulary.get(token) != number:
            raise ModelError(
                f"{name}: the tokenizer gives {token} id {vocabulary.get(token)}, the model's config {number}; "
                "tokenizer and weights belong to different models"
            )
    rows = model.get_input_embeddings().num_embeddings
    if max(vocabulary.values()) >= rows:
        raise ModelError(f"{name}: the tokenizer has ids up to {max(vocabulary.values())}, the embedding {rows} rows")


def _pixels(processor: Any, pixels: Pixels | None) -> Pixels:
    images = processor.image_processor
    factor = images.patch_size * images.merge_size
    if pixels is None:
        return Pixels(images.size["shortest_edge"], images.size["longest_edge"], factor)
    if pixels.factor != factor:
        raise ConfigError(
            f"pixel limits have factor {pixels.factor}, the model's visual tokens are {factor} pixels wide"
        )
    return pixels
