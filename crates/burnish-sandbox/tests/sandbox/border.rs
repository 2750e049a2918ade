//! What crosses the border between a program and its tests, and what must not.

use burnish_sandbox::{Border, Execution, Limits, Outcome, Part, Sandbox, Settings, Trial};

use crate::{Tests, tight};

pub(crate) const TESTS: Tests = &[
    ("a_forgery_passes_no_test", forgeries),
    ("what_a_test_does_with_a_right_program_crosses_the_border", honest),
    ("what_can_not_cross_fails_and_says_so", refused),
    ("a_program_that_ends_before_its_tests_has_not_passed", ends),
];

/// Python of the row's own, and its tests.
const OWN: &str = "import random\ndef double(x):\n    return 2 * x\n";
const CHECKS: [&str; 12] = [
    "assert f(2) == 4.5",
    "assert abs(f(2) - 4.5) < 1e-6",
    "assert math.isclose(f(2), 4.5)",
    "assert f(2) in (4.5,)",
    "assert [f(2)] == [4.5]",
    "assert not f(2) != 4.5",
    "assert double(f(2)) == 9",
    "import unittest\nunittest.TestCase().assertEqual(f(2), 4.5)",
    "found = [1, 2]\nf(found)\nassert found == [4.5]",
    "assert f(lambda x, wanted=4.5: x == wanted) == 4.5",
    "assert f(x for x in [4.5]) == 4.5 and len(f(2)) == 2",
    "try:\n    f(2)\nexcept ValueError as error:\n    assert str(error) == 'wanted'\nelse:\n    assert False",
];

/// Names and programs that set out to pass without knowing the answer.
const FORGERIES: &[(&str, &str)] = &[
    ("walks the frames for the tests", "def f(x):\n    return look()\n"),
    ("walks the objects for the tests", "import gc\ndef f(x):\n    return look(gc.get_objects())\n"),
    (
        "an int that equals everything",
        "class All(int):\n    __eq__ = __ge__ = __le__ = __lt__ = __gt__ = lambda *_: True\n    __ne__ = lambda *_: False\n    __hash__ = int.__hash__\ndef f(x): return All(0)",
    ),
    (
        "a float that equals everything",
        "class All(float):\n    __eq__ = __lt__ = __le__ = lambda *_: True\n    __ne__ = lambda *_: False\n    __sub__ = __rsub__ = __abs__ = __rmul__ = __mul__ = lambda self, *_: self\n    __hash__ = float.__hash__\ndef f(x): return All(0)",
    ),
    (
        "an object that equals everything",
        "class All:\n    def __getattr__(self, name): return lambda *_: True\n    __eq__ = __lt__ = __le__ = __contains__ = lambda *_: True\n    __ne__ = lambda *_: False\n    __sub__ = __rsub__ = __abs__ = __rmul__ = __mul__ = lambda self, *_: self\n    __float__ = lambda self: 0.0\n    __len__ = lambda self: 2\n    __hash__ = lambda self: hash(4.5)\ndef f(x): return All()",
    ),
    (
        "containers that equal everything",
        "class All(list):\n    __eq__ = __contains__ = lambda *_: True\n    __ne__ = lambda *_: False\n    __hash__ = lambda self: 0\ndef f(x):\n    if isinstance(x, list): x[:] = [All()]\n    return All()",
    ),
    ("another `abs`", "abs = lambda _: 0\ndef f(x): return 0"),
    (
        "another `abs` among the built-in names",
        "import builtins\nbuiltins.abs = lambda _: 0\ndef f(x): return 0",
    ),
    ("another assertion", "AssertionError = ValueError\n__builtins__ = {}\ndef f(x): return 0"),
    ("a function that the row has", "def double(x): return 9\ndef f(x): return 0"),
    ("another `math.isclose`", "import math\nmath.isclose = lambda *_, **__: True\ndef f(x): return 0"),
    ("another `math`", "class math: isclose = lambda *_, **__: True\ndef f(x): return 0"),
    (
        "another `unittest`",
        "import sys\nclass unittest:\n    class TestCase: assertEqual = lambda *_: None\nsys.modules['unittest'] = unittest\ndef f(x): return 0",
    ),
    ("ends the process", "import os\ndef f(x): os._exit(0)"),
    ("ends the program", "def f(x): raise SystemExit(0)"),
    (
        "ends with the report of a finished job",
        "import os\ndef f(x):\n    report(end='done', detail=None, code=0)\n    os._exit(0)",
    ),
    (
        "reports that tests have passed",
        "def f(x):\n    for at in range(12): report(check=at, passed=True)\n    report(end='done', detail=None, code=0)\n    return 0",
    ),
    (
        "raises any exception that is wanted",
        "class All(ValueError):\n    class Text(str):\n        __eq__ = lambda *_: True\n        __hash__ = str.__hash__\n    def __str__(self): return All.Text('?')\ndef f(x): raise All()",
    ),
    ("raises an end", "class ValueError(BaseException): pass\ndef f(x): raise ValueError('wanted')"),
    (
        "looks into a callback",
        "def f(x):\n    try: return x.__defaults__[0]\n    except AttributeError: pass\n    try: return x.__code__.co_consts[0]\n    except AttributeError: pass\n    try: return [value for value in x.__globals__.values()]\n    except AttributeError: return 0",
    ),
    (
        "looks into a generator",
        "def f(x):\n    for name in ('gi_frame', 'gi_code', '__class__', '__self__', '__reduce__'):\n        try: return getattr(x, name).f_locals['.0']\n        except Exception: pass\n    return 0",
    ),
    (
        "asks a callback for the answer",
        "class All:\n    __eq__ = lambda *_: True\ndef f(x):\n    try: return x(All()) and All()\n    except TypeError: return 0",
    ),
    (
        "sends a built-in function",
        "import os\ndef f(x):\n    send(['ok', ['builtin', 'exec'], []])\n    return 0",
    ),
    ("sends what is no line", "import os\ndef f(x):\n    os.write(5, b'[' * 100000 + b'\\n')\n    return 0"),
    ("sends numbers of the judge's objects", "def f(x):\n    send(['ok', ['yours', -1], []])\n    return 0"),
    (
        "sends its argument for an answer",
        "def f(x):\n    send(['ok', ['=', 0], [[0, [['yours', 0]]]]])\n    return 0",
    ),
    (
        "sends an exception of any class",
        "def f(x):\n    send(['raised', ['error', 0, 'ValueError', 'BaseException'], 'wanted', []])\n    return 0",
    ),
    ("sends the end", "import os\ndef f(x):\n    os.write(5, b'null\\n')\n    return 0"),
    (
        "gives more names than were asked for",
        "def f(x): return 0\ncode('Border').perform = lambda self, operation, number, args, kwargs: {'f': f, 'abs': f, 'double': f, 'math': f, '__builtins__': {}} if operation == 'names' else 0",
    ),
    (
        "answers that everything is one of its objects",
        "def f(x): return 0\ncode('Border').pack = lambda self, value, seen, depth=0: ['mine', 0]",
    ),
    ("answers twice from two processes", "import os\ndef f(x):\n    os.fork()\n    return 0"),
    (
        "leaves modules for the judge",
        "import os\nfor name in ('math', 'unittest', 'random', 'ast'):\n    open('/tmp/%s.py' % name, 'w').write('isclose = lambda *_: True')\ndef f(x): return 0",
    ),
];

/// What forgeries need: whatever holds a test or its number, and the ways back.
const TOOLS: &str = r#"
import json, os, re, sys
def frames():
    frame = sys._getframe()
    while frame:
        yield frame
        frame = frame.f_back
def code(name):
    return next(frame.f_globals[name] for frame in frames() if name in frame.f_globals)
def look(more=()):
    text = ' '.join(repr(frame.f_locals) + repr(list(frame.f_globals)) for frame in frames())
    text += ' '.join(part for part in more if isinstance(part, str))
    # Put together, so that it is not found in this program.
    found = re.search('assert .*?== (' + '4' + '[.]5)', text)
    return float(found.group(1)) if found else 0
def report(**message):
    for frame in frames():
        if 'nonce' in frame.f_locals:
            os.write(3, json.dumps({**message, 'nonce': frame.f_locals['nonce']}).encode() + b'\n')
            return
def send(message):
    # To every question, instead of an answer.
    while True:
        os.write(5, json.dumps(message).encode() + b'\n')
        if os.read(4, 1 << 16) == b'null\n': os._exit(0)
"#;

fn run(border: &Border, program: &str, own: &str, setup: &str, checks: Vec<&str>) -> Execution {
    let trial = Trial {
        program: vec![Part("<program>", program)],
        own: vec![Part("<own>", own)],
        setup: vec![Part("<setup>", setup)],
        checks,
        entry_point: None,
        limits: Limits { wall_seconds: 10.0, ..tight() },
    };
    border.run(&trial).unwrap()
}

fn border() -> Border {
    Border::new(&Settings { workers: Some(1), ..Settings::default() })
}

fn forgeries(_: &Sandbox) {
    assert!(FORGERIES.len() >= 20);
    let border = border();
    let mut forged = Vec::new();
    for (name, program) in FORGERIES {
        let program = format!("{TOOLS}{program}\n");
        let execution = run(&border, &program, OWN, "", CHECKS.to_vec());
        if execution.passed() > 0 || execution.is_passed() {
            forged.push(format!("{name}: {execution:#?}"));
        }
    }
    assert!(forged.is_empty(), "{forged:#?}");
    // The same tests pass where they should.
    let right = "def f(x):\n    if type(x) is list: x[:] = [4.5]\n    return 4.5";
    let execution = run(&border, right, OWN, "", CHECKS[..10].to_vec());
    assert!(execution.is_passed(), "{execution:#?}");
}

/// Programs, Python before their tests, and a test that holds.
const HONEST: &[(&str, &str, &str)] = &[
    (
        "def same(x): return x",
        "import datetime, decimal, fractions, collections",
        r#"
for value in [
    None, True, 0, -1, 2**63, -2**64, 10**5000, 0.1, -0.0, float("inf"), "", "é\ud83d\n", b"\x00\xff", bytearray(b"ab"),
    1 + 2j, (), (1,), [1, [2]], {1, 2}, frozenset("ab"), {1: {"a": (2,)}}, range(1, 9, 2), slice(1, None),
    decimal.Decimal("1.10"), fractions.Fraction(1, 3), datetime.date(2026, 11, 27),
    datetime.datetime(2026, 11, 27, 1, 2, 3, tzinfo=datetime.timezone.utc), datetime.time(1, 2),
    datetime.timedelta(1, 2, 3), collections.Counter("aab"), collections.deque([1, 2], 2),
    collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]), int, ValueError,
]:
    back = same(value)
    assert type(back) is type(value) and back == value, value
assert repr(same([-0.0, float("nan")])) == "[-0.0, nan]"
assert same(collections.deque([1, 2], 2)).maxlen == 2 and same(collections.defaultdict(list))["a"] == []
"#,
    ),
    (
        "def both(x, y): return x, y, x is y",
        "",
        "a = [1]\nx, y, same = both(a, a)\nassert x is y is a and same",
    ),
    ("def own(x):\n    x.append(x)", "", "a = []\nown(a)\nassert a[0] is a"),
    (
        "def sort(x, rows, seen, counts):\n    x.sort()\n    rows[0][0] = 9\n    seen.add(3)\n    counts['a'] += 1",
        "import collections",
        "x, row, seen, counts = [2, 1], [0], {1}, collections.Counter('a')\nrows = [row, row]\nsort(x, rows=rows, seen=seen, counts=counts)\n\
      assert x == [1, 2] and row == [9] and rows[1] is row and seen == {1, 3} and counts == {'a': 2}",
    ),
    (
        "def fails(x):\n    x.append(1)\n    raise KeyError('gone')",
        "",
        "x = []\ntry: fails(x)\nexcept KeyError as error: assert 'gone' in str(error) and x == [1]\nelse: assert False",
    ),
    (
        "class Empty(ValueError): pass\ndef pop(x):\n    raise Empty('none')",
        "",
        "try: pop([])\nexcept Empty as error: assert isinstance(error, ValueError)\nelse: assert False",
    ),
    (
        "def apply(g, x): return [g(item) for item in x]",
        "",
        "calls = []\nassert apply(lambda x: calls.append(x) or x * 2, [1, 2]) == [2, 4] and calls == [1, 2]",
    ),
    (
        "def apply(g):\n    try: g()\n    except ZeroDivisionError: return 'caught'",
        "",
        "assert apply(lambda: 1 / 0) == 'caught'",
    ),
    (
        "def compose(*fs): return lambda x: fs[0](fs[1](x))",
        "",
        "assert compose(lambda x: x + 1, lambda x: x * 2)(3) == 7",
    ),
    (
        "def total(items): return sum(items)",
        "",
        "assert total(x for x in range(4)) == 6 and total(iter([1, 2])) == 3",
    ),
    (
        "def up(n):\n    while True:\n        yield n\n        n += 1",
        "import itertools",
        "assert list(itertools.islice(up(3), 2)) == [3, 4] and next(up(5)) == 5",
    ),
    ("def best(x, key): return max(x, key=key)", "", "assert best(['a', 'bbb'], len) == 'bbb'"),
    (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n    def __len__(self): return len(self.items)\n    def __getitem__(self, at): return self.items[at]\n    def __str__(self): return str(self.items)\n    def __bool__(self): return bool(self.items)",
        "",
        "s = Stack()\nassert not s\ns.push(1)\ns.push(2)\nassert len(s) == 2 and s[0] == 1 and s[:] == [1, 2] and str(s) == '[1, 2]' and s.items == [1, 2] and s and 2 in s\ns.size = 5\nassert s.size == 5 and s == s and s != Stack()",
    ),
    (
        "def values(node):\n    found = []\n    while node:\n        found.append(node.value)\n        node = node.next\n    return found\ndef push(node, value):\n    new = type(node)(value) if isinstance(node, type) else node.make(value)\n    new.next = node\n    return new",
        "class Node:\n    def __init__(self, value): self.value, self.next = value, None\n    def make(self, value): return Node(value)\n    _hidden = 1",
        "node = Node(1)\nnode.next = Node(2)\nassert values(node) == [1, 2]\nnew = push(node, 0)\nassert new.value == 0 and new.next is node",
    ),
    (
        "class Node:\n    def __init__(self, value): self.value, self.left = value, None\ndef depth(node): return 1 + depth(node.left) if node else 0",
        "root = Node(1)\nroot.left = Node(2)",
        "assert depth(root) == 2",
    ),
    (
        "import enum\nclass Kind(enum.IntEnum): A = 3\nclass Text(str, enum.Enum): B = 'b'\nimport collections\nPair = collections.namedtuple('Pair', 'a b')\ndef kinds(): return Kind.A, Text.B, Pair(1, 2)",
        "",
        "assert kinds() == (3, 'b', (1, 2))",
    ),
    // A test of nothing but built-in names is about the one that the program defines.
    ("def sum(a, b): return a * b", "", "assert sum(2, 5) == 10"),
    ("import math\ndef area(r): return math.pi * r * r", "", "assert math.isclose(area(1), math.pi)"),
    ("def f(**given): return given", "", "assert f(a=1, b=[2]) == {'a': 1, 'b': [2]}"),
    (
        "memo = {}\ndef fib(n):\n    if n < 2: return n\n    if n not in memo: memo[n] = fib(n - 1) + fib(n - 2)\n    return memo[n]",
        "",
        "assert fib(100) == 354224848179261915075",
    ),
];

fn honest(_: &Sandbox) {
    let border = border();
    let mut failed = Vec::new();
    for (program, setup, check) in HONEST {
        let execution = run(&border, program, "", setup, vec![check]);
        if !execution.is_passed() {
            failed.push(format!("{check}: {execution:#?}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn refused(_: &Sandbox) {
    let border = border();
    let fails = |program: &str, check: &str, words: &str| {
        let execution = run(&border, program, "", "", vec![check]);
        let error = execution.checks[0].clone().and_then(|check| check.error).unwrap_or_default();
        assert!(execution.outcome == Outcome::Done && error.contains(words), "{execution:#?}");
    };
    fails(
        "def f():\n    x = []\n    for _ in range(150): x = [x]\n    return x",
        "assert f()",
        "nested more than 100 deep",
    );
    fails("def f(): return 'x' * (2 << 20)", "assert f()", "bytes can't cross");
    fails("def f(x): return x", "x = []\nfor _ in range(150): x = [x]\nf(x)", "nested more than 100 deep");
    fails("def g(): pass", "f()", "NameError: name 'f' is not defined");
    fails("def f(g): return g.__code__", "f(lambda: 0)", "may not");
    fails("class Node: pass", "assert isinstance(Node(), Node)", "AssertionError");
}

fn ends(_: &Sandbox) {
    let border = border();
    let outcome = |program: &str| {
        let execution = run(&border, program, "", "", vec!["assert f(1) == 1", "assert f(2) == 2"]);
        assert!(!execution.is_passed(), "{execution:#?}");
        execution.outcome
    };
    assert_eq!(outcome("import os\ndef f(x):\n    if x == 2: os._exit(0)\n    return x"), Outcome::Exited(0));
    assert_eq!(
        outcome("import sys\ndef f(x):\n    if x == 2: sys.exit(3)\n    return x"),
        Outcome::Exited(3)
    );
    assert!(matches!(outcome("f(:"), Outcome::Raised(error) if error.contains("SyntaxError")));
    assert_eq!(outcome("def f(x):\n    while True: pass"), Outcome::CpuTime);
    assert_eq!(outcome("def f(x): return [0] * 10**9"), Outcome::Memory);
    assert_eq!(outcome("def f(x): print('x' * 20000); return x"), Outcome::Output);
    assert_eq!(outcome("import os\ndef f(x):\n    while True: os.write(5, b'x' * 65536)"), Outcome::Output);
    // The judge's work is limited as well.
    let endless =
        "class Endless:\n    def __iter__(self):\n        while True: yield 0\ndef f(x): return Endless()";
    let execution = run(&border, endless, "", "", vec!["assert sum(f(1)) == 0"]);
    assert!(execution.outcome.is_limit(), "{execution:#?}");
    // Both sides are as good as new.
    let right = run(&border, "def f(x): return x", "", "", vec!["assert f(1) == 1"]);
    assert!(right.is_passed(), "{right:#?}");
}
