"""What the name of a remote model says: ``http://host:port/v1#model?family=qwen3_vl&max_pixels=1048576``.

The fragment is optional. ``model`` may be left out where the server serves exactly one. ``family``, ``min_pixels``,
``max_pixels`` and ``factor`` override what the served model's own name tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from backbone.boxes import BoxConvention
from backbone.errors import ConfigError, ModelError
from backbone.pixels import Pixels

FORM = "http://host:port/v1#model?family=qwen3_vl"
KEYS = ("family", "min_pixels", "max_pixels", "factor")

# Limits in the families' published preprocessor_config.json; factor is patch size times merge size.
_QWEN2 = Pixels(56 * 56, 12_845_056, 28)
_QWEN3 = Pixels(65_536, 16_777_216, 32)
FAMILIES = {"qwen2_vl": _QWEN2, "qwen2_5_vl": _QWEN2, "qwen3_vl": _QWEN3, "qwen3_vl_moe": _QWEN3, "qwen3_5": _QWEN3}
# Checked in this order; Qwen3.5 models are vision-language models without "VL" in their name.
_NAMES = (
    (r"qwen2[._-]5[._-]?vl", "qwen2_5_vl"),
    (r"qwen2[._-]?vl", "qwen2_vl"),
    (r"qwen3[._-]?vl[._-]?\d+b[._-]?a\d+b", "qwen3_vl_moe"),
    (r"qwen3[._-]?vl", "qwen3_vl"),
    (r"qwen3[._-]5", "qwen3_5"),
)


@dataclass(frozen=True)
class Address:
    """A parsed remote name. ``url`` is the API's root, as ``http://host:port/v1``; ``None`` means not stated."""

    name: str
    url: str
    host: str
    port: int
    model: str | None
    family: str | None
    min_pixels: int | None = None
    max_pixels: int | None = None
    factor: int | None = None

    @classmethod
    def parse(cls, name: str) -> Address:
        """Read a remote name; raises `ConfigError` for any other form, unknown keys, or credentials in the URL."""
        try:
            parts = urlsplit(name)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise ConfigError(f"remote model {name!r} is not a URL ({error}); expected {FORM}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"remote model {name!r}: expected {FORM}")
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "remote model: put no credentials in the URL (it is recorded in results); set FOVEA_API_KEY"
            )
        if parts.query:
            raise ConfigError(f"remote model {name!r}: options belong behind the #, as in {FORM}")
        model, _, query = parts.fragment.partition("?")
        options = _options(query, name)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        url = f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
        numbers = {key: _whole(options[key], key, name) for key in KEYS[1:] if key in options}
        return cls(name, url, parts.hostname, port, model or None, options.get("family"), **numbers)

    def resolve(self, served_names: tuple[str, ...]) -> tuple[str, Pixels]:
        """The model family and its pixel limits, from the name's own options, else from what the server calls it.

        Raises:
            ConfigError: nothing tells the family, or it is unknown.
        """
        family = self.family or next((f for f in map(infer_family, served_names) if f), None)
        if family is None:
            raise ConfigError(
                f"remote model {self.name!r}: the names {list(served_names)} do not tell the model family, which "
                f"decides how boxes are written; give it as {self.url}#{served_names[0]}?family=FAMILY with one of "
                f"{', '.join(FAMILIES)}"
            )
        try:
            BoxConvention.for_family(family)
        except ModelError as error:
            raise ConfigError(f"remote model {self.name!r}: {error}") from None
        if family not in FAMILIES and None in (self.min_pixels, self.max_pixels, self.factor):
            raise ConfigError(
                f"remote model {self.name!r}: pixel limits of family {family!r} are not known here (known: "
                f"{', '.join(FAMILIES)}); add &min_pixels=...&max_pixels=...&factor=... to the name"
            )
        base = FAMILIES.get(family, _QWEN3)
        return family, Pixels(
            base.minimum if self.min_pixels is None else self.min_pixels,
            base.maximum if self.max_pixels is None else self.max_pixels,
            base.factor if self.factor is None else self.factor,
        )


def infer_family(model: str) -> str | None:
    """The transformers ``model_type`` that a model's published name stands for, or ``None``."""
    return next((family for pattern, family in _NAMES if re.search(pattern, model, re.IGNORECASE)), None)


def _options(query: str, name: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    unknown = sorted(set(options) - set(KEYS))
    if unknown or len(options) != len(pairs) or (query and not pairs):
        raise ConfigError(
            f"remote model {name!r}: options behind the ? are {', '.join(KEYS)}, each once; got {query!r}"
        )
    return options


def _whole(text: str, key: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"remote model {name!r}: {key} must be a whole number, got {text!r}")
    return int(text)
