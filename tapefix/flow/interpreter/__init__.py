"""Abstract interpretation of a program: runs it on values that say where gradients flow.

Functions of the program are entered at each call with the values they get, so that a helper that serves labels here
and predictions there is understood in each place. Loops run until nothing new is known, at most a few times;
branches run both ways and meet. A budget keeps the work linear in the size of the file.

Each module adds a class to the one below it: core, choices, unread, assignments, branches, loops, statements,
expressions, containers, attributes, calls, objects, operators, python_builtins. The libraries, sources, targets and
entries go on from there.
"""
