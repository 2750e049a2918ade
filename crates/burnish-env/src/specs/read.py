"""Reads a specification without running it, and says what keeps it from being run.

stdin: {"spec": its text, "functions": [[name, number of arguments], ...]}. stdout: {"kind": ..., "problem": ...}; kind is
"ok", "unreadable" (it does not parse) or "malformed" (it lacks a function, or one can't take its arguments).
"""

import ast
import json
import sys


def most_and_least(arguments):
    """How many positional arguments a function takes; None as the most if there is no most."""
    named = len(arguments.posonlyargs) + len(arguments.args)
    return named - len(arguments.defaults), None if arguments.vararg else named


def look(text, wanted):
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "unreadable", "it does not parse: %s" % error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, given in wanted:
        if name not in functions:
            return "malformed", "there is no function %s" % name
        arguments = functions[name].args
        least, most = most_and_least(arguments)
        if given < least or most is not None and given > most:
            return "malformed", "%s must take %d arguments" % (name, given)
        if any(default is None for default in arguments.kw_defaults):
            return "malformed", "%s must take its arguments by position" % name
    return "ok", None


asked = json.loads(sys.stdin.read())
kind, problem = look(asked["spec"], asked["functions"])
print(json.dumps({"kind": kind, "problem": problem}))
