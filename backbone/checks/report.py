"""A checker's findings, and the loop that makes each check independent of the others."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from backbone.errors import FoveaError

Subject = TypeVar("Subject")


class Wrong(Exception):  # noqa: N818 - reads as what it says: `raise Wrong("...")`
    """A check did not hold; the message says what was found, what is probably wrong, and what to do."""


@dataclass(frozen=True)
class Finding:
    """One check's outcome: ``message`` is the remedy if it failed, or a remark if it held."""

    name: str
    ok: bool
    message: str = ""
    seconds: float = 0.0
    checked: bool = True  # False: something before it broke, and nobody knows; then it is neither held nor failed


@dataclass(frozen=True)
class CheckReport:
    """All findings about one subject."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every check was made and held."""
        return all(finding.ok for finding in self.findings)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that were made and did not hold."""
        return tuple(finding for finding in self.findings if finding.checked and not finding.ok)

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """The checks that could not be made, because an earlier one broke."""
        return tuple(finding for finding in self.findings if not finding.checked)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        findings = [
            {
                "name": f.name,
                "ok": f.ok if f.checked else None,
                "checked": f.checked,
                "message": f.message,
                "seconds": f.seconds,
            }
            for f in self.findings
        ]
        return {"subject": self.subject, "ok": self.ok, "findings": findings}


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A named check: returns a remark or nothing, and raises `Wrong` where the subject does not hold to it.

    A ``ground`` that breaks with any other error, such as a server that cannot be reached, takes those after it along.
    """

    name: str
    run: Callable[[Subject], str | None]
    ground: bool = False


def run_checks(
    subject: str,
    checks: Sequence[Check[Subject]],
    probe: Subject,
    *,
    mend: Callable[[], None],
    on_finding: Callable[[Finding], None] | None = None,
) -> CheckReport:
    """Run all checks in order; after one that failed, ``mend`` puts the probe into a fresh state."""
    findings: list[Finding] = []
    broken: str | None = None
    for check in checks:
        started = time.perf_counter()
        if broken is not None:
            finding = Finding(check.name, False, f"not checked, because of {broken!r}", checked=False)
        else:
            try:
                remark = check.run(probe) or ""
                finding = Finding(check.name, True, remark, time.perf_counter() - started)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # also a SystemExit of a user's class
                finding = Finding(check.name, False, _message(error), time.perf_counter() - started)
                mend()
                if check.ground and not isinstance(error, Wrong):
                    broken = check.name
        findings.append(finding)
        if on_finding is not None:
            on_finding(finding)
    return CheckReport(subject, tuple(findings))


def _message(error: BaseException) -> str:
    if isinstance(error, Wrong | FoveaError):  # made to be read
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(error).__name__}: {error}{where}"
