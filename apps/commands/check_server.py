"""``fovea check server URL``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import tyro

from apps.commands.check_world import conclude, show
from apps.commands.common import token_from
from apps.output import Output
from backbone.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Command:
    """Check a policy server that speaks openpi's protocol, Fovea's or any other; what failed says what to do.

    Fovea's servers say themselves what to send them. For others give the keys: --like, or --keys with a JSON file such
    as {"observation/image": {"shape": [224, 224, 3], "dtype": "uint8"}, "prompt": {"dtype": "str"}}.
    """

    url: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="URL")]  # ws://HOST:PORT
    like: Literal["libero", "droid", "aloha"] | None = None  # send the observations of this platform
    keys: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # send observations of these keys
    prompt: str = ""  # the instruction that is sent; default: the one the server gives as an example
    token_env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None  # environment variable with the token
    timeout: float = 10.0  # seconds for every answer
    requests: int = 50  # timed
    hostile: bool = False  # also send frames that crash careless servers
    json: bool = False  # print the findings as JSON only

    def run(self, output: Output) -> int:
        """Run the checks; exit code 1 if one failed."""
        from backbone.checks.server import check_server
        from backbone.checks.server_probe import PRESETS, ServerProbe
        from backbone.serving.client import server_address

        if self.timeout <= 0 or self.requests < 1:
            raise ConfigError(f"--timeout and --requests must be positive, got {self.timeout} and {self.requests}")
        keys = PRESETS[self.like] if self.like else self._keys()
        probe = ServerProbe(
            _openpi_address(server_address(self.url), self.url),
            token_from(self.token_env),
            keys,
            self.prompt,
            self.timeout,
            self.requests,
            self.hostile,
        )
        return conclude(output, check_server(probe, lambda finding: show(output.console, finding)))

    def _keys(self) -> dict[str, Any] | None:
        if self.keys is None:
            return None
        from backbone.serving.keys import without_twins

        try:
            text = self.keys.read_text("utf-8")
            found = json.loads(text, object_pairs_hook=lambda pairs: without_twins(pairs, DataError))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.keys}: cannot be read as JSON ({error})") from error
        if not isinstance(found, dict) or not found:
            raise DataError(f"{self.keys}: expected an object of keys with shape and dtype")
        return found


def _openpi_address(address: str, given: str) -> str:
    """``address`` if it can be that of an openpi server; raises `ConfigError` for what surely is none."""
    parts = urlsplit(address)
    if parts.path.rstrip("/") == "/vla-eval":
        plain = f"{parts.scheme}://{parts.netloc}"
        raise ConfigError(
            f"{given}: this checker speaks openpi's protocol, and /vla-eval is for vla-eval's clients; "
            f"check the same server at its openpi address: fovea check server {plain}/"
        )
    if parts.port is None and "://" not in given:
        raise ConfigError(f"{given!r} is no address of a server: it names no port; write ws://HOST:PORT")
    return address
