"""``fovea demo``."""

from __future__ import annotations

from dataclasses import dataclass

from rich.markup import escape

from apps.commands.common import ModelOptions
from apps.output import Output


@dataclass(frozen=True, kw_only=True)
class Command(ModelOptions):
    """Serve the web demo on this machine until Ctrl-C.

    It listens on this machine alone unless --host says otherwise; there is no login.
    """

    host: str = "127.0.0.1"  # 0.0.0.0 lets the whole network in
    port: int = 7860  # of the web page
    json: bool = False  # print the address as JSON only

    def run(self, output: Output) -> int:
        """Load the model and serve."""
        from apps.demo.config import DemoConfig

        config = DemoConfig(host=self.host, port=self.port)
        from apps.demo.app import build_demo, serve
        from navigation.agent_config import HydraConfig

        self.check()
        vlm = self.load()
        hydra = HydraConfig(model=self.model, device=self.device)
        address = f"http://{self.host}:{self.port}"
        if not output.as_json:
            output.console.print(f"Fovea with {escape(vlm.name)}: {address} (Ctrl-C ends it)")
        output.json({"address": address, "model": vlm.name})
        serve(build_demo(vlm, config, hydra=hydra), config, block=True)
        return 0
