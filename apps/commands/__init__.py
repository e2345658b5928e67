"""One file a command: a frozen dataclass of its options with a ``run`` method. `REGISTRY` is the whole list.

A command's module is imported only when that command runs, so ``fovea --help`` stays fast and a missing simulator or
demo library never breaks another command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from apps.output import Output


class Command(Protocol):
    """What every command module offers under the name ``Command``: options as fields, and ``run``."""

    __dataclass_fields__: ClassVar[dict[str, object]]
    json: bool

    def run(self, output: Output) -> int:
        """Do the work and return the exit code: 0 done, 1 a stated failure; see `apps.cli` for the others."""
        ...


@dataclass(frozen=True)
class Entry:
    """Where a command lives and what the overview says of it."""

    module: str
    summary: str
    example: str


REGISTRY: dict[tuple[str, ...], Entry] = {
    ("ask",): Entry(
        "apps.commands.ask", "answer a question about a picture", 'fovea ask photo.jpg "What colour is the flag?"'
    ),
    ("read",): Entry(
        "apps.commands.read",
        "answer a question about a document, with the place it stands at",
        'fovea read contract.pdf "When does the lease end?" --output runs/read',
    ),
    ("demo",): Entry("apps.commands.demo", "the same in a web page on this machine", "fovea demo --port 7860"),
    ("doctor",): Entry("apps.commands.doctor", "what works on this machine, and how to get the rest", "fovea doctor"),
    ("eval", "perception"): Entry(
        "apps.commands.eval_perception",
        "score a method on a benchmark of tiny things in large pictures",
        "fovea eval perception ministar --method sparc --regime 256 --limit 40",
    ),
    ("eval", "navigation"): Entry(
        "apps.commands.eval_navigation",
        "measure an agent that finds objects: SR, SPL, SOT, how often it reasons, why it fails",
        "fovea eval navigation --world rooms --n 300 --strategy learned",
    ),
    ("eval", "docparse"): Entry(
        "apps.commands.eval_docparse",
        "score a reader of documents, alone or against another",
        "fovea eval docparse runs/records --limit 500 --output runs/eval-flow",
    ),
    ("eval", "thoughts"): Entry(
        "apps.commands.eval_thoughts",
        "what a navigating model's thoughts get right: objects found, sides, rooms, plans",
        "fovea eval thoughts --data runs/navigation-stage2-rooms-7 --n 300",
    ),
    ("eval", "switch"): Entry(
        "apps.commands.eval_switch",
        "calibrate when a robot should think, with a stated risk",
        "fovea eval switch --always runs/always --runs 0.05=runs/low 0.2=runs/high",
    ),
    ("eval", "compare"): Entry(
        "apps.commands.eval_compare",
        "compare two runs item by item",
        "fovea eval compare runs/ministar-nano-sparc-256-4 runs/ministar-nano-native-256-4",
    ),
    ("data", "ministar"): Entry(
        "apps.commands.data_ministar",
        "generate pictures with tiny things, questions and boxes",
        "fovea data ministar --count 20 --output runs/ministar",
    ),
    ("data", "documents"): Entry(
        "apps.commands.data_documents",
        "generate documents with questions, answers and evidence",
        "fovea data documents --split held_out --n 50 --output runs/documents",
    ),
    ("data", "sample"): Entry("apps.commands.data_sample", "make the sample picture again", "fovea data sample"),
    ("data", "records"): Entry(
        "apps.commands.data_records",
        "generated documents as training records of the reader",
        "fovea data records --split train --n 2000 --output runs/records",
    ),
    ("data", "sample-document"): Entry(
        "apps.commands.data_sample_document", "make the sample document again", "fovea data sample-document"
    ),
    ("data", "record"): Entry(
        "apps.commands.data_record",
        "record an agent's episodes as a LeRobot data set",
        "fovea data record metaworld --agent expert --episodes 20 --output runs/drawer",
    ),
    ("data", "navigation"): Entry(
        "apps.commands.data_navigation",
        "make training trajectories of finding objects",
        "fovea data navigation stage2 --world rooms --episodes 2000 --workers 2",
    ),
    ("worlds", "list"): Entry("apps.commands.worlds_list", "the worlds, and how to get each", "fovea worlds list"),
    ("worlds", "install"): Entry(
        "apps.commands.worlds_install",
        "build the environment of a simulator that needs its own Python",
        "fovea worlds install habitat",
    ),
    ("train", "backbone"): Entry(
        "apps.commands.train_backbone", "rebuild nano from nothing on a CPU", "fovea train backbone --output runs/nano"
    ),
    ("train", "perception"): Entry(
        "apps.commands.train_perception",
        "train the looking circuit alone, as a LoRA adapter",
        "fovea train perception --output runs/looking",
    ),
    ("train", "docparse"): Entry(
        "apps.commands.train_docparse",
        "train the reader of documents, or one of its rivals",
        "fovea train docparse --records runs/records --output runs/docparse",
    ),
    ("train", "navigation"): Entry(
        "apps.commands.train_navigation",
        "train the navigating agent: sight, stage1, stage2, irft",
        "fovea train navigation stage1 --data runs/navigation-stage1-rooms-0",
    ),
    ("rollout",): Entry(
        "apps.commands.rollout",
        "let an agent act in a world, and measure it",
        "fovea rollout rooms --agent expert --episodes 100 --workers 2 --video 3",
    ),
    ("serve",): Entry(
        "apps.commands.serve",
        "serve an agent to robots and evaluators",
        "fovea serve metaworld --agent metaworld-expert --port 8000",
    ),
    ("check", "server"): Entry(
        "apps.commands.check_server",
        "whether a policy server does what its clients rely on",
        "fovea check server ws://127.0.0.1:8000",
    ),
    ("check", "world"): Entry(
        "apps.commands.check_world", "whether a world does what worlds must", "fovea check world rooms"
    ),
    ("check", "policy"): Entry(
        "apps.commands.check_policy",
        "whether an agent does what agents must",
        "fovea check policy random --world rooms",
    ),
    ("reproduce",): Entry(
        "apps.commands.reproduce", "measure the claims of the README again", "fovea reproduce --list"
    ),
}
