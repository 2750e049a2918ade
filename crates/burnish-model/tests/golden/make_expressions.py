"""Renders one expression at a time as transformers does, into expressions.json.

    python make_expressions.py                                                  (transformers 5.23, jinja2 3.1.6)

The file holds `variables` and `cases`: pairs of a template and its text, null where the template is refused. Filters,
tests and methods are those that 811 published templates use (docs/chat-templates.md).
"""

import json
from pathlib import Path

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

from make_chat_matrix import Epoch

chat_template_utils.datetime = Epoch

VARIABLES = {
    "word": "hello world",
    "lines": "first line\nsecond\n\n  fourth\r\nfifth\u2028sixth",
    "odd": "a<b>&\"c' \u00e9\u00df\u4e2d\U0001f600\t\x07\u200b\u00a0\\",
    "spaced": "\n\t  x y \u3000\n",
    "blank": "",
    "n": 7,
    "negative": -13,
    "big": 123456789012345678901234567890,
    "vast": 10**60,
    "half": 2.5,
    "tiny": 1e-07,
    "huge": 1e22,
    "whole": 3.0,
    "yes": True,
    "no": False,
    "nothing": None,
    "numbers": [3, 1, 2, 10, -4],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [1.0, 1e-07, None, True, "a\"b", "c'd", "\u2028\u00a0\x00", [2, [3.5]], {"k": None, "it's": 10**60}],
    "empty": [],
    "mapping": {"b": 2, "A": 1.0, "c": None, "items": "own"},
    "bare": {},
    "people": [{"name": "Ada", "age": 36, "tags": ["x", "y"]}, {"name": "bob", "age": 7, "tags": []}, {"name": "Cyd", "age": 36}],
}
EACH = [
    "{{ V }}",
    "{{ V ~ '' }}",
    "{{ V|string }}",
    "{{ [V, V]|join(', ') }}",
    "{{ [V]|string }}",
    "{{ V|tojson }}",
    "{{ V|tojson(ensure_ascii=true) }}",
    "{{ V|tojson(indent=2) }}",
    "{{ V|tojson(separators=(',', ':'), sort_keys=true) }}",
    "{{ V|length }}",
    "{{ V|default('x') }}|{{ V|default('x', true) }}",
    "{{ V is string }} {{ V is mapping }} {{ V is iterable }} {{ V is sequence }}",
    "{{ V is none }} {{ V is defined }} {{ V is boolean }} {{ V is number }} {{ V is true }} {{ V is false }}",
    "{{ 'yes' if V else 'no' }} {{ V == V }} {{ not V }} {{ V and 1 }} {{ V or 1 }}",
    "{{ 'text' + V }}",
    "{{ V + V }}",
    "{% for x in V %}{{ loop.index }}{{ x }}{{ '' if loop.last else ', ' }}{% else %}none{% endfor %}",
    "{{ V[0] }}",
    "{{ V[-1] }}",
    "{{ V[1:] }}",
    "{{ V[:-1] }}|{{ V[::-1] }}",
    "{{ V.name }}",
    "{{ V|trim }}",
    "{{ 'b' in V }}",
    "{{ V in ['hello world', 7, none] }}",
    "{{ V|list }}",
    "{{ V|first }}",
    "{{ V|last }}",
]
STRINGS = ["word", "lines", "odd", "spaced", "blank", "'a,b,,c'", "'-x-'"]
METHODS = [
    "upper()", "lower()", "capitalize()", "title()", "strip()", "lstrip()", "rstrip()", "strip('-hd')", "lstrip('-')", "rstrip('\\n')",
    "split()", "split(',')", "split(' ', 1)", "split('x')[-1]", "rsplit(',', 1)", "rsplit(' ')", "splitlines()",
    "startswith('h')", "startswith(('a', '-'))", "endswith('d')", "endswith(('d', '-'))", "replace('l', 'L')", "replace('l', '')",
    "find('o')", "find('nowhere')", "index('o')", "format(1)",
]
FILTERS = ["upper", "lower", "capitalize", "title", "replace('l', 'L')", "indent", "indent(2)", "indent(4, true)", "indent(8, first=true, blank=true)", "safe", "length", "int", "int(3)", "title", "trim('-')"]
OTHERS = [
    "{{ mapping.get('b') }}{{ mapping.get('x') }}{{ mapping.get('x', 'y') }}",
    "{{ mapping['items'] }}",
    "{% for k, v in bare.items() %}{{ k }}{% endfor %}{% for k, v in mapping|items %}{{ k }}={{ v }} {% endfor %}",
    "{% for k in mapping %}{{ k }} {% endfor %}{{ people[0].keys()|list }} {{ people[0].values()|list }}",
    "{% for k, v in people[0].items() %}{{ k }}={{ v }} {% endfor %}",
    "{% for k, v in mapping|dictsort %}{{ k }}={{ v }} {% endfor %}",
    "{{ people|map(attribute='name')|list }} {{ people|map(attribute='name')|join('/') }}",
    "{{ people|selectattr('age', 'equalto', 36)|map(attribute='name')|list }}",
    "{{ people|rejectattr('tags')|list|length }} {{ people|selectattr('tags', 'defined')|list|length }}",
    "{{ numbers|sort }} {{ numbers|max }} {{ numbers|min }} {{ numbers|sum }} {{ numbers|reverse|list }} {{ numbers|unique|list }}",
    "{{ n + half }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 4 }} {{ negative // 4 }} {{ negative % 4 }} {{ 2 ** 10 }} {{ big + 1 }}",
    "{{ 'a' * 3 }} {{ [1] + [2] }} {{ n ~ half ~ yes ~ nothing ~ 'x' }} {{ 1 + 2 ~ 3 }}",
    "{{ n > 3 and half <= 2.5 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ [1] == [1] }} {{ n is odd }} {{ n is divisibleby 7 }}",
    "{{ missing }}|{{ missing is defined }}|{{ missing is undefined }}|{{ missing|default('d') }}|{{ missing|length }}|{{ missing == none }}",
    "{{ missing.x }}", "{{ missing + 'x' }}", "{{ missing() }}", "{{ word.x.y }}", "{{ nothing.x }}", "{{ nothing.x.y }}", "{{ mapping.x }}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}", "{% for x in nothing %}{{ x }}{% endfor %}", "{% for x in n %}{% endfor %}",
    "{% for x in mapping.get('x') %}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ x }} {{ loop.first }} {{ loop.previtem }} {{ loop.nextitem }} {{ loop.length }};{% endfor %}",
    "{% for x in (numbers if n else empty) %}{{ x }}{% endfor %}{% for x in numbers[1:] + [5] if x in numbers %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 10 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for a in [[1, [[2, []]]]] recursive %}{{ a[0] }}{{ loop(a[1]) }}{% endfor %}",
    "{% for x in numbers %}{% set last = x %}{% endfor %}{{ last }}{% set ns = namespace(a=1) %}{% for x in numbers %}{% set ns.a = x %}{% endfor %}{{ ns.a }}",
    "{% set x %}a{{ n }}{% endset %}{{ x|upper }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% macro f(a, b='d') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{% call f(3) %}x{% endcall %}",
    "{% filter upper %}a{{ word }}{% endfilter %}{% with x = 1 %}{{ x }}{% endwith %}{# {% for %} #}{{ '{% for x in y %}' }}",
    "{% raw %}\n{{ x }}{% y %}\n{% endraw %}\nz", "{%- raw -%}\n {{ x }} \n{%- endraw -%}\nz", "{{ '}}' }}{{ \"%}\" }}{{ '{{' }}",
    "a\n  {% if yes %}\n  b\n  {%- endif %}\n  {%+ if yes %}c{% endif +%}\n d\n",
    "  {% generation %}\n a {% endgeneration %}\nb{%- generation -%} c {%- endgeneration -%} d",
    "{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% break %}",
    "{% for i in [1, 2] %}{% set x %}{% for j in [3, 4] %}{{ j }}{% break %}{% endfor %}{% endset %}{{ x }}{% break %}{% endfor %}",
    "{{ raise_exception('no') }}", "{{ word.append('x') }}", "{{ numbers.append(1) }}", "{{ mapping.update({}) }}", "{{ word|nofilter }}", "{{ word.nomethod() }}",
    "{{ word|split }}", "{{ word is startingwith 'h' }}", "{{ range(3)|list }} {{ range(1, 7, 2)|list }} {{ dict(a=1) }} {{ {'a': [1, (2, 3)]} }} {{ (1,) }}",
    "{{ strftime_now('%d %b %Y %-d %B %A %H:%M:%S %j %y %%') }}", "{{ '%s and %d' | format('a', 3) }} {{ '{} {x}'.format(1, x=2) }}",
    "{{ word[0:5] }} {{ word[-3:] }} {{ odd[4:7] }} {{ numbers[1:3] }} {{ numbers[::2] }} {{ numbers[5] }} {{ numbers[-9] }}",
    "{{ lines.splitlines()|length }}", "{{ ', '.join(words) }} {{ words|join }} {{ words|sort|join(',') }}", "{{ (word|safe) + '' }} {{ word|e }}",
    "{{ 1.0 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 10 ** 15 }} {{ '\\u00e9\\n\\x41' }} {{ 'it\\'s' }} {{ \"q\" 'r' }} {{ 1_000 }} {{ True }} {{ None }}",
]


def outcome(template):
    try:
        return render_jinja_template([[]], chat_template=template, **VARIABLES)[0][0]
    except Exception:
        return None


if __name__ == "__main__":
    templates = [template.replace("V", name) for name in VARIABLES for template in EACH]
    templates += [f"{{{{ ({text}).{method} }}}}" for text in STRINGS for method in METHODS]
    templates += [f"{{{{ {text}|{name} }}}}" for text in STRINGS for name in FILTERS]
    cases = [[template, outcome(template)] for template in templates + OTHERS]
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"variables": {json.dumps(VARIABLES)},\n"cases": [\n{lines}\n]}}\n'
    (Path(__file__).resolve().parent / "expressions.json").write_text(text)
    print(len(cases), "cases; refused:", sum(text is None for _, text in cases))
