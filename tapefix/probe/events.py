"""Writes what the probe saw: one JSON object a line."""

from __future__ import annotations

import json
import math
import os
import threading
from typing import Any, Dict, Mapping, Optional, Union


class Events:
    """The stream of events, safe to use from TensorFlow's threads and from forked children."""

    def __init__(self, out: Union[str, int], paths: Optional[Mapping[str, str]] = None) -> None:
        self._fd = out if isinstance(out, int) else int(out) if str(out).isdigit() else None
        self._path = None if self._fd is not None else str(out)
        prefixes = sorted((paths or {}).items(), key=lambda pair: -len(pair[0]))
        self._paths = [
            (known.rstrip(os.sep), user.rstrip(os.sep))
            for prefix, user in prefixes
            for known in sorted({prefix, os.path.realpath(prefix)})
        ]
        self._lock = threading.Lock()
        self.counts: Dict[str, int] = {}

    def shown(self, filename: str) -> str:
        """The path as the user knows it."""
        path = os.path.abspath(filename) if not filename.startswith("<") else filename
        for known, user in self._paths:
            if path == known or path.startswith(known + os.sep):
                return user + path[len(known) :]
        return path

    def emit(self, event: str, **fields: Any) -> None:
        """Writes one event. A `file` field is shown as the user's path."""
        line = json.dumps(self._clean(dict(event=event, **fields))) + "\n"
        with self._lock:
            self.counts[event] = self.counts.get(event, 0) + 1
            if self._fd is None:
                self._fd = os.open(str(self._path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            data = line.encode("utf-8")
            while data:
                data = data[os.write(self._fd, data) :]

    def _clean(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {str(k): self._clean(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(v) for v in value]
        if key == "file" and isinstance(value, str):
            return self.shown(value)
        if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None  # JSON has no inf; `status` tells it
        return str(value)
