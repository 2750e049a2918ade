"""Runs one test of a small repository with a specification hooked around the function that is specified.

Modules come from texts, not from files. The order is: this file, the specification, its `install(hooks)`, one test. Only
`wrap` of this file wraps functions, so whether a specification was triggered, and whether a failure is its doing, is
known here and not read from what it prints.
"""

import copy
import functools
import importlib.abc
import importlib.util
import sys


class SpecFailure(AssertionError):
    """A precondition or a postcondition does not hold."""


class Texts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the repository's modules."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in self.files else None

    def exec_module(self, module):
        exec(compile(self.files[module.__name__], module.__name__ + ".py", "exec"), module.__dict__)


class Hooks:
    def __init__(self, target):
        self.target = target
        self.calls = 0

    def wrap(self, module, name, preconditions=None, postconditions=None):
        """Puts checks around a function: they get copies of its arguments, and the second a copy of its output too."""
        place = importlib.import_module(module)
        function = getattr(place, name)

        @functools.wraps(function)
        def checked(*args, **named):
            if [module, name] == self.target:
                self.calls += 1
            before = copy.deepcopy((args, named))
            self.check("precondition", preconditions, *copy.deepcopy(before))
            output = function(*args, **named)
            args, named = before
            self.check("postcondition", postconditions, (*args, copy.deepcopy(output)), named)
            return output

        setattr(place, name, checked)

    def check(self, what, function, args, named):
        if function is None:
            return
        try:
            function(*args, **named)
        except Exception as error:
            raise SpecFailure("%s function failed: %s: %s" % (what, type(error).__name__, error)) from None


def begin(files, target):
    global hooks
    sys.meta_path.insert(0, Texts(files))
    hooks = Hooks(target)


def test(name):
    getattr(importlib.import_module("tests"), name)()


def triggered():
    if not hooks.calls:
        raise LookupError("the specified function was not called through the hook")
