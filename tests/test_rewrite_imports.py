"""How TensorFlow is named, where its import goes, and which imports an edit leaves unused."""

from __future__ import annotations

import ast

import pytest

from tapefix.documents.document import Document
from tapefix.rewrite import imports, names
from tapefix.rewrite.edits import EditSet


def document(text: str, filename: str = "m.py") -> Document:
    return Document(filename, text.encode())


def call(doc: Document, name: str = "here") -> ast.Call:
    """The call `here()` that marks a place."""
    for node in ast.walk(doc.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            return node
    raise AssertionError(doc.text)


@pytest.mark.parametrize(
    ("text", "dotted", "expected"),
    [
        ("import tensorflow as tf\nhere()\n", "tensorflow.math.log", "tf.math.log"),
        ("import tensorflow\nhere()\n", "tensorflow.stack", "tensorflow.stack"),
        ("import tensorflow.compat.v2 as tf\nhere()\n", "tensorflow.stack", "tf.stack"),
        ("from tensorflow import stack\nhere()\n", "tensorflow.stack", "stack"),
        ("from tensorflow import stack\nhere()\n", "tensorflow.concat", None),
        ("from tensorflow import math as m\nhere()\n", "tensorflow.math.log", "m.log"),
        ("from tensorflow.keras import ops\nhere()\n", "tensorflow.keras.ops.mean", "ops.mean"),
        ("from tensorflow.keras import layers\nimport tensorflow as tf\nhere()\n", "tensorflow.stack", "tf.stack"),
        ("import tensorflow.keras as k\nhere()\n", "tensorflow.stack", None),
        ("import tensorflow.keras\nhere()\n", "tensorflow.stack", "tensorflow.stack"),
        ("def f():\n    import tensorflow as tf\n    here()\n", "tensorflow.stack", "tf.stack"),
        ("def f():\n    import tensorflow as tf\ndef g():\n    here()\n", "tensorflow.stack", None),
        ("import tensorflow as tf\ndef f(tf):\n    here()\n", "tensorflow.stack", None),
        ("import tensorflow as tf\ntf = 1\nhere()\n", "tensorflow.stack", None),
        ("try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None\nhere()\n", "tensorflow.x", "tf.x"),
        ("class A:\n    def f(self):\n        here()\nimport tensorflow as tf\n", "tensorflow.x", "tf.x"),
    ],
)
def test_how_a_name_is_spelled(text: str, dotted: str, expected: str | None) -> None:
    doc = document(text)
    assert imports.spelling(doc, dotted, call(doc)) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("here()\n", "import tensorflow as tf\n\nhere()\n"),
        (
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nhere()\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport tensorflow as tf\n\nhere()\n",
        ),
        ('"""Doc."""\nhere()\n', '"""Doc."""\nimport tensorflow as tf\nhere()\n'),
        (
            "from __future__ import annotations\nhere()\n",
            "from __future__ import annotations\n\nimport tensorflow as tf\nhere()\n",
        ),
        (
            "import os\nimport numpy as np\nimport yaml\nhere()\n",
            "import os\nimport numpy as np\nimport tensorflow as tf\nimport yaml\nhere()\n",
        ),
        (
            "import os\r\n\r\nfrom . import x\r\nhere()\r\n",
            "import os\r\nimport tensorflow as tf\r\n\r\nfrom . import x\r\nhere()\r\n",
        ),
        ("from . import x\nhere()\n", "import tensorflow as tf\nfrom . import x\nhere()\n"),
        ("import yaml\nhere()\n", "import tensorflow as tf\nimport yaml\nhere()\n"),
        ("import numpy as np\ntf = 3\nhere()\n", "import numpy as np\nimport tensorflow as tf_\ntf = 3\nhere()\n"),
        ("import tensorflow as tf\nhere()\n", "import tensorflow as tf\nhere()\n"),
    ],
)
def test_where_the_missing_import_goes(before: str, expected: str) -> None:
    doc = document(before)
    edits = EditSet(doc)
    first = imports.add_import(edits, "tensorflow", "tf", call(doc))
    assert imports.add_import(edits, "tensorflow", "tf", call(doc)) == first
    result = edits.apply().text
    assert result == expected
    ast.parse(result)


def test_new_code_speaks_the_documents_names() -> None:
    doc = document("from tensorflow import math\nimport tensorflow as T\nhere()\n")
    edits = EditSet(doc)
    text = imports.with_local_names(edits, "tf.stack([tf.math.log(x), 'tf.x', a.tf])", call(doc))
    assert text == "T.stack([T.math.log(x), 'tf.x', a.tf])"
    assert not edits


def test_new_code_brings_its_import() -> None:
    doc = document("import numpy as np\nhere()\n")
    edits = EditSet(doc)
    assert imports.with_local_names(edits, "y = tf.stack(x)\n", call(doc), statement=True) == "y = tf.stack(x)\n"
    assert edits.apply().text == "import numpy as np\nimport tensorflow as tf\nhere()\n"


def replaced(before: str, filename: str = "m.py", new: str = "tf.x()") -> str:
    doc = document(before, filename)
    edits = EditSet(doc)
    for node in ast.walk(doc.tree):
        if isinstance(node, ast.Call) and "here" in doc.source(node.func):
            edits.replace(node, new)
    imports.remove_unused(edits)
    return edits.apply().text


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("import numpy as np\nnp.here()\n", "tf.x()\n"),
        ("import numpy as np\nnp.here()\nnp.other()\n", "import numpy as np\ntf.x()\nnp.other()\n"),
        ("import os\nimport numpy as np\nnp.here()\n", "import os\ntf.x()\n"),
        ("import os, numpy as np, sys\nnp.here()\n", "import os, sys\ntf.x()\n"),
        ("import os, numpy as np\nnp.here()\n", "import os\ntf.x()\n"),
        (
            "from numpy import (\n    here,  # used\n    other,\n)\nhere()\nother\n",
            "from numpy import (\n    other,\n)\ntf.x()\nother\n",
        ),
        (
            "from numpy import (\n    other,\n    here,\n)\nhere()\nother\n",
            "from numpy import (\n    other,\n)\ntf.x()\nother\n",
        ),
        ("from numpy import a, here, b, c\nhere(b, c)\na\n", "from numpy import a\ntf.x()\na\n"),
        ("def f():\n    import numpy as np\n    return np.here()\n", "def f():\n    return tf.x()\n"),
        ("import numpy as np\ndef f(np):\n    np.other\nnp.here()\n", "def f(np):\n    np.other\ntf.x()\n"),
        ("import os; import numpy as np\nnp.here()\nos\n", "import os\ntf.x()\nos\n"),
    ],
)
def test_what_an_edit_leaves_unused_goes(before: str, expected: str) -> None:
    assert replaced(before) == expected


@pytest.mark.parametrize(
    "before",
    [
        "import numpy as np  # noqa: F401\nnp.here()\n",
        "import numpy as np\n__all__ = ['np']\nnp.here()\n",
        "import numpy as np\nx: 'np.ndarray' = np.here()\n",
        "import numpy as np\nx = []  # type: list[np.ndarray]\nnp.here()\n",
        "import numpy as np\ndef f() -> 'list[np.ndarray]': ...\nnp.here()\n",
        "from a import b as b\nb.here()\n",
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None\nnp.here()\n",
        "import numpy as np\nnp = np or 1\nnp.here()\n",
        "import numpy as np\nf'{np}'\nnp.here()\n",
        "import unused\nhere()\n",
    ],
)
def test_what_something_else_keeps_stays(before: str) -> None:
    kept = before.split("np.here()")[0].split("b.here()")[0].split("here()")[0]
    assert replaced(before) == kept + "tf.x()\n"


def test_a_package_module_keeps_its_re_exports() -> None:
    before = "import numpy as np\nnp.here()\n"
    assert replaced(before, "pkg/__init__.py") == "import numpy as np\ntf.x()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    here()\n", "steps"),
        ("steps = 1\ndef f():\n    here()\n", "steps_2"),
        ("def f(steps):\n    steps_2 = 1\n    here()\n", "steps_3"),
        ("def f():\n    here()\n    def g():\n        return steps\n", "steps_2"),
        ("def g():\n    steps = 1\ndef f():\n    here()\n", "steps"),
        ("def f():\n    global steps\n    here()\n", "steps_2"),
        ("class A:\n    steps = 1\n    def f(self):\n        [here() for x in self.steps]\n", "steps_2"),
    ],
)
def test_fresh_names_clash_with_nothing(text: str, expected: str) -> None:
    doc = document(text)
    edits = EditSet(doc)
    assert names.fresh(edits, call(doc), "steps") == expected
    assert names.fresh(edits, call(doc), "steps") != expected


def test_fresh_names_are_no_builtins_or_keywords() -> None:
    doc = document("here()\n")
    edits = EditSet(doc)
    assert names.fresh(edits, call(doc), "sum") == "sum_2"
    assert names.fresh(edits, call(doc), "lambda") == "lambda_2"
