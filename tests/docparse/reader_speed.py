"""How long the reader takes and how much memory it needs, on documents made here.

    python -m tests.docparse.reader_speed [--weights DIR] [--pages 200]

prints one JSON: seconds by the clock and of the processors for a page with text, a scanned page and a long document,
each from opening to the answer after everything is loaded, and the peak memory of both processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from reportlab.pdfgen.canvas import Canvas

from docparse.documents import Limits, open_document
from docparse.documents.workshop import shared_workshop
from docparse.pipeline import DocumentReader
from tests.docparse.making_documents import pdf, scan_of
from tests.docparse.untrained import untrained_reader

A4 = (595.0, 842.0)
LINES, WORDS_A_LINE = 45, 8  # of a page: 360 words
NAMES = ("river", "stone", "amber", "cloud", "maple", "harbor", "signal", "copper", "window", "garden", "lantern")


def sentence(rng: np.random.Generator) -> str:
    return " ".join(
        f"{rng.choice(NAMES)}{rng.integers(1000) if rng.random() < 0.3 else ''}" for _ in range(WORDS_A_LINE)
    )


def text_document(pages: int) -> bytes:
    rng = np.random.default_rng(7)

    def draw(canvas: Canvas) -> None:
        for line in range(LINES):
            canvas.drawString(50, 800 - 17 * line, sentence(rng))

    return pdf(draw, pages, A4)


def scanned_document() -> bytes:
    rng = np.random.default_rng(7)
    image = Image.new("RGB", (1240, 1754), "white")
    draw = ImageDraw.Draw(image)
    for line in range(LINES):
        draw.text((90, 80 + 35 * line), sentence(rng), font=ImageFont.load_default(22), fill="black")
    return scan_of(image, A4)


def processor_seconds() -> float:
    """Of this process and of the reading process."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    pid = shared_workshop().pid
    if pid is not None:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def peak_megabytes() -> dict[str, float]:
    pids = {"program": os.getpid(), "reading process": shared_workshop().pid}
    found = {}
    for name, pid in pids.items():
        lines = Path(f"/proc/{pid}/status").read_text().splitlines() if pid else []
        found[name] = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
    return {**found, "both": sum(found.values())}


def timed(reader: DocumentReader, data: bytes) -> dict[str, Any]:
    clock, work = time.perf_counter(), processor_seconds()
    with open_document(data, Limits(page_seconds=600)) as document:  # on a busy machine, too
        session = reader.session(document)
        read = time.perf_counter() - clock
        answer = session.ask("Which number follows the harbor lantern?")
    return {
        "seconds": round(time.perf_counter() - clock, 3),
        "processor_seconds": round(processor_seconds() - work, 3),
        "reading_seconds": round(read, 3),
        "words": len(session.words),
        "source": session.pages[0].source,
        "steps": [step.name for step in answer.steps],
        "notes": list(answer.notes),
    }


def median_of(measure: Callable[[], dict[str, Any]], times: int) -> dict[str, Any]:
    runs = sorted((measure() for _ in range(times)), key=lambda run: run["seconds"])
    return {**runs[len(runs) // 2], "n": times}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--scan", action="store_true", help="the scanned page as well")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    reader = DocumentReader.load(given.weights) if given.weights else untrained_reader()
    one, long, scan = text_document(1), text_document(given.pages), scanned_document()
    timed(reader, one)  # loads everything but OCR
    result: dict[str, Any] = {"one page": median_of(lambda: timed(reader, one), given.times)}
    if given.scan:
        timed(reader, scan)  # loads OCR
        result["one scanned page"] = median_of(lambda: timed(reader, scan), given.times)
    result["long"] = {"pages": given.pages, **timed(reader, long)}
    result["peak_megabytes"] = {name: round(value) for name, value in peak_megabytes().items()}
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
