"""What the text and the page say alike of a verification."""

from __future__ import annotations

from pathlib import Path

from tapefix.verify.outcome import Cause, Report, Variable, Verdict

SAID = {
    Verdict.OK: "every gradient is there",
    Verdict.NONE: "gradients are None",
    Verdict.PARTIAL: "a gradient is partial: one of its paths is cut",
    Verdict.NONFINITE: "gradients are not finite",
    Verdict.ZERO: "gradients are zero",
    Verdict.ERROR: "the program failed",
    Verdict.NO_GRADIENT_CALL: "no gradient was asked for",
    Verdict.TIMEOUT: "not done in time",
}
STATUS = {"none": "None", "nonfinite": "not finite", "zero": "zero", "partial": "partial"}


def full_name(variable: Variable) -> str:
    """`encoder kernel`, where the owner is not part of the name already."""
    known = variable.owner and not variable.name.startswith(variable.owner)
    return f"{variable.owner} {variable.name}" if known else variable.name


def repair(cause: Cause, folder: Path) -> str:
    """What to do about a cause: the command, where there is one."""
    name = relative_name(cause.file, folder)
    if cause.repair == "safe":
        return f"tapefix apply --verify --select {cause.code} {name}"
    if cause.repair == "unsafe":
        return f"tapefix apply --verify --unsafe-fixes --select {cause.code} {name}"
    if cause.code:
        return f"by hand; what to do: tapefix rule {cause.code}"
    return "by hand: keep this value a tensor on its way to the loss"


def remedy(report: Report) -> str:
    """What to do about a run that shows nothing; "" where it has shown something."""
    if report.verdict not in (Verdict.NO_GRADIENT_CALL, Verdict.TIMEOUT) and (report.error is None or report.causes):
        return ""
    if report.verdict is Verdict.TIMEOUT:
        return "give more time (--timeout), fewer steps (--steps), or a target that trains on less data"
    if report.verdict is Verdict.NO_GRADIENT_CALL and report.error is None:
        return "name a target that trains: a script, `package.module:callable`, or a command after `--`"
    return "make it run by itself first, or name another interpreter (--python)"


def source_line(file: str, line: int) -> str:
    """The line as it is on disk; "" where it cannot be read."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").split("\n")
        return lines[line - 1].rstrip("\r")
    except (OSError, IndexError):
        return ""


def relative_name(text: str, folder: Path) -> str:
    """A file name (or a note that begins with one) relative to the folder."""
    prefix = str(folder).rstrip("/") + "/"
    return text[len(prefix) :] if text.startswith(prefix) else text


def count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
