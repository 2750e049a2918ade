"""Makes the cases of one EvalPlus problem: runs its contract, its canonical program and mutants of that, in the sandbox.

stdin: {"program", "entry", "row": the problem's row, as text, "more": the row with more inputs, or null, "cases", "seed"}.
stdout: {"left_out": why, or null, "inputs": number, "signature", "examples": [...], "right": [comparisons that hold],
"cases": {...}}.

Every run is bounded by a number of lines, not by the clock, so that the same problem gives the same cases everywhere.
"""

import ast
import copy
import json
import math
import random
import sys

LINES_MAX = 20_000
MUTANTS_MAX = 120
CHARS_MAX = 1_500
EXAMPLES = 2


class TooLong(BaseException):
    pass


class LeftOut(Exception):
    pass


def bounded(function, arguments):
    """The result of a call; raises TooLong after so many lines. Arguments are copied."""
    left = LINES_MAX

    def count(frame, event, _):
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLong()
        return count

    arguments = copy.deepcopy(arguments)
    before = sys.gettrace()
    sys.settrace(count)
    try:
        return function(*arguments)
    finally:
        sys.settrace(before)


def attempt(function, arguments):
    """(True, result), or (False, None) if it raises or takes too long."""
    try:
        return True, bounded(function, arguments)
    except (Exception, TooLong):
        return False, None


def define(source, name):
    space = {"__name__": "program"}
    exec(compile(source, "<program>", "exec"), space)
    return space[name], space


def plain(value):
    """Whether Python reads what it writes of the value, within a length that a task can hold."""
    try:
        text = repr(value)
        return len(text) <= CHARS_MAX and eval(text, {}) == value
    except Exception:
        return False


def differs(one, two, tolerance):
    """Whether an output is clearly not the other one: numbers by more than rounding, everything else by `==`."""
    if isinstance(one, (int, float)) and isinstance(two, (int, float)):
        if isinstance(one, float) or isinstance(two, float):
            try:
                return not math.isclose(one, two, rel_tol=1e-3, abs_tol=max(1e-3, 10 * tolerance))
            except OverflowError:
                return one != two
        return one != two
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        if len(one) != len(two):
            return True
        return any(differs(a, b, tolerance) for a, b in zip(one, two))
    try:
        return bool(one != two)
    except Exception:
        return True


# JSON has no tuples and no sets: these are the ways in which EvalPlus reads its inputs back.
def tuples(value):
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


def inner(value):
    return [tuples(item) for item in value] if isinstance(value, list) else value


def outer(value):
    return tuple(value) if isinstance(value, list) else value


def sets(value):
    return set(value) if isinstance(value, list) else value


READINGS = (
    lambda value: value,
    outer,
    tuples,
    inner,
    sets,
)


def read_back(inputs, base, accepts):
    """The inputs as the contract wants them: the first reading under which it accepts every original input."""
    for reading in READINGS:
        try:
            read = [[reading(argument) for argument in arguments] for arguments in inputs]
        except TypeError:
            continue
        if read[:base] and all(accepts(arguments) for arguments in read[:base]):
            return read
    raise LeftOut("the contract rejects an original input")


class Changes(ast.NodeTransformer):
    """Counts the places at which a program can be changed, and makes the change number `at`."""

    COMPARE = {
        ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
        ast.In: ast.NotIn, ast.NotIn: ast.In,
    }
    COMPUTE = {
        ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
        ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    }
    CALLS = {"max": "min", "min": "max", "all": "any", "any": "all", "sorted": "list", "sum": "max"}

    def __init__(self, at):
        self.at, self.count = at, 0

    def here(self):
        self.count += 1
        return self.count - 1 == self.at

    def visit_Constant(self, node):
        if type(node.value) is int:
            for by in (-1, 1):
                if self.here():
                    return ast.Constant(node.value + by)
        elif type(node.value) is bool and self.here():
            return ast.Constant(not node.value)
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        for at, operator in enumerate(node.ops):
            other = self.COMPARE.get(type(operator))
            if other and self.here():
                node.ops[at] = other()
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        other = self.COMPUTE.get(type(node.op))
        if other and self.here():
            node.op = other()
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if self.here():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return node.operand if isinstance(node.op, (ast.Not, ast.USub)) and self.here() else node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "id", None)
        if name in self.CALLS and self.here():
            node.func = ast.Name(self.CALLS[name], ast.Load())
        elif name == "range" and node.args:
            at = 1 if len(node.args) > 1 else 0
            for operator in (ast.Add, ast.Sub):
                if self.here():
                    node.args[at] = ast.BinOp(node.args[at], operator(), ast.Constant(1))
        return node

    def visit_Slice(self, node):
        self.generic_visit(node)
        for field in ("lower", "upper"):
            bound = getattr(node, field)
            if bound is not None and self.here():
                setattr(node, field, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
        return node

    def visit_Expr(self, node):
        # Texts that stand alone are documentation.
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def mutants(source, chance):
    """Sources that differ in one place, in an order drawn by `chance`."""
    counter = Changes(-1)
    counter.visit(ast.parse(source))
    places = list(range(counter.count))
    chance.shuffle(places)
    for at in places[:MUTANTS_MAX]:
        tree = Changes(at).visit(ast.parse(source))
        yield ast.unparse(ast.fix_missing_locations(tree))


def spoilt(value, chance):
    """A value that is probably not allowed where this one is."""
    choices = [None, "", "x?", -1, 0, -2.5, [], [None], {}]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        choices += [-value - 1, str(value), value + 10**6] * 2
    if isinstance(value, str):
        choices += [value + "\n7", value.upper() + "!", len(value)] * 2
    if isinstance(value, (list, tuple)):
        choices += [type(value)(), type(value)(list(value) + [None]), tuple(value) if isinstance(value, list)
                    else list(value), type(value)(list(value)[:1]), dict(enumerate(value))] * 2
    return chance.choice(choices)


def changed(value, chance):
    """The value with one small change."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + chance.choice([-1, 1])
    if isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        return chance.choice([value[:at] + value[at + 1:], value[:at] + chance.choice("aAz 1") + value[at:]])
    if isinstance(value, (list, tuple)):
        items = list(value)
        at = chance.randrange(len(items) + 1)
        if at == len(items):
            items.append(items[-1] if items else 0)
        elif chance.random() < 0.5:
            items[at] = changed(items[at], chance)
        else:
            del items[at]
        return type(value)(items)
    return value


def unrelated(value, chance):
    """A value of the same type that has nothing to do with this one, or one of another type."""
    if chance.random() < 0.3:
        return chance.choice([None, -7, 3.25, "unrelated", [17, 4], {"a": 1}, True])
    if isinstance(value, bool):
        return chance.choice([None, "yes", 7, [True]])
    if isinstance(value, int):
        return chance.randint(-10**6, 10**6)
    if isinstance(value, float):
        return chance.uniform(-10**6, 10**6)
    if isinstance(value, str):
        return "".join(chance.choice("qxzjvkw") for _ in range(chance.randint(1, 9)))
    if isinstance(value, (list, tuple)):
        return type(value)(chance.randint(-10**6, 10**6) for _ in range(chance.randint(1, 5)))
    return chance.choice([None, -7, "unrelated", [17, 4]])


def texts(found, count):
    return list(dict.fromkeys(found))[:count]


def call(arguments, *output):
    return ", ".join(repr(value) for value in [*arguments, *output])


def unpacked(asked):
    """With what the rows hold: contract, inputs, how many of them are the original ones, tolerance."""
    row = json.loads(asked["row"])
    plus = row.get("plus_input") or []
    if asked["more"] is not None:
        plus = plus + json.loads(asked["more"])["inputs"]
    inputs = row["base_input"] + plus
    return dict(asked, contract=row["contract"], inputs=inputs, base=len(row["base_input"]), tolerance=row["atol"])


def prepare(asked):
    asked = unpacked(asked)
    chance = random.Random(asked["seed"])
    count = asked["cases"]
    program, space = define(asked["program"], asked["entry"])
    tree = ast.parse(asked["program"])
    entry = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == asked["entry"]][-1]
    names = [argument.arg for argument in entry.args.args]
    if entry.args.vararg or entry.args.kwonlyargs or entry.args.kwarg or not names:
        raise LeftOut("its arguments are not a fixed list")
    body = asked["contract"] if asked["contract"].strip() else "\n    pass"
    exec(compile("def _contract_(%s):%s\n" % (", ".join(names), body), "<contract>", "exec"), space)

    def accepts(arguments):
        return len(arguments) == len(names) and attempt(space["_contract_"], arguments)[0]

    inputs = [arguments for arguments in asked["inputs"] if isinstance(arguments, list)]
    inputs = read_back(inputs, asked["base"], accepts)
    allowed, forbidden, seen = [], [], set()
    examples = []
    for at, arguments in enumerate(inputs):
        text = repr(arguments)
        if text in seen or len(arguments) != len(names) or not plain(arguments):
            continue
        seen.add(text)
        (allowed if accepts(arguments) else forbidden).append((at, arguments))
    right = []
    for at, arguments in allowed:
        is_run, output = attempt(program, arguments)
        if is_run and plain(output):
            right.append((at, arguments, output))
    for at, arguments, output in right:
        if at < asked["base"] and len(examples) < EXAMPLES and len(call(arguments, output)) < 200:
            examples.append("%s(%s) == %r" % (asked["entry"], call(arguments), output))
    # An example is in the prompt, so it is a case only where there is nothing else.
    others = [one for one in right if one[0] >= asked["base"]] or right
    chance.shuffle(others)
    right = others[: max(count, 1)]
    if not right:
        raise LeftOut("the canonical program gives no output that can be written down")
    # What the contract rejects: of the file's own inputs, and valid ones of which one argument is spoilt.
    chance.shuffle(forbidden)
    neg_pre = [call(arguments) for _, arguments in forbidden[: (count + 1) // 2]]
    for _ in range(40 * count):
        arguments = copy.deepcopy(chance.choice(right)[1])
        at = chance.randrange(len(arguments))
        arguments[at] = spoilt(arguments[at], chance)
        if plain(arguments) and not accepts(arguments):
            neg_pre.append(call(arguments))
    neg_hard, neg_random = [], []

    def near(arguments, output, other):
        if type(other) is type(output) and plain(other) and differs(other, output, asked["tolerance"]):
            neg_hard.append(call(arguments, other))

    # First one output of each mutant that shows, then small changes of right outputs.
    for source in mutants(asked["program"], chance):
        try:
            mutant, _ = define(source, asked["entry"])
        except (Exception, TooLong):
            continue
        before = len(neg_hard)
        for _, arguments, output in chance.sample(right, len(right)):
            is_run, other = attempt(mutant, arguments)
            if is_run:
                near(arguments, output, other)
            if len(neg_hard) > before:
                break
        if len(set(neg_hard)) >= count:
            break
    for _ in range(10 * count):
        _, arguments, output = chance.choice(right)
        near(arguments, output, changed(output, chance))
    for _ in range(20 * count):
        _, arguments, output = chance.choice(right)
        other = unrelated(output, chance)
        if plain(other) and differs(other, output, asked["tolerance"]):
            neg_random.append(call(arguments, other))
    cases = {
        "pos_pre": [call(arguments) for _, arguments, _ in right],
        "neg_pre": texts(neg_pre, count),
        "pos_post": [call(arguments, output) for _, arguments, output in right],
        "neg_hard": texts(neg_hard, count),
        "neg_random": texts(neg_random, count),
    }
    for name, pool in cases.items():
        if not pool:
            raise LeftOut("the pool %s would be empty" % name)
    calls = ["%s(%s) == %r" % (asked["entry"], call(arguments), output) for _, arguments, output in right]
    return {
        "inputs": len(names), "signature": ", ".join(names), "examples": examples, "right": calls, "cases": cases,
    }


def main():
    out = sys.stdout
    asked = json.loads(sys.stdin.read())
    # What a program prints is no answer.
    sys.stdout = sys.stderr = open("/dev/null", "w")
    try:
        answer = dict(prepare(asked), left_out=None)
    except LeftOut as why:
        answer = {"left_out": str(why)}
    except Exception as error:
        answer = {"left_out": "it can't be read: %s" % type(error).__name__}
    out.write(json.dumps(answer))
    out.flush()


main()
