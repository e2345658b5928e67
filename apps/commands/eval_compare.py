"""``fovea eval compare A B``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from apps.output import Output


@dataclass(frozen=True, kw_only=True)
class Command:
    """Compare two runs over the same items: paired difference with a 95 % interval, McNemar's test, costs."""

    a: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="A")]  # folder of one run
    b: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="B")]  # folder of the other
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Compare and print."""
        from perception.compare import compare

        result = compare(self.a, self.b)
        if not output.as_json:
            accuracy, difference = result["accuracy"], result["accuracy"]["difference"]
            output.console.print(f"A  {escape(str(self.a))}\nB  {escape(str(self.b))}")
            output.console.print(
                f"accuracy A {accuracy['a']:.3f}, B {accuracy['b']:.3f}, A - B {difference['estimate']:+.3f} "
                f"({difference['low']:+.3f} to {difference['high']:+.3f}), McNemar p = {accuracy['mcnemar_p']:.2g}, "
                f"n = {accuracy['n']}"
            )
            table = Table("mean of an item", "A", "B", "A / B")
            for name, cost in result["costs"].items():
                ratio = "" if cost["ratio"] is None else f"{cost['ratio']:.3g}"
                table.add_row(name.replace("_", " "), f"{cost['a']:,.1f}", f"{cost['b']:,.1f}", ratio)
            output.console.print(table)
        output.json(result)
        return 0
