//! The families of generated tasks, written in Python (the part of it that `mini` knows).
//!
//! A family has slots, which are drawn per task: `{a}` stands for what is drawn, in words, and `{a!}` for the same as
//! code. Whatever a family knows of its task stands here once: the statement, a reference program, and the assertions
//! of a strong specification, which also decide what valid inputs are and, for families with many answers, what valid
//! outputs are.

/// A part of a family that is drawn per task.
#[derive(Debug)]
pub(super) enum Slot {
    /// A whole number of the range, both ends included.
    Number(&'static str, i64, i64),
    /// One of these, as words and as code.
    Choice(&'static str, &'static [(&'static str, &'static str)]),
}

/// From what an input is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw {
    /// A list of whole numbers: lengths and items, both ends included.
    Ints { len: [i64; 2], items: [i64; 2] },
    /// A whole number, both ends included.
    Int([i64; 2]),
    /// Letters of the alphabet's first so many: lengths, both ends included.
    Word { len: [i64; 2], letters: u64 },
}

/// A family.
#[derive(Debug)]
pub(super) struct Family {
    /// Its name in configurations and labels.
    pub(super) id: &'static str,
    pub(super) slots: &'static [Slot],
    /// The name of the function.
    pub(super) name: &'static str,
    /// The inputs, each with what it is drawn from.
    pub(super) inputs: &'static [(&'static str, Draw)],
    /// What the function does, and what its inputs are.
    pub(super) says: &'static str,
    /// What must hold of the inputs.
    pub(super) pre: &'static [&'static str],
    /// A program that does it.
    pub(super) reference: &'static [&'static str],
    /// What must hold of the output.
    pub(super) post: &'static [&'static str],
    /// For a function with many right answers: a program that gives another one for some inputs. Its outputs are then
    /// judged by `post`; those of a function with one right answer, by being that of the reference.
    pub(super) another: Option<&'static [&'static str]>,
}

const COMPARE: Slot = Slot::Choice(
    "cmp",
    &[("above", ">"), ("below", "<"), ("at least", ">="), ("at most", "<="), ("other than", "!=")],
);
const A: Slot = Slot::Number("a", -3, 9);
const LEAST: Slot = Slot::Number("m", 1, 4);
const MOST: Slot = Slot::Number("n", 6, 12);
/// No item is above it; most that are drawn are not.
const HIGHEST: Slot = Slot::Number("h", 10, 40);
const LIST: Draw = Draw::Ints { len: [0, 14], items: [-6, 12] };
const TIED: Draw = Draw::Ints { len: [0, 14], items: [0, 4] };
const WORD: Draw = Draw::Word { len: [0, 14], letters: 6 };
const LETTER: Slot =
    Slot::Choice("c", &[("a", "a"), ("b", "b"), ("c", "c"), ("d", "d"), ("e", "e"), ("f", "f")]);

/// The preconditions of a list of whole numbers with a least and a most length.
const LIST_PRE: &[&str] = &[
    "isinstance(xs, list)",
    "{m!} <= len(xs) <= {n!}",
    "all([isinstance(x, int) and x <= {h!} for x in xs])",
];
/// Those of a word.
const WORD_PRE: &[&str] =
    &["isinstance(s, str)", "all(['a' <= c <= 'z' for c in s])", "{m!} <= len(s) <= {n!}"];

/// Every family, sorted by id.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        id: "any_divisor",
        slots: &[Slot::Number("n", 30, 400)],
        name: "divisor",
        inputs: &[("k", Draw::Int([-5, 500]))],
        says: "Any divisor of k other than 1 and k. k is a whole number from 4 to {n} that is not prime.",
        pre: &["isinstance(k, int)", "4 <= k <= {n!}", "any([k % d == 0 for d in range(2, k)])"],
        reference: &["return [d for d in range(2, k) if k % d == 0][0]"],
        post: &["isinstance(output, int)", "1 < output < k", "k % output == 0"],
        another: Some(&["return [d for d in range(2, k) if k % d == 0][-1]"]),
    },
    Family {
        id: "any_extreme",
        slots: &[Slot::Choice("best", &[("largest", "max"), ("smallest", "min")]), LEAST, MOST, HIGHEST],
        name: "find",
        inputs: &[("xs", TIED)],
        says: "Any index of the {best} number. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return [i for i in range(len(xs)) if xs[i] == {best!}(xs)][0]"],
        post: &["isinstance(output, int)", "0 <= output < len(xs)", "xs[output] == {best!}(xs)"],
        another: Some(&["return [i for i in range(len(xs)) if xs[i] == {best!}(xs)][-1]"]),
    },
    Family {
        id: "any_order",
        slots: &[
            Slot::Number("d", 2, 4),
            Slot::Choice("which", &[("divisible", "=="), ("not divisible", "!=")]),
            LEAST,
            MOST,
            HIGHEST,
        ],
        name: "arrange",
        inputs: &[("xs", LIST)],
        says: "The same numbers in any order in which those {which} by {d} come first. xs is a list of {m} to {n} \
               whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &[
            "first = [x for x in xs if x % {d!} {which!} 0]",
            "last = [x for x in xs if not x % {d!} {which!} 0]",
            "return first + last",
        ],
        post: &[
            "isinstance(output, list)",
            "sorted(output) == sorted(xs)",
            "not any([output[i] % {d!} {which!} 0 and not output[i - 1] % {d!} {which!} 0 for i in range(1, \
             len(output))])",
        ],
        another: Some(&[
            "first = [x for x in xs if x % {d!} {which!} 0]",
            "last = [x for x in xs if not x % {d!} {which!} 0]",
            "return first[::-1] + last[::-1]",
        ]),
    },
    Family {
        id: "any_pair",
        slots: &[Slot::Number("a", 2, 9), MOST, HIGHEST],
        name: "pair",
        inputs: &[("xs", Draw::Ints { len: [0, 14], items: [0, 8] })],
        says: "Any two indices i < j, as a list, at which the numbers add up to {a}. xs is a list of at most {n} whole \
               numbers, none above {h}, that has such a pair.",
        pre: &[
            "isinstance(xs, list)",
            "len(xs) <= {n!}",
            "all([isinstance(x, int) and x <= {h!} for x in xs])",
            "any([xs[i] + xs[j] == {a!} for i in range(len(xs)) for j in range(i + 1, len(xs))])",
        ],
        reference: &[
            "return [[i, j] for i in range(len(xs)) for j in range(i + 1, len(xs)) if xs[i] + xs[j] == {a!}][0]",
        ],
        post: &[
            "isinstance(output, list)",
            "len(output) == 2",
            "all([isinstance(i, int) for i in output])",
            "0 <= output[0] < output[1] < len(xs)",
            "xs[output[0]] + xs[output[1]] == {a!}",
        ],
        another: Some(&[
            "return [[i, j] for i in range(len(xs)) for j in range(i + 1, len(xs)) if xs[i] + xs[j] == {a!}][-1]",
        ]),
    },
    Family {
        id: "any_split",
        slots: &[Slot::Number("p", 2, 5), Slot::Number("n", 20, 60)],
        name: "split",
        inputs: &[("k", Draw::Int([-4, 80]))],
        says: "Any list of {p} whole numbers, none below 1, that add up to k. k is a whole number from {p} to {n}.",
        pre: &["isinstance(k, int)", "{p!} <= k <= {n!}"],
        reference: &["return [1 for i in range({p!} - 1)] + [k - {p!} + 1]"],
        post: &[
            "isinstance(output, list)",
            "len(output) == {p!}",
            "all([isinstance(x, int) and x >= 1 for x in output])",
            "sum(output) == k",
        ],
        another: Some(&["return [k - {p!} + 1] + [1 for i in range({p!} - 1)]"]),
    },
    Family {
        id: "caesar",
        slots: &[Slot::Number("a", 1, 25), LEAST, MOST],
        name: "shift",
        inputs: &[("s", Draw::Word { len: [0, 14], letters: 26 })],
        says: "Each letter moved on by {a} in the alphabet, with a after z. s is a text of {m} to {n} letters a to z.",
        pre: WORD_PRE,
        reference: &["return ''.join([chr((ord(c) - 97 + {a!}) % 26 + 97) for c in s])"],
        post: &[
            "isinstance(output, str)",
            "len(output) == len(s)",
            "all([(ord(output[i]) - ord(s[i])) % 26 == {a!} % 26 for i in range(len(s))])",
            "all(['a' <= c <= 'z' for c in output])",
        ],
        another: None,
    },
    Family {
        id: "count",
        slots: &[COMPARE, A, LEAST, MOST, HIGHEST],
        name: "count",
        inputs: &[("xs", LIST)],
        says: "How many numbers are {cmp} {a}. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return len([x for x in xs if x {cmp!} {a!}])"],
        post: &["isinstance(output, int)", "output == len([x for x in xs if x {cmp!} {a!}])"],
        another: None,
    },
    Family {
        id: "digits",
        slots: &[Slot::Number("d", 0, 9), Slot::Number("n", 500, 9999)],
        name: "count_digit",
        inputs: &[("k", Draw::Int([-50, 12000]))],
        says: "How often the digit {d} is in k. k is a whole number from 0 to {n}.",
        pre: &["isinstance(k, int)", "0 <= k <= {n!}"],
        reference: &["return len([c for c in str(k) if int(c) == {d!}])"],
        post: &["isinstance(output, int)", "output == str(k).count('{d!}')"],
        another: None,
    },
    Family {
        id: "distinct",
        slots: &[Slot::Choice("of", &[("first", "[:i]"), ("last", "[i + 1:]")]), LEAST, MOST, HIGHEST],
        name: "distinct",
        inputs: &[("xs", TIED)],
        says: "Each number once, where it occurs {of}, in the order of xs. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return [xs[i] for i in range(len(xs)) if xs[i] not in xs{of!}]"],
        post: &[
            "isinstance(output, list)",
            "output == [xs[i] for i in range(len(xs)) if xs[i] not in xs{of!}]",
        ],
        another: None,
    },
    Family {
        id: "find",
        slots: &[COMPARE, A, LEAST, MOST, HIGHEST],
        name: "find",
        inputs: &[("xs", LIST)],
        says: "The index of the first number that is {cmp} {a}, or -1. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &[
            "found = [i for i in range(len(xs)) if xs[i] {cmp!} {a!}]",
            "return found[0] if len(found) > 0 else -1",
        ],
        post: &[
            "isinstance(output, int)",
            "-1 <= output < len(xs)",
            "output == -1 or xs[output] {cmp!} {a!}",
            "not any([x {cmp!} {a!} for x in (xs if output == -1 else xs[:output])])",
        ],
        another: None,
    },
    Family {
        id: "gap",
        slots: &[
            Slot::Choice("best", &[("largest", "max"), ("smallest", "min")]),
            Slot::Number("m", 2, 3),
            MOST,
            HIGHEST,
        ],
        name: "gap",
        inputs: &[("xs", LIST)],
        says: "The {best} distance between two neighbours. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return {best!}([abs(xs[i + 1] - xs[i]) for i in range(len(xs) - 1)])"],
        post: &[
            "isinstance(output, int)",
            "output == {best!}([abs(xs[i] - xs[i - 1]) for i in range(1, len(xs))])",
        ],
        another: None,
    },
    Family {
        id: "keep",
        slots: &[COMPARE, A, LEAST, MOST, HIGHEST],
        name: "keep",
        inputs: &[("xs", LIST)],
        says: "The numbers that are {cmp} {a}, in the order of xs. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return [x for x in xs if x {cmp!} {a!}]"],
        post: &["isinstance(output, list)", "output == [x for x in xs if x {cmp!} {a!}]"],
        another: None,
    },
    Family {
        id: "multiples",
        slots: &[Slot::Number("a", 2, 9), Slot::Number("n", 30, 60)],
        name: "multiples",
        inputs: &[("k", Draw::Int([-10, 80]))],
        says: "The multiples of {a} from {a} to k, in ascending order. k is a whole number from 1 to {n}.",
        pre: &["isinstance(k, int)", "1 <= k <= {n!}"],
        reference: &["return list(range({a!}, k + 1, {a!}))"],
        post: &["isinstance(output, list)", "output == [x for x in range(1, k + 1) if x % {a!} == 0]"],
        another: None,
    },
    Family {
        id: "remove",
        slots: &[LETTER, LEAST, MOST],
        name: "remove",
        inputs: &[("s", WORD)],
        says: "s without its letters {c}. s is a text of {m} to {n} letters a to z.",
        pre: WORD_PRE,
        reference: &["return ''.join([x for x in s if x != '{c!}'])"],
        post: &[
            "isinstance(output, str)",
            "'{c!}' not in output",
            "output == ''.join([x for x in s if x != '{c!}'])",
        ],
        another: None,
    },
    Family {
        id: "rotate",
        slots: &[LEAST, MOST, HIGHEST],
        name: "rotate",
        inputs: &[("xs", LIST), ("k", Draw::Int([-2, 10]))],
        says: "xs with its first k numbers moved to the end. xs is a list of {m} to {n} whole numbers, none above {h}; k is a whole number \
               from 0 to the length of xs.",
        pre: &[
            "isinstance(xs, list)",
            "{m!} <= len(xs) <= {n!}",
            "all([isinstance(x, int) and x <= {h!} for x in xs])",
            "isinstance(k, int)",
            "0 <= k <= len(xs)",
        ],
        reference: &["return xs[k:] + xs[:k]"],
        post: &[
            "isinstance(output, list)",
            "len(output) == len(xs)",
            "all([output[i] == xs[(i + k) % len(xs)] for i in range(len(xs))])",
        ],
        another: None,
    },
    Family {
        id: "running",
        slots: &[
            Slot::Choice("what", &[("sum", "sum"), ("maximum", "max"), ("minimum", "min")]),
            LEAST,
            MOST,
            HIGHEST,
        ],
        name: "running",
        inputs: &[("xs", LIST)],
        says: "For each number the {what} of the numbers up to it. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return [{what!}(xs[:i + 1]) for i in range(len(xs))]"],
        post: &[
            "isinstance(output, list)",
            "len(output) == len(xs)",
            "all([output[i] == {what!}(xs[:i + 1]) for i in range(len(xs))])",
        ],
        another: None,
    },
    Family {
        id: "scale",
        slots: &[Slot::Number("a", 2, 5), Slot::Number("b", 1, 9), LEAST, MOST, HIGHEST],
        name: "scale",
        inputs: &[("xs", LIST)],
        says: "Each number times {a} plus {b}. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return [x * {a!} + {b!} for x in xs]"],
        post: &[
            "isinstance(output, list)",
            "len(output) == len(xs)",
            "all([output[i] == xs[i] * {a!} + {b!} for i in range(len(xs))])",
        ],
        another: None,
    },
    Family {
        id: "total",
        slots: &[COMPARE, A, LEAST, MOST, HIGHEST],
        name: "total",
        inputs: &[("xs", LIST)],
        says: "The sum of the numbers that are {cmp} {a}. xs is a list of {m} to {n} whole numbers, none above {h}.",
        pre: LIST_PRE,
        reference: &["return sum([x for x in xs if x {cmp!} {a!}])"],
        post: &["isinstance(output, int)", "output == sum([x for x in xs if x {cmp!} {a!}])"],
        another: None,
    },
];
