"""``fovea worlds list``."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rich.markup import escape

from apps.output import Output
from apps.world_states import WorldState, world_state
from apps.worlds import WORLDS

COLOURS = {"ready": "green", "missing": "yellow", "outdated": "yellow", "broken": "red"}


@dataclass(frozen=True, kw_only=True)
class Command:
    """List the worlds: what each is, whether it can be used here, and how to get it."""

    deep: bool = False  # also open each and take one step, which takes some seconds each
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Print one line a world."""
        states: list[WorldState] = []
        for name in WORLDS:
            state = world_state(name, deep=self.deep)
            states.append(state)
            if not output.as_json:
                colour = COLOURS[state.state]
                about = f"{state.system:<11} {escape(state.summary)}"
                output.console.print(f"[{colour}]{state.state:<9}[/]{name:<11}{about}")
                if state.state != "ready" or self.deep:
                    output.console.print(f"{'':<20}{escape(state.detail)}")
                if state.remedy:
                    output.console.print(f"{'':<20}-> {escape(state.remedy)}")
        output.json({"worlds": [asdict(state) for state in states]})
        return 0
