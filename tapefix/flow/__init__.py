"""Understands a program: where gradients flow, and where one is cut on its way from a source to a target."""

from __future__ import annotations

from tapefix.flow.analysis import understand
from tapefix.flow.facts import Buffer, Cut, How, Origin, Role, Spot, Target, Use
from tapefix.flow.model import Misuse, Model
from tapefix.flow.modules import Loader, RepositoryLoader
from tapefix.flow.worth.prefilter import is_graph_code, may_hold_findings

__all__ = [
    "Buffer",
    "Cut",
    "How",
    "Loader",
    "Misuse",
    "Model",
    "Origin",
    "RepositoryLoader",
    "Role",
    "Spot",
    "Target",
    "Use",
    "is_graph_code",
    "may_hold_findings",
    "understand",
]
