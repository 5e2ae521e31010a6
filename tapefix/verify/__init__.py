"""Verification: runs the user's program in a scratch copy, and proves that its gradients are there.

    verify(target, options) -> Report          what `tapefix verify` shows
    prove(before, after, targets, options)     what `tapefix apply --verify` rests on
    VerifyOptions, Limits                      what the command line sets
    tapefix.report.verify_text, verify_json    print a Report

A command line does: `report = verify(target, VerifyOptions(...))`, prints `render(report)` or `to_json(report)`,
exits with `report.exit_status`. A TapefixError is one line on standard error and exit status 2.
`target` is a str (path or `module:name`) or a list of words (the command after `--`).
"""

from tapefix.verify.options import Limits, StaticFinding, VerifyOptions
from tapefix.verify.outcome import Evidence, NotProven, NotRun, Proof, Proven, Report, Verdict
from tapefix.verify.prove import prove
from tapefix.verify.runner import Runner
from tapefix.verify.targets import Command, Function, ModelClass, Script, Target, parse_target
from tapefix.verify.verify import verify, verify_script

__all__ = [
    "Command", "Evidence", "Function", "Limits", "ModelClass", "NotProven", "NotRun", "Proof", "Proven", "Report",
    "Runner", "Script", "StaticFinding", "Target", "Verdict", "VerifyOptions", "parse_target", "prove", "verify",
    "verify_script",
]  # fmt: skip
