"""Renders every template of shared/data/chat_templates over a matrix of conversations, into chat_matrix.json.

    python make_chat_matrix.py [--show TEMPLATE CASE | DIRECTORY OUT.json]        (transformers 5.23, jinja2 3.1.6)

The file holds `conversations` (messages as burnish has them), `tools`, `variables`, and for each template one
text: 8 hexadecimal digits for each case, the FNV-1a hash (32 bits) of the rendered text, or 8 dashes where the
template refuses. Cases run over conversations, then over system message or none, tools or none, variables,
generation prompt or none (`cases` below). With --show the text of one case is printed instead;
with a directory its templates are rendered into a file of that form, for the test that BURNISH_CHAT_MATRIX asks for.
"""

import itertools
import json
import sys
from datetime import datetime
from pathlib import Path

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

HERE = Path(__file__).resolve().parent
TEMPLATES = HERE.parents[4] / "shared/data/chat_templates"


class Epoch(datetime):
    """A clock that stands still, for templates that write the date."""

    @classmethod
    def now(cls):
        return cls(1970, 1, 1)


chat_template_utils.datetime = Epoch

TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather <now> & later, in \u00b0C",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where", "enum": ["Bern", "Z\u00fcrich"]},
                "days": {"type": "integer", "default": 1},
                "places": {"type": "array", "items": {"type": "string"}, "nullable": True, "default": None},
                "limit": {"type": "integer", "maximum": 123456789012345678901234567890, "minimum": -0.0},
            },
            "required": ["city"],
        },
    },
    {"name": "stop", "description": "Stops.", "parameters": {"type": "object", "properties": {}}},
]
VARIABLES = [
    {"bos_token": "<s>", "eos_token": "</s>"},
    {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": False, "thinking": False},
    {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": True, "thinking": True},
]


def user(content):
    return {"role": "user", "content": content}


def assistant(content, thoughts=None, calls=()):
    message = {"role": "assistant", "content": content}
    if thoughts is not None:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(arguments, name="get_weather", id="call00001"):
    return {"id": id, "function": {"name": name, "arguments": arguments}}


def tool(content, id="call00001"):
    return {"role": "tool", "content": content, "tool_call_id": id, "name": "get_weather"}


SYSTEM = {"role": "system", "content": "Be brief.\n"}
BERN = call({"city": "Bern", "days": 2, "exact": 0.00001, "safe": True, "place": None, "more": ["\u00e9", {"a": 1.0}]})
HARD = call(
    {
        "nothing": None,
        "numbers": [1.0, -0.0, 0, 1e-7, 1e22, 1e16, 123456789012345678901234567890, -9223372036854775809, 18446744073709551615],
        "texts": ["\u2028 \x7f \ud55c \U0001f600 \\ \" ' </script>", "", None],
        "z": {"b": None, "a": {"deep": [None, {"x": None}], "empty": [], "none": {}}},
        "A key": True,
    }
)
TEXT = call('{"city": "Bern"}', id="call00002")
EMPTY = call({}, name="stop", id="call00003")
THOUGHT = "<think>\nadd\n</think>\n\n"
CONVERSATIONS = [
    [user("hi")],
    [user("  spaces \n"), assistant("\n fine \n"), user("<b>&'\"</b> \u2600 {{ x }} {% y %} /no_think")],
    [user("1+1?"), assistant("2")],
    [user("1+1?"), assistant(THOUGHT + "2"), user("2+2?"), assistant(THOUGHT + "4")],
    [user("1+1?"), assistant(THOUGHT + "2"), user("2+2?")],
    [user("1+1?"), assistant("2", "\nadd\n"), user("2+2?"), assistant("4", "add again")],
    [user("1+1?"), assistant("2", "add"), user("2+2?")],
    [user("1+1?"), assistant("<think>\nhalf a thou")],
    [user("1+1?"), assistant("add</think>2"), user("2+2?"), assistant(" ")],
    [user("Weather?"), assistant("", calls=[BERN])],
    [user("Weather?"), assistant("", calls=[BERN]), tool("sunny \u2600")],
    [user("Weather?"), assistant("", calls=[BERN]), tool('{"rain": 3}'), assistant("It rains."), user("Thanks")],
    [user("Weather?"), assistant("", "ask", calls=[BERN]), tool("sunny"), assistant("Sunny.", "told")],
    [user("Weather?"), assistant(THOUGHT + "Let me see.", calls=[BERN]), tool("sunny"), assistant("x"), user("y")],
    [user("Weather?"), assistant("Both.", calls=[BERN, TEXT]), tool("a"), tool("b", "call00002"), assistant("c")],
    [user("Stop!"), assistant("Yes", calls=[EMPTY]), tool("")],
    [user("Weather?"), assistant("", calls=[HARD])],
    [user("Weather?"), assistant("x", calls=[HARD, BERN]), tool("null"), tool("-0.0", "call00002"), assistant("c"), user("d")],
    [user("Weather?"), assistant("", calls=[call({"city": "Bern"}, id="1")]), tool("sunny", "1")],
    [assistant("Hello, how can I help?"), user("hi")],
    [user("a"), user("<tool_response>\nx\n</tool_response>"), assistant(THOUGHT + "c")],
    [tool("nobody asked")],
    [user("a"), {"role": "system", "content": "in the middle"}, user("b")],
    [user("a"), assistant("b"), assistant("c")],
]


def openai(message):
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [{"type": "function", **call} for call in message["tool_calls"]]}


def cases():
    return itertools.product(CONVERSATIONS, [False, True], [False, True], VARIABLES, [False, True])


def render(source, conversation, has_system, has_tools, variables, add_generation_prompt):
    messages = [SYSTEM] * has_system + conversation
    texts, _ = render_jinja_template(
        [[openai(message) for message in messages]],
        tools=[{"type": "function", "function": tool} for tool in TOOLS] if has_tools else None,
        chat_template=source,
        add_generation_prompt=add_generation_prompt,
        **variables,
    )
    return texts[0]


def fnv(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def outcome(source, case):
    try:
        return fnv(render(source, *case))
    except Exception:
        return "-" * 8


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        case = list(cases())[int(sys.argv[3])]
        print(case, file=sys.stderr)
        print(render((TEMPLATES / sys.argv[2]).read_text(), *case), end="")
        sys.exit()
    folder = Path(sys.argv[1]) if len(sys.argv) == 3 else TEMPLATES
    templates = {}
    for path in sorted(folder.rglob("*.jinja")):
        source = path.read_text()
        templates[path.relative_to(folder).as_posix()] = "".join(outcome(source, case) for case in cases())
    head = {"system": SYSTEM, "tools": TOOLS, "variables": VARIABLES}
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
    lines.append('"conversations": [\n' + ",\n".join(json.dumps(c, ensure_ascii=False) for c in CONVERSATIONS) + "\n]")
    lines.append('"templates": {\n' + ",\n".join(f'"{n}": "{h}"' for n, h in templates.items()) + "\n}")
    out = Path(sys.argv[2]) if len(sys.argv) == 3 else HERE / "chat_matrix.json"
    out.write_text("{" + ",\n".join(lines) + "}\n")
    refused = {name: hashes.count("-" * 8) for name, hashes in templates.items()}
    print(sum(len(hashes) // 8 for hashes in templates.values()), "cases; refused:", refused)
