"""Generated documents do not depend on the order in which a process happens to hash its strings."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = (
    "import hashlib; from docparse.generator import make_document; "
    "made = [make_document(i, 'held_out', render=False) for i in (2, 10, 11, 30, 44)]; "
    "print(hashlib.sha256(repr([(d.questions, [p.words for p in d.pages]) for d in made]).encode()).hexdigest())"
)


def test_documents_are_the_same_under_any_hash_seed():
    seen = set()
    for seed in ("0", "1", "2", "3", "4"):
        asked = [sys.executable, "-c", CODE]
        run = subprocess.run(  # noqa: S603 - our own interpreter
            asked, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        seen.add(run.stdout)
    assert len(seen) == 1
