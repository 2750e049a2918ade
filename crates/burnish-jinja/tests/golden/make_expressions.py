"""Renders templates with the jinja2 of transformers, into expressions.json.

    python make_expressions.py            (transformers 5.23, jinja2 3.1.6, Python 3.11)

Every filter, test, method and operator is put on every value of a list, with arguments where it takes some; then come
templates that were written one by one. The file holds `variables` and one [template, outcome] for each case: the text, or
null where jinja2 refuses. Null stands too for what `docs/chat-templates.md` lists as not supported, such as a text with
the address of an object, or a complex number.
"""

import copy
import itertools
import json
import re
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {
    "word": "hello world",
    "mixed": "Hello, wORLD of tEXT-books",
    "lines": "first line\nsecond\n\n  fourth\r\nfifth",
    "odd": "a<b>&\"c' \u00e9\u00df\u4e2d\U0001f600\t\x07\u200b\\",
    "blank": "",
    "number": "42",
    "fraction": "42.50",
    "n": 7,
    "negative": -13,
    "zero": 0,
    "big": 123456789012345678901234567890,
    "half": 2.5,
    "tiny": 1e-07,
    "huge": 1e22,
    "whole": 3.0,
    "minus": -0.0,
    "yes": True,
    "no": False,
    "nothing": None,
    "numbers": [3, 1, 2, 10, -4],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [1.0, 1e-07, None, True, "a\"b", 'c\'d', [2, [3.5]], {"k": None}],
    "empty": [],
    "mapping": {"b": 2, "A": 1.0, "c": None, "items": "own"},
    "bare": {},
    "people": [
        {"name": "Ada", "age": 36, "tags": ["x", "y"], "home": {"city": "London"}},
        {"name": "bob", "age": 7, "tags": [], "home": {"city": "bern"}},
        {"name": "Cyd", "age": 36, "tags": ["z"], "home": {}},
    ],
}
NAMES = list(VARIABLES)

FILTERS = """abs|attr('real')|batch(2)|list|batch(3, 'x')|list|capitalize|center(20)|center|d('x')|default('x', true)|count
dictsort|dictsort(true)|dictsort(by='value')|dictsort(reverse=true)|e|escape|forceescape|filesizeformat
filesizeformat(true)|first|last|float|float(-1.5)|int|int(9)|int(base=16)|format(1, 2)|indent|indent(2, true)
indent('>', first=true, blank=true)|join|join(', ')|length|list|lower|upper|items|list|min|max|pprint|replace('l', 'L')
replace('l', 'L', 1)|replace('', '.')|reverse|reverse|list|round|round(1)|round(-1)|round(2, 'ceil')|round(1, 'floor')
round(method='bad')|safe|slice(2)|list|slice(3, 'f')|list|sort|sort(true)|sort(case_sensitive=true)|string|striptags|sum
sum(start=10)|title|trim|trim('hd')|truncate(8)|truncate(9, true)|truncate(9, true, '!', 0)|truncate(3, end='long one')
unique|list|unique(true)|list|urlencode|wordcount|wordwrap(7)|wordwrap(7, false)|wordwrap(12, wrapstring='|')|xmlattr|tojson
tojson(indent=2)|tojson(ensure_ascii=true)|tojson(sort_keys=true)|tojson(separators=(',', ':'))|map('upper')|list
map('string')|join('/')|select|list|reject|list|select('string')|list|reject('number')|list|map(attribute='name')|list
selectattr('age')|list|selectattr('age', 'gt', 10)|list|rejectattr('age', 'equalto', 36)|list|groupby('age')|list
sort(attribute='age,name')|max(attribute='age')|first|map('nope')|list|nope|random|urlize"""
TESTS = """odd even divisibleby(3) defined undefined none boolean false true integer float lower upper string mapping number
sequence iterable callable escaped in([1,7,'hello']) in('hello-world') ==(7) eq('42') ne(7) gt(2) ge(7) lt(2.5) le(7) equalto(2.5)
sameas(none) sameas(true) filter test nope greaterthan(1) lessthan('z')"""
STRING = """capitalize() casefold() center(15) center(16,'*') count('l') count('') count('o',5) endswith('d') endswith(('x','s'))
expandtabs() expandtabs(4) find('l') find('l',4) find('',99) find('zz') index('o') index('zz') isalnum() isalpha() isascii()
isdecimal() isdigit() isidentifier() islower() isnumeric() isprintable() isspace() istitle() isupper() join(['a','b']) join('xyz')
join([1]) ljust(14,'.') rjust(14) lower() lstrip() lstrip('hH') rstrip('dks') strip() strip('ah') partition(' ') partition('zz')
partition('') rpartition('o') removeprefix('hel') removesuffix('ld') replace('o','0') replace('o','0',1) replace('','-',3) rfind('l')
rfind('l',0,5) rindex('l') rsplit() rsplit('l',1) rsplit(none,1) split() split(' ') split('l',1) split(maxsplit=1) split('')
split(sep='o') splitlines() splitlines(true) startswith('he') startswith('l',2) startswith(('x','H')) swapcase() title() upper()
zfill(14) zfill(3) translate({104: 'J', 101: none}) encode() nope() format(1) format_map({}) maketrans('ab','cd')"""
METHODS = {
    "numbers": "count(1) index(2) index(99) index(2,1) copy() append(1) sort() pop() nope() reverse()".split(),
    "(1,2,1)": "count(1) index(2) index(5) copy()".split(),
    "mapping": "get('b') get('z') get('z',5) keys() values() items() copy() pop('b') update({}) keys()|list b c items".split()
    + ["['items']", "['keys']()", "fromkeys(['q'],1)"],
    "n": "bit_length() real imag numerator denominator conjugate() as_integer_ratio() bit_count() nope __class__".split(),
    "big": "bit_length() bit_count() real as_integer_ratio()".split(),
    "half": "is_integer() hex() as_integer_ratio() real imag conjugate()".split(),
    "tiny": "is_integer() hex() as_integer_ratio()".split(),
    "yes": "real bit_length() numerator".split(),
    "range(2,9,3)": "start stop step count(5) index(8) index(3)".split(),
    "nothing": "x foo() __class__".split(),
    "missing": "x __class__".split(),
}
OPERANDS = ["word", "blank", "n", "negative", "zero", "big", "half", "minus", "huge", "yes", "nothing", "numbers", "(1,2)", "mapping", "missing"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
PERCENT = """%s %r %a %d %i %u %5d %-5d| %05d %+d %x %X %o %#x %#o %e %E %.2e %f %.0f %.3f %10.2f %-10.2f| %+.1f %g %G %.3g %#g %c %5s %-5s| %.2s
%% %5% %q % %(a)s %*d %.*f %ld %5.3d %#.3x %+x %F %010.3f""".split()
SPECS = """: :s :d :5 :<5 :>5 :^5 :*^9 :05 :+ :x :X :#x :o :b :#b :c :n :e :.2e :E :f :.0f :.2f :F :g :.3g :G :% :.1% :, :_ :,.2f :010,.2f :+.1f
:.3 :.10 :=+8d :0=8 :z.1f :08.3f :_x :>10s :10.3s :q :5.2d :^ :. :+s :,s :#.0f :#g :{w} :.{p}f :015,d !r !s !a !r:>12 !q""".split()
SPEC_VALUES = ["word", "odd", "n", "negative", "big", "half", "tiny", "huge", "minus", "yes", "nothing", "numbers", "missing", "1234567.891", "0.00012345", "1e16", "999999.5", "65"]

WRITTEN = r"""
{{ [1.0, 1e-7, None, True, 'a"b', "it's", 'both \' and "'] }}
{{ 1e-7 ~ '' }}|{{ 'x' ~ 1e-7 ~ none ~ true ~ [1.0] ~ {'a': 1e16} ~ (1,) ~ () }}
{{ 1.0 }} {{ 100000000000000000.0 }} {{ 1e16 }} {{ 123456789.123456789 }} {{ 0.1 + 0.2 }} {{ -0.0 }} {{ 1e300 * 1e300 }} {{ 5e-324 }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 1e5 }} {{ 1E-2 }} {{ 10000000000000000000000 }} {{ 007 }}
{{ 00 }} {{ 1.real }}
{{ 'a' 'b' "c" }} {{ '\x41\u00e9\U0001F600\t\101\'\q\\' }} {{ "\é\n" }}
{{ '\N{BULLET}' }}
{{ "unclosed }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }} {{ 7 // -2 }} {{ 7 % -2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 2 ** 100 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' in 'abc' in ['abc'] }} {{ not 1 == 2 }} {{ not not 1 }}
{{ 1 if false }}|{{ 1 if true else 2 }}|{{ (1 if false) is defined }}|{{ 'x' if blank else 'y' if n else 'z' }}
{{ [1,2,3,4,5][1:3] }} {{ [1,2,3][::-1] }} {{ 'hello'[1:-1] }} {{ 'hello'[::-2] }} {{ (1,2,3)[-2:] }} {{ range(10)[2:8:3] }} {{ range(5)[::-1]|list }}
{{ 'héllo'[1] }} {{ 'abc'[9] }} {{ [1][5] is defined }} {{ mapping['zz'] is defined }} {{ numbers[-1] }} {{ numbers['x'] is defined }} {{ numbers[1.0] is defined }}
{{ mapping[1:2] }}
{{ nothing[1:2] }}
{{ numbers['a':] }}
{{ numbers[::0] }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing[0] }}
{{ nothing.x }}|{{ nothing.x is defined }}|{{ n.x }}|{{ word.x }}|{{ word.upper is defined }}|{{ word.__class__ }}|{{ word['upper']() }}
{{ nothing.x.y }}
{{ missing + 1 }}
{{ missing ~ 'a' }}|{{ missing == missing2 }}|{{ missing in [1] }}|{{ 1 in missing }}|{{ [missing] }}|{{ missing is none }}|{{ not missing }}
{{ missing < 1 }}
{{ missing() }}
{{ nothing() }}
{{ {'a': 1, 'a': 2, 1: 'x', 1.0: 'y', true: 'z', none: 0, (1, 2): 't'} }}
{{ {[1]: 2} }}
{{ {} == none }}{{ [] == () }}{{ [1] == [1.0] }}{{ {'a': 1} == {'a': 1.0} }}{{ (1,) == (1,) }}{{ range(3) == range(0, 3, 1) }}
{{ [1, 'a'] < [1, 'b'] }} {{ (1, 2) < (1, 2, 0) }} {{ [2] > [1, 9] }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ true < 2 }}
{{ [1] < ['a'] }}
{{ {} < {} }}
{{ range(3) }} {{ range(1, 10, 3) }} {{ range(3)|list }} {{ range(5, 0, -2)|list }} {{ range(3)|length }} {{ range(3)[1] }} {{ 2 in range(3) }}
{{ range(100001) }}
{{ range(1, 2, 0) }}
{{ range(2.0) }}
{{ range() }}
{{ range(100000)|length }}
{{ mapping.keys() }} {{ mapping.values() }} {{ bare.items() }} {{ mapping.keys()|list }} {{ 'b' in mapping.keys() }} {{ mapping.items()|length }}
{{ mapping.items }}|{{ mapping['items'] }}|{{ mapping.b }}|{{ mapping.get('c', 5) }}|{{ mapping.get('d', 5) }}
{{ dict(a=1, b='x') }} {{ dict({'a': 1}, c=2) }} {{ dict([('k', 'v')]) }} {{ dict() }} {{ dict.fromkeys('ab', 0) }}
{{ dict([1]) }}
{{ namespace(a=1) }} {% set ns = namespace(x=0, y=[1]) %}{% set ns.x = ns.x + 5 %}{% set ns.z = 'new' %}{{ ns.x }}{{ ns.y }}{{ ns.z }}{{ ns.w is defined }}
{{ namespace(_a=1) }}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% set ns = {} %}{% set ns.a = 1 %}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}{{ c.items }}{{ c.pos }}
{{ cycler() }}
{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c{% set k = joiner(' | ') %}{{ k() }}x{{ k() }}y{{ k.sep }}{{ k.used }}
{{ joiner }}
{{ lipsum() }}
{{ raise_exception('no') }}
{{ raise_exception() }}
{% for x in [1,2,3] %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.previtem }}/{{ loop.nextitem }};{% endfor %}
{% for x in [1,1,2,2,1] %}{{ loop.changed(x) }}{{ loop.cycle('a','b') }}{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}none{% endfor %}
{% for x in nothing %}a{% endfor %}
{% for x in n %}a{% endfor %}
{% for k, v in mapping.items() %}{{ k }}={{ v }},{% endfor %}{% for k in mapping %}{{ k }}{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for x in range(10) if x % 2 %}{{ x }}{{ loop.index }}{{ loop.length }} {% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [[1, [2, 3]], 4] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in [1] %}{{ loop(x) }}{% endfor %}
{% for x in 'héy' %}{{ x }}.{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x in [1, 2] %}{{ loop }}{% endfor %}
{% for x in [1,2] %}{% for y in [3] %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% break %}
{% for loop in [1] %}{% endfor %}
{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% with x = 3 %}{{ x }}{% set x = 4 %}{{ x }}{% endwith %}{{ x }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, %}{{ t }}
{% set a, b = 1 %}
{% set x %}block {{ n }}{% endset %}{{ x }}|{{ x|upper }}{% set y | upper | replace('A', 'b') %}banana{% endset %}{{ y }}
{% set true = 1 %}
{% set 1 = 2 %}
{% set x = %}
{% filter upper %}abc {{ word }}{% endfilter %}{% filter replace('a', 'b') | trim %}  aaa  {% endfilter %}
{% macro m(a, b=2, c=b) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(b=7, a=0) }}{{ m() }}{{ m.name }}{{ m.arguments }}{{ m }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}inner {{ n }}{% endcall %}{{ m.caller }}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=5) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ word }}{% set word = 'x' %}{{ word }}{% endmacro %}{{ m() }}{{ word }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}late{% endmacro %}{{ a() }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a) %}{{ a|upper }}{% endmacro %}{{ m(*['x']) }}{{ m(**{'a': 'y'}) }}
{{ '%s and %s'|format('a', 'b') }} {{ '%(x)s'|format(x=1) }} {{ '%s' % 'a' }} {{ '%s %s' % ('a', 1.0) }} {{ '%d%%' % 5 }} {{ '%(b)d %(A)s' % mapping }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '%(zz)s' % mapping }}
{{ '%s'|format(1, x=2) }}
{{ '%s' % [1, 2.0] }} {{ '%s' % (1,) }} {{ '%r' % 'x' }} {{ 'no' % mapping }} {{ 'no' % [1] }} {{ '%s' % missing }} {{ '%d' % true }} {{ '%d' % 3.99 }}
{{ 'no' % 1 }}
{{ 'no' % () }}
{{ '{} {}'.format(1, 'b') }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x} {y[0]} {z.name}'.format(x=1, y=[2], z=people[0]) }} {{ '{{}}'.format() }} {{ '{:>{w}}'.format('a', w=4) }}
{{ '{} {0}'.format(1) }}
{{ '{}'.format() }}
{{ '{x}'.format() }}
{{ '{'.format() }}
{{ '}'.format() }}
{{ '{0.__class__}'.format(1) }}|{{ '{0[b]}'.format(mapping) }}|{{ '{0[0]}'.format([5]) }}|{{ '{a[items]}'.format_map({'a': mapping}) }}
{{ '{!r:>6}|{!s}|{!a}'.format('a', 'b', 'é') }}{{ '{:%}'.format(0.5) }}{{ '{0:d} {0:x} {0:b}'.format(10) }}
{{ people|map(attribute='home.city')|list }} {{ people|map(attribute='home.city', default='?')|list }} {{ people|map(attribute='tags.0')|list }}
{{ people|map(attribute='home.city')|map('default', 'none')|list }} {{ people|sum(attribute='age') }} {{ people|join(',', attribute='name') }} {{ people|map('length')|list }}
{{ people|selectattr('tags')|map(attribute='name')|join(' ') }} {{ people|rejectattr('home.city', 'defined')|list }} {{ people|selectattr('name', 'in', ['Ada'])|list|length }}
{% for g, items in people|groupby('age') %}{{ g }}:{{ items|map(attribute='name')|join(',') }};{% endfor %}{% for x in people|groupby('age') %}{{ x.grouper }}{{ x.list|length }}{{ x[0] }}{% endfor %}
{{ people|groupby('home.city', default='?')|map('first')|list }}{{ people|groupby('name')|map('first')|list }}{{ people|sort(attribute='name')|map(attribute='name')|list }}{{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }}
{{ people|sort }}
{{ [1, 'a']|sort }}
{{ [3, 1]|sort|first }}{{ words|sort }}{{ words|sort(case_sensitive=true) }}{{ words|unique|list }}{{ words|min }}{{ words|max }}{{ []|min }}{{ []|first }}{{ []|last }}{{ words|min(case_sensitive=true) }}
{{ ['a', 1]|join('-') }}{{ [none, 1.0, true]|join }}{{ 'abc'|join('.') }}{{ mapping|join(',') }}
{% set g = [1, 2, 3]|map('string') %}{{ g|list }}{{ g|list }}{% set h = [1, 2, 3]|select %}{{ h|first }}{{ h|list }}{{ 2 in [1, 2, 3]|map('int') }}
{{ [1]|map('string') }}
{{ [1, 2]|select('odd')|list }}{{ [1, 2, 3, 4]|select('divisibleby', 2)|list }}{{ [0, 1, '', 'a', none]|select|list }}{{ nothing|select|list }}{{ nothing|map('upper')|list }}
{{ [1]|map()|list }}
{{ [1]|map(attribute='x', foo=1)|list }}
{{ [1]|selectattr()|list }}
{{ 5|map('upper')|list }}
{{ [3.14159, 2.5, 3.5, -2.5, 1e20]|map('round')|list }} {{ 2.675|round(2) }} {{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ 5|round(2) }} {{ 2.5|round(0, 'ceil') }} {{ 2.1|round(1, 'floor') }} {{ 0.5|round|int }} {{ 1.005|round(2) }} {{ true|round }}
{{ '3.7'|int }}{{ 'x'|int(5) }}{{ '0x1f'|int(base=16) }}{{ '1f'|int(0, 16) }}{{ ' 12 '|int }}{{ '1_000'|int }}{{ 'inf'|int }}{{ '1e3'|int }}{{ '0b11'|int(base=0) }}{{ none|int }}{{ []|int }}{{ '٣'|int }}{{ '-5'|int }}
{{ missing|int }}
{{ (1e300 * 1e300)|int }}
{{ '3.5'|float }}{{ 'x'|float }}{{ '1e5'|float }}{{ 'nan'|float }}{{ '-inf'|float }}{{ ' 1_0.5 '|float }}{{ none|float(2) }}{{ big|float }}{{ '.5'|float }}{{ '5.'|float }}{{ '1e'|float }}{{ 'infinity'|float }}
{{ '<a>'|e }}{{ '<a>'|e|e }}{{ '<a>'|escape ~ '<b>' }}{{ ('<a>'|e) + '<b>' }}{{ '<a>'|safe }}{{ '<a>'|safe|escape }}{{ '<a>'|forceescape|forceescape }}{{ ('<a>'|e) is escaped }}{{ [('<a>'|e)] }}
{{ ('<%s>'|safe) % '<x>' }}{{ ('<{}>'|safe).format('<y>') }}{{ ('<b>'|safe).join(['<', 'x']) }}{{ ('a b'|safe).split() }}{{ ('<a>'|safe)|upper is escaped }}{{ ('<a>'|safe).replace('a', '<') }}
{{ '<p>Hi &amp; <b>you</b>  there</p><!-- c -->'|striptags }}{{ 'a&lt;b&#65;&#x42;'|striptags }}
{{ {'class': 'a', 'id': none, 'x<': 1}|xmlattr }}|{{ {'a b': 1} }}|{{ {'a': '"q"', 'b': missing}|xmlattr(false) }}
{{ {'a b': 1}|xmlattr }}
{{ 'a b/c?d=é&e'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('x', 'y z')]|urlencode }} {{ 5|urlencode }}
{{ 'the quick brown fox jumps over the lazy dog'|truncate(20) }}|{{ 'the quick brown fox'|truncate(10, true) }}|{{ 'abcdefghij'|truncate(5, leeway=5) }}|{{ 'abcdefghij'|truncate(5, false, '', 0) }}
{{ 'the quick brown-fox jumps over--the lazy dogs and averyveryverylongwordindeed'|wordwrap(10) }}|{{ 'a\nb c d'|wordwrap(3) }}|{{ 'well-known facts'|wordwrap(6, break_on_hyphens=false) }}
{{ 'x'|wordwrap(0) }}
{{ "it's a test-case (of [words]) {x} <y>"|title }}|{{ "it's a TEST".title() }}|{{ 'ǆ ß ﬁ'.title() }}|{{ 'ΑΣ'.lower() }}|{{ 'ß'.upper() }}|{{ 'İ'.lower() }}|{{ 'ŉ'.capitalize() }}|{{ 'ΣΑΣ'.capitalize() }}
{{ mapping|pprint }}|{{ people|pprint }}|{{ nested|pprint }}|{{ ('word ' * 40)|pprint }}|{{ [('x' * 30) ~ i for i in [1]] }}
{{ people|pprint }}|{{ nested|pprint }}|{{ ('word ' * 40)|pprint }}|{{ {'key': 'word ' * 30, 'b': ['x' * 50, 'y' * 50, 1.5]}|pprint }}
{{ {'z': [1, 2, 3], 'a': {'n': none, 'list': range(40)|list}}|pprint }}|{{ (('a' * 90),)|pprint }}|{{ ('a\nb\n' * 30)|pprint }}|{{ {2: 'x', 'a': 1, none: 2}|pprint }}
{{ nested|tojson }}{{ mapping|tojson(indent=4) }}{{ [[], {}, [[]]]|tojson(indent=1) }}{{ odd|tojson }}{{ odd|tojson(ensure_ascii=true) }}{{ {1: 'a', none: 2, true: 3, 1.5: 4}|tojson }}{{ (1, 2)|tojson }}{{ [1e16, 1e-7, 1.0, -0.0, big]|tojson }}{{ (1e300 * 1e300)|tojson }}
{{ missing|tojson }}
{{ range(3)|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true) }}{{ [1, 2]|tojson(indent='\t') }}{{ [1, 2]|tojson(indent=0) }}{{ [1, {'a': 2}]|tojson(separators=(' , ', ' : ')) }}{{ [1, 2]|tojson(indent=2, separators=(',', ': ')) }}{{ [1]|tojson(false, 2) }}{{ [1,2]|tojson(separators=[',', ':']) }}
{{ {1: 1, 'a': 2}|tojson(sort_keys=true) }}
{{ [1]|tojson(colour=1) }}
{{ mapping|dictsort }}{{ mapping|dictsort(false, 'key', true) }}
{{ mapping|dictsort(by='x') }}
{{ mapping|items|list }}{{ missing|items|list }}
{{ [1]|items|list }}
{{ [1, 2, 3, 4, 5]|batch(2)|list }}{{ [1, 2, 3, 4, 5]|batch(2, '-')|list }}{{ [1, 2, 3, 4, 5]|slice(2)|list }}{{ [1, 2, 3, 4, 5]|slice(3, 'x')|list }}{{ 'abc'|batch(2)|list }}
{{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 1024|filesizeformat(true) }} {{ 123456789|filesizeformat }} {{ '5000'|filesizeformat }} {{ 1e30|filesizeformat }}
{{ people[0]|attr('name') is defined }}{{ 'x'|attr('upper') is callable }}{{ 5|attr('real') }}{{ mapping|attr('b') is defined }}
{{ 'foo' is filter }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 3 is divisibleby 3 }}{{ 3 is not odd }}{{ 5 is in [5] }}{{ 'a' is eq 'a' }}{{ n is number and n is not none }}{{ 1 is sameas 1 }}{{ none is sameas none }}{{ numbers is sameas numbers }}
{{ 1 is odd is even }}
{{ x is defined.foo }}
{{ 1 is }}
{{ loop is defined }}{{ self is defined }}{{ caller is defined }}{{ range is callable }}{{ word.upper is callable }}{{ namespace is defined }}
{% if n > 5 and word or missing %}yes{% elif n %}elif{% else %}no{% endif %}{% if blank %}a{% elif zero %}b{% elif half %}c{% endif %}{% if none.x.y is defined %}{% endif %}
{% if false %}{{ 1|nope }}{% endif %}ok
{% if false %}{% for x in [1] %}{{ x|nope }}{% endfor %}{% endif %}ok
{{ 1|nope if false else 2 }}
{% if 1 is nope %}{% endif %}
{% if %}{% endif %}
{% if true %}
{% endif %}
{% for x in [1] %}
{% unknown %}
{% else %}
{{ }}
{{ 1 2 }}
{{ (1 }}
{{ [1, }}
{{ [1,] }}{{ (1,) }}{{ {'a': 1,} }}{{ dict(a=1,) }}
{{ f(a=1, 2) }}
{{ dict(a=1, a=2) }}
{{ word.upper( }}
{{ a.b.c }}
{{ 1.5.real }}{{ [[1, 2]][0][1] }}{{ [[1, 2]].0.1 }}{{ {'a': {'b': [5]}}.a.b[0] }}
{{ 'a' if n else }}
{{ $ }}
{{ a ? b }}
{{ a; b }}
{% print 1, 'a' %}{% print word %}
{% autoescape false %}{{ '<a>' }}{% endautoescape %}
{% block a %}A{{ n }}{% endblock %}{{ self.a() }}{% for i in [1] %}{% block b scoped %}{{ i }}{% endblock %}{% block c %}{{ i is defined }}{% endblock %}{% endfor %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% extends 'x' %}
{% include 'x' %}
{% if false %}{% include 'x' %}{% endif %}fine
{% import 'x' as y %}
{% raw %}{{ n }} {% if %}{% endraw %}|{%- raw -%}  {{ x }}  {%- endraw -%}  |
{# comment #}a{#- trim -#}  b  {#- c #}{# {{ n }} {% x %} #}
{# open
a{% raw %}open
  {%- if true -%}  a  {%- endif -%}  b  {{- n -}}  c  {{+ n }}  d{% if true +%}
e{% endif %}
{%+ if true %} x {%+ endif %}|  {%+ if true %}y{% endif %}
{% generation %}a{{ n }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}
{% for i in [1, 2] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{{ big }}{{ big + 1 }}{{ -big }}{{ big * big }}{{ big // 7 }}{{ big % 1000 }}{{ big / 10 }}{{ [big] }}{{ big|string }}{{ '%d' % big }}{{ '{:,}'.format(big) }}{{ big == big + 0.0 }}{{ big > 1e29 }}{{ 9223372036854775807 + 1 }}{{ -9223372036854775808 - 1 }}
{{ 10 ** 5000 }}
{{ 10 ** 400 / 10 ** 399 }}{{ 10 ** 20 / 3 }}{{ (10 ** 17 + 1) / 10 ** 17 }}
{{ 10 ** 400 / 3 }}
{{ 10 ** 400 + 0.5 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1.0 % 0 }}
{{ 0 ** -1 }}
{{ (-8) ** 0.5 }}
{{ 'a' * 3 }}{{ 3 * 'ab' }}{{ [1] * 2 }}{{ (1,) * 2 }}{{ 'a' * -1 }}{{ 'a' * true }}
{{ 'a' * 1.0 }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' + 'b' }}{{ true + true }}{{ 1 + 1.0 }}
{{ {} + {} }}
{{ -'a' }}
{{ +true }}{{ -true }}{{ - 5 | abs }}{{ -5|abs }}{{ (-5)|abs }}
{{ 'a\u2028b\x85c\x0cd\x1ce'.splitlines() }}{{ 'a\u2028b\x7f\xa0\xad'|string|pprint }}{{ ['\u2028\x7f\xa0\xad\ufeff\u0378\ue000'] }}
{{ '５'.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}{{ '三'.isnumeric() }}{{ 'é'.isalpha() }}{{ 'ª'.isalpha() }}{{ 'Ⅷ'.isalpha() }}{{ 'ǅ'.istitle() }}{{ 'ﬀ'.casefold() }}{{ 'ẞ'.casefold() }}{{ 'é_1'.isidentifier() }}
{{ strftime_now(5) }}
{% for i in [1] %}{{ word }}{% endfor %}{% set word = 2 %}{{ word }}
{% macro f() %}{{ word }}{% endmacro %}{{ f() }}{% set word = 'x' %}{{ f() }}
{% set word %}{{ word }}!{% endset %}{{ word }}
{% if false %}{% set word = 1 %}{% endif %}{{ word }}
{% if false %}{% set fresh = 1 %}{% endif %}{{ fresh is defined }}
{% for i in [1,2] %}{% if i == 2 %}{{ q }}{% endif %}{% set q = i %}{{ q }}{% endfor %}{{ q is defined }}
{% for word in [1] %}{{ word }}{% endfor %}{{ word }}
{% for i in [1] %}{% for j in [1] %}{% set word = 'in' %}{{ word }}{% endfor %}{{ word }}{% endfor %}{{ word }}
{% for i in [1, 2] %}{% if i == 1 %}{% set word = 'in' %}{% endif %}{{ word }}{% endfor %}{{ word }}
{% with word = 1 %}{% macro m() %}{{ word }}{% endmacro %}{{ m() }}{% endwith %}{{ m is defined }}
{% for i in [1,2] %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(word) %}{{ word }}{% endmacro %}{{ m() }}|{{ m('a') }}
{% macro m(x=word, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m() }}
{% macro m2() %}{{ caller(1) }}{% endmacro %}{% call(word) m2() %}{{ word }}{{ n }}{% endcall %}{{ word }}
{% filter upper %}{% set word = 'in' %}{{ word }}{% endfilter %}{{ word }}
{% generation %}{{ word }}{% set word = 'in' %}{{ word }}{% endgeneration %}{{ word }}
{% block z %}{{ word }}{% set word = 'in' %}{{ word }}{% endblock %}{{ word }}
{% set word = 'top' %}{% block z %}{{ word }}{% endblock %}{% macro m() %}{% set word = 'm' %}{{ word }}{% endmacro %}{{ m() }}{{ word }}
{% for i in [1] %}{% set inner = 5 %}{% block z %}{{ inner is defined }}{% endblock %}{{ inner }}{% endfor %}
{% if true %}{% set late = 1 %}{% else %}{% set late = 2 %}{% endif %}{{ late }}{% if late %}{% set late = late + 1 %}{% endif %}{{ late }}
{% set n = n + 1 %}{{ n }}{% for x in [1] %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}
{{ x9 }}{% set x9 = 1 %}{{ x9 }}
{% for n in range(n) if n > 4 %}{{ n }}{% endfor %}{% for x in [1] %}{{ loop.nope }}{% endfor %}
{% for x in [1, 2] if loop is defined %}{{ x }}{% endfor %}{% for x in [] %}{% else %}{{ loop is defined }}{% endfor %}
{% set ns = namespace(found=false) %}{% for p in people %}{% if p.age < 10 %}{% set ns.found = p.name %}{% endif %}{% endfor %}{{ ns.found }}
{% for x in words|batch(2) %}{{ x|join('+') }};{% endfor %}{% for k, v in mapping|dictsort %}{{ k }}{{ v }}{% endfor %}{% for i, (a, b) in [(1, (2, 3))] %}{{ i }}{{ a }}{{ b }}{% endfor %}
{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}
{% for ns.a in [1] %}{% endfor %}
{% set word.x = 1 %}
{% set x, x = 1, 2 %}{{ x }}
{{ 'a'|upper(1) }}
{{ 'a'|replace('a') }}
{{ missing|default(default_value='x') }}{{ [1, 2]|join(d='-') }}{{ people|join(attribute='age', d='+') }}{{ [1]|sum(attribute=none, start=1) }}{{ 7.25|round(precision=1) }}{{ mapping|first }}{{ mapping|list }}
{{ missing|default(value='x') }}
{{ 'abc'|center(width=9) }}
{{ 'abc'.center(width=9) }}
{{ ('abc'|upper)[0] ~ 'x' * 2 + 'y' }}{{ 1 + 2 ~ 3 }}{{ 'a' ~ 1 + 2 }}
{{ [1, 2] + [3] | list }}{{ -1 | abs }}{{ not missing and 1 }}{{ 1 or 2 and 3 }}{{ (1, 2) | first }}{{ 2 * 3 | string }}
{{ {'a': [1, {'b': (2,)}]}.a[1].b[0] }}{{ people[-1].name[::-1] }}{{ people[0]['home']['city'][0:3] }}{{ [1,2,3][1:][0] }}
{{ range }}
{{ dict }}
{{ cycler }}
{{ namespace }}
{{ word.upper }}
{{ mapping.get }}
{{ self }}
{{ people|map(attribute='name') }}
{{ '%s' % [range(3), none, mapping.keys()] }}{{ [mapping.items()] }}{{ (1.5, 'x')|string }}{{ {'k': [1.0]}|string }}
{{ 'x'.join([1]) }}
{{ 'abc'.replace('b', 2) }}
{{ 'abc'.startswith(1) }}
{{ 'abc'.find() }}
{{ 'abc'.upper(1) }}
{{ 'abc'.split(1) }}
{{ 'abc'.zfill('3') }}
{{ 'abc'.center(7, 'xy') }}
{{ 'a,b'.split(',', maxsplit=0) }}{{ 'a,b'.rsplit(sep=',') }}{{ 'a\nb'.splitlines(keepends=true) }}{{ 'a\tb'.expandtabs(tabsize=2) }}
{{ 'abc'.count('b', 1, 2) }}{{ 'abc'.find('c', -1) }}{{ 'abc'.endswith('b', 0, 2) }}{{ 'abc'.index('a', none, 1) }}{{ 'ab' 'cd'.upper() }}
{{ 'straße'.upper() }}{{ 'ŞİIı'.lower() }}{{ 'ǆabc ǅ'.swapcase() }}{{ 'ﬁne'.capitalize() }}{{ 'ᾳ'.title() }}{{ 'Σίσυφος ΣΑΣ'.lower() }}{{ "they're bill's".title() }}{{ 'x1y'.title() }}
{{ '1 2  3'.split() }}{{ ' a b '.split(' ') }}{{ ' a  b '.rsplit(none, 1) }}{{ 'abc'.partition('b') }}{{ 'a.b.c'.rpartition('.') }}{{ 'a-b'.split('-')[1] }}
"""


def outcome(template):
    try:
        text = _compile_jinja_template(template).render(**copy.deepcopy(VARIABLES))
        text.encode()
    except Exception:
        return None
    return None if re.search(r" at 0x[0-9a-f]+>|^\(.*j\)$", text) else text


# What is listed as not supported, though jinja2 does it.
NOT_SUPPORTED = [r"\|random\b", r"\|urlize\b", r"lipsum\(\)", r"\.encode\(", r"\\N\{"]


def filters():
    for line in FILTERS.split("\n"):
        chain, depth = "", 0
        for part in re.split(r"\|(?![^()]*\))", line):
            yield part
    for chain in ["batch(2)|list", "batch(3, 'x')|list", "items|list", "reverse|list", "slice(2)|list", "slice(3, 'f')|list",
                  "unique|list", "unique(true)|list", "map('upper')|list", "map('string')|join('/')", "select|list", "reject|list",
                  "select('string')|list", "reject('number')|list", "map(attribute='name')|list", "selectattr('age')|list",
                  "selectattr('age', 'gt', 10)|list", "rejectattr('age', 'equalto', 36)|list", "groupby('age')|list",
                  "max(attribute='age')|first", "map('nope')|list"]:
        yield chain


def templates():
    for name, chain in itertools.product([*NAMES, "missing"], dict.fromkeys(filters())):
        yield f"{{{{ {name}|{chain} }}}}"
    for name, test in itertools.product([*NAMES, "missing"], TESTS.split()):
        yield f"{{{{ {name} is {test} }}}}"
    for name, method in itertools.product(["word", "mixed", "odd", "lines", "blank", "number"], STRING.split()):
        yield f"{{{{ {name}.{method} }}}}"
    for name, methods in METHODS.items():
        for method in methods:
            yield f"{{{{ {name}{method if method.startswith('[') else '.' + method} }}}}"
    for left, operator, right in itertools.product(OPERANDS, OPERATORS, OPERANDS):
        if not (operator == "**" and right in ("big", "huge")) and not (operator == "*" and "big" in (left, right)):
            yield f"{{{{ {left} {operator} {right} }}}}"
    for name, code in itertools.product(["word", "n", "negative", "big", "half", "tiny", "huge", "yes", "nothing", "numbers", "(5, 2.5)", "{'a': 1}", "missing", "'x'"], PERCENT):
        yield f"{{{{ '{code}' % {name} }}}}"
    for name, spec in itertools.product(SPEC_VALUES, SPECS):
        yield f"{{{{ '{{{spec}}}'.format({name}, w=6, p=2) }}}}"
    yield from (line.replace("\\\\n", "\n") for line in WRITTEN.strip("\n").split("\n"))
    # Whitespace around tags, over several lines.
    tags = ["{% if n %}", "{%- if n %}", "{% if n -%}", "{%+ if n +%}"]
    ends = ["{% endif %}", "{%- endif -%}", "{%+ endif %}"]
    for (before, tag, between, end, after) in itertools.product(["", "  ", "a\n  "], tags, ["x", "\n  x\n  ", "\n\n"], ends, ["", "\n", "\n\nb", "  b"]):
        yield before + tag + between + end + after
    yield from ["a\r\n{% if n %}\r\nb\rc{% endif %}\r\n", "a\n", "a\n\n", "\n", "", "  {{ n }}  \n", "  {# c #}  \n  x", "  {# c -#}\n  x",
                "{% raw %}\n  {{ a }}\n  {% endraw %}\nb", "  {% raw %}x{% endraw %}  ", "{{ n\n}}\n{{\n n }}", "{% set x = [\n1,\n2] %}\n{{ x }}"]


if __name__ == "__main__":
    cases = []
    for template in dict.fromkeys(templates()):
        listed = any(re.search(pattern, template) for pattern in NOT_SUPPORTED)
        cases.append([template, None if listed else outcome(template)])
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    head = json.dumps(VARIABLES, ensure_ascii=False)
    Path(__file__).with_name("expressions.json").write_text(f'{{"variables": {head},\n"cases": [\n{lines}\n]}}\n')
    print(len(cases), "cases, refused:", sum(text is None for _, text in cases))
