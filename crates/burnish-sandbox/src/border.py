"""The border between a program and what judges it: two processes that call each other's functions over lines of JSON.

Values of built-in types cross as copies: tagged JSON, rebuilt on the other side. Any other object stays where it is, and
the other side holds a `Proxy` with its number. After a call, what it changed in the lists, sets and dicts that it was
given is changed for the caller too. A program may send whatever it likes, so the judge rebuilds exact built-in types
only, compares them itself, and lets nobody reach into its own objects.
"""

import ast
import builtins
import collections
import datetime
import decimal
import fractions
import json
import operator
import os
import sys

LINK_IN, LINK_OUT = 4, 5
LINE_BYTES_MAX = 1 << 20
DEPTH_MAX = 100

# How a value is taken apart, and made again.
SCALARS = {
    int: (lambda value: (hex(value),), lambda text: int(text, 16)),
    bytes: (lambda value: (value.hex(),), bytes.fromhex),
    complex: (lambda value: (value.real, value.imag), complex),
    range: (lambda value: (value.start, value.stop, value.step), range),
    slice: (lambda value: (value.start, value.stop, value.step), slice),
    decimal.Decimal: (lambda value: (str(value),), decimal.Decimal),
    fractions.Fraction: (lambda value: (value.numerator, value.denominator), fractions.Fraction),
    datetime.datetime: (lambda value: (value.isoformat(),), datetime.datetime.fromisoformat),
    datetime.date: (lambda value: (value.isoformat(),), datetime.date.fromisoformat),
    datetime.time: (lambda value: (value.isoformat(),), datetime.time.fromisoformat),
    datetime.timedelta: (lambda value: (value.days, value.seconds, value.microseconds), datetime.timedelta),
}
FROZEN = (tuple, frozenset)
# Containers, and what they have besides their items.
CONTAINERS = dict.fromkeys((list, tuple, set, frozenset, bytearray, dict, collections.Counter, collections.OrderedDict))
CONTAINERS.update({collections.deque: "maxlen", collections.defaultdict: "default_factory"})
TAGS = {kind.__name__: kind for kind in (*SCALARS, *CONTAINERS)}
EXACT = {int: int.__index__, float: float.__pos__, str: str.__str__}
KNOWN = {*SCALARS, *CONTAINERS, *EXACT}

OPERATIONS = {
    "call": lambda value, *args, **kwargs: value(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "len": len,
    "iter": iter,
    "next": next,
    "str": str,
    "repr": repr,
    "bool": bool,
    "int": int,
    "float": float,
    "index": operator.index,
}


class Gone(BaseException):
    """The other side has ended. No `except Exception` stops it."""


class Seen(dict):
    """Mutable containers of a call, numbered in the order in which they cross, so that both sides mean the same one."""

    def __init__(self):
        self.objects = []

    def add(self, value):
        self[id(value)] = len(self.objects)
        self.objects.append(value)


class Proxy:
    """An object of the other side. It is equal to itself alone: what it says of others would prove nothing."""

    __slots__ = ("_border", "_number")

    def __init__(self, border, number):
        object.__setattr__(self, "_border", border)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name):
        return self._border.ask("getattr", self._number, (name,))

    def __setattr__(self, name, value):
        self._border.ask("setattr", self._number, (name, value))

    def __delattr__(self, name):
        self._border.ask("delattr", self._number, (name,))

    def __iter__(self):
        items = self._border.ask("iter", self._number)
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            yield item


def forward(name):
    def method(self, *args, **kwargs):
        return self._border.ask(name, self._number, args, kwargs)

    return method


for name in OPERATIONS:
    if not name.endswith("attr") and name != "iter":
        setattr(Proxy, "__%s__" % name, forward(name))


def contents(value, kind):
    """The items of a container; keys and values in turns."""
    if issubclass(kind, dict):
        return [part for pair in dict.items(value) for part in pair]
    return list(kind.__iter__(value))


def replace(value, items):
    value.clear()
    if isinstance(value, dict):
        value.update(dict(zip(items[::2], items[1::2])))
    elif isinstance(value, set):
        value.update(items)
    else:
        value.extend(items)


class Border:
    """One side of it. `space` holds the names of its module."""

    def __init__(self, space, is_judge):
        self.space, self.is_judge = space, is_judge
        self.objects, self.numbers, self.proxies, self.errors = [], {}, {}, {}
        self.source, self.is_gone = os.fdopen(LINK_IN, "rb"), False

    def number(self, value):
        """The number by which the other side knows an object, which then lives as long as the job."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.numbers[id(value)]

    def pack(self, value, seen, depth=0):
        kind = type(value)
        if value is None or kind in (bool, str, float) or kind is int and -1 << 63 <= value < 1 << 63:
            return value
        if depth > DEPTH_MAX:
            raise ValueError("a value is nested more than %d deep, which can't cross" % DEPTH_MAX)
        if kind is Proxy:
            return ["yours", value._number]
        if not self.is_judge and kind not in KNOWN:
            # A subclass crosses as what it is by its base, whatever it says of itself.
            if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
                return self.pack(value.item(), seen, depth + 1)
            kind = next((base for base in kind.__mro__ if base in KNOWN), kind)
            if kind in EXACT:
                return self.pack(EXACT[kind](value), seen, depth + 1)
        if kind in SCALARS:
            return [kind.__name__, *(self.pack(part, seen, depth + 1) for part in SCALARS[kind][0](value))]
        if kind in CONTAINERS:
            if id(value) in seen:
                return ["=", seen[id(value)]]
            if kind not in FROZEN:
                seen.add(value)
            head = CONTAINERS[kind] and self.pack(getattr(value, CONTAINERS[kind]), seen, depth + 1)
            return [kind.__name__, head, *(self.pack(item, seen, depth + 1) for item in contents(value, kind))]
        name = getattr(value, "__name__", None) if kind is type or callable(value) else None
        if type(name) is str and vars(builtins).get(name) is value:
            return ["builtin", name]
        if kind is type and issubclass(value, Exception):
            base = next(base for base in value.__mro__ if vars(builtins).get(base.__name__) is base)
            return ["error", self.number(value), name, base.__name__]
        return ["mine", self.number(value)]

    def unpack(self, packed, seen):
        if type(packed) is not list:
            if type(packed) is dict:
                raise ValueError("an object of JSON is no value")
            return packed
        tag, *rest = packed
        if tag == "=":
            return seen.objects[rest[0]]
        if tag == "yours":
            return self.objects[rest[0]]
        if tag == "mine":
            return self.proxies.setdefault(int(rest[0]), Proxy(self, int(rest[0])))
        if tag == "builtin":
            value = getattr(builtins, rest[0])
            # A function such as `exec` would run here.
            if self.is_judge and not isinstance(value, type):
                raise ValueError("a built-in function can't cross")
            return value
        if tag == "error":
            number, name, base = rest
            if number not in self.errors:
                self.errors[number] = type(name, (error_class(getattr(builtins, base)),), {})
            return self.errors[number]
        kind = TAGS[tag]
        if kind in SCALARS:
            return SCALARS[kind][1](*(self.unpack(part, seen) for part in rest))
        head = self.unpack(rest[0], seen)
        if kind in FROZEN:
            return kind([self.unpack(item, seen) for item in rest[1:]])
        value = kind() if not CONTAINERS[kind] else kind(head) if kind is not collections.deque else kind((), head)
        seen.add(value)
        replace(value, [self.unpack(item, seen) for item in rest[1:]])
        return value

    def write(self, message):
        line = json.dumps(message)
        if len(line) > LINE_BYTES_MAX:
            raise ValueError("a value of more than %d bytes can't cross" % LINE_BYTES_MAX)
        line = memoryview(line.encode() + b"\n")
        while line:
            line = line[os.write(LINK_OUT, line):]

    def read(self):
        line = b"" if self.is_gone else self.source.readline()
        self.is_gone = line in (b"", b"null\n")
        if self.is_gone:
            raise Gone()
        return json.loads(line)

    def ask(self, operation, number, args=(), kwargs=None):
        """Lets the other side do something, which may ask back meanwhile."""
        seen = Seen()
        given = self.pack(tuple(args), seen), self.pack(kwargs or {}, seen)
        self.write(["ask", operation, number, *given])
        while True:
            message = self.read()
            if message[0] == "ask":
                self.answer(message)
                continue
            try:
                end, *value, changes = message
                value = [self.unpack(part, seen) for part in value]
                changes = [(seen.objects[at], [self.unpack(item, seen) for item in items]) for at, items in changes]
                for container, items in changes:
                    replace(container, items)
                if end == "raised":
                    error = error_class(value[0])(value[1])
                else:
                    (value,) = value
            except Exception as error:
                raise ValueError("what the other side of the border sent can't be read: %s" % said(error)) from None
            if end == "raised":
                raise error
            return value

    def may(self, operation, value, args):
        """Whether the program may do this to an object of the judge's: not to code, frames, or another's class."""
        if operation in ("call", "str", "repr", "bool"):
            return True
        if operation in ("iter", "next") and hasattr(type(value), "__next__"):
            return True
        kind = value if isinstance(value, type) and operation == "getattr" else type(value)
        is_public = not operation.endswith("attr") or type(args[0]) is str and not args[0].startswith("_")
        return kind.__module__ == self.space["__name__"] and is_public

    def perform(self, operation, number, args, kwargs):
        if operation == "names" and not self.is_judge:
            return {name: self.space[name] for name in args if name in self.space}
        value = self.objects[number]
        if self.is_judge and not self.may(operation, value, args):
            raise AttributeError("a program may not do this to an object of its tests: %s" % operation)
        return OPERATIONS[operation](value, *args, **kwargs)

    def answer(self, message):
        seen, before = Seen(), []
        try:
            _, operation, number, args, kwargs = message
            args, kwargs = self.unpack(args, seen), self.unpack(kwargs, seen)
            before = [contents(value, type(value)) for value in seen.objects]
            end, value = "ok", self.perform(operation, number, args, kwargs)
        except Exception as error:
            if not self.is_judge and kind_of(error):
                raise
            end, value = "raised", error
        try:
            reply = [end, self.pack(type(value) if end == "raised" else value, seen)]
            if end == "raised":
                reply.append(plain(error_text(value)))
            changes = []
            for at, old in enumerate(before):
                new = contents(seen.objects[at], type(seen.objects[at]))
                if len(old) != len(new) or not all(map(operator.is_, old, new)):
                    changes.append([at, [self.pack(item, seen) for item in new]])
            self.write([*reply, changes])
        except (ValueError, RecursionError) as error:
            self.write(["raised", ["builtin", "ValueError"], str(error), []])

    def serve(self):
        """The program's side: does what it is asked until the judge has ended."""
        try:
            while True:
                self.answer(self.read())
        except Gone:
            pass

    def fetch(self, sources, entry):
        """Names that the row's Python uses and does not have become those of the program."""
        used, bound, called = set(), set(), set()
        for source in sources:
            try:
                nodes = list(ast.walk(ast.parse(source)))
            except (SyntaxError, ValueError, RecursionError):
                # It fails where it is run.
                continue
            owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
            for node in nodes:
                if isinstance(node, ast.arg):
                    bound.add(node.arg)
                elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    bound.add(node.name)
                elif isinstance(node, ast.alias):
                    bound.add((node.asname or node.name).partition(".")[0])
                elif isinstance(node, ast.Name):
                    (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
                    if id(node) not in owners:
                        called.add(node.id)
        free = {name for name in used if name not in self.space}
        for name in free - called - bound:
            # `math.pi` after an answer that imported it: the judge's own.
            if name in sys.modules:
                self.space[name] = sys.modules[name]
        asked = {name for name in free if name not in self.space and not hasattr(builtins, name)}
        if entry is not None:
            # `Solution().f` is the program's by its class.
            asked.add(entry.partition(".")[0].partition("(")[0])
        elif not asked - bound:
            # Nothing but built-in names, so one of them is what the tests are about.
            asked = free
        given = self.ask("names", None, sorted(asked))
        # Whatever else it sends, it defines nothing that the row has.
        self.space.update((name, given[name]) for name in asked if name in given)


def error_class(kind):
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise ValueError("only exceptions can be raised across")
    return kind


def error_text(error):
    try:
        return str(error)
    except Exception:
        return type(error).__name__


