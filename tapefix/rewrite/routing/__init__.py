"""Repairs of choices and of operations without a gradient: gates, masks and straight-through values.

`site` holds one rewrite's place and tools, `conditions` and `numbers` say what a hard value is softly,
`sinks` follows an integer or a truth value to where it becomes a number, `selection` and the rest rewrite.
"""
