"""Renders conversations as transformers' apply_chat_template does, into chats.json.

    python make_chats.py        (transformers 5.23)

Each entry: template, messages, tools, add_generation_prompt, text. Messages and tools are written as burnish has
them; transformers gets tool calls and tools with `"type": "function"` around them, as OpenAI's schema says.
"""

import json
from datetime import datetime
from pathlib import Path

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

HERE = Path(__file__).parent
TEMPLATES = [HERE / "../../src/chatml.jinja", HERE / "../fixtures/qwen3.jinja"]



class Epoch(datetime):
    """A clock that stands still, for templates that write the date."""

    @classmethod
    def now(cls):
        return cls(1970, 1, 1)


chat_template_utils.datetime = Epoch

WEATHER = {
    "name": "get_weather",
    "description": "The weather <now> & later, in \u00b0C",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}, "required": ["city"]},
}
CALL = {"id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Z\u00fcrich", "days": 2, "exact": 0.00001, "safe": True}}}
CALL_TEXT = {"function": {"name": "get_weather", "arguments": '{"city": "Bern"}'}}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, call="c1"):
    return {"role": "tool", "content": content, "tool_call_id": call}


CONVERSATIONS = [
    ([user("hi")], []),
    ([system("Be brief."), user("  spaces around \n"), assistant("fine\n"), user("<b>&'\"</b>")], []),
    ([user("1+1?"), assistant("<think>\nadd\n</think>\n\n2"), user("2+2?"), assistant("<think>\nadd again\n</think>\n\n4")], []),
    ([user("1+1?"), assistant("2", reasoning_content="\nadd\n"), user("2+2?"), assistant("4", reasoning_content="add again")], []),
    ([user("1+1?"), assistant("no thoughts")], []),
    ([user("1+1?"), assistant("<think>\nhalf a thou")], []),
    (
        [
            system("Use tools."),
            user("Weather?"),
            assistant("<think>\nask\n</think>\n\nLet me see.", tool_calls=[CALL, CALL_TEXT]),
            tool("sunny \u2600"),
            tool('{"rain": 3}', "c2"),
            assistant("<think>\nnow I know\n</think>\n\nSunny."),
            user("Thanks"),
        ],
        [WEATHER],
    ),
    ([user("Weather?"), assistant("", tool_calls=[CALL]), tool("sunny")], [WEATHER]),
    ([user("a"), user("<tool_response>\nx\n</tool_response>"), assistant("<think>\nb\n</think>\n\nc")], []),
]


def openai(message):
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [{"type": "function", **call} for call in message["tool_calls"]]}


def render(source, messages, tools, add_generation_prompt):
    texts, _ = render_jinja_template(
        [[openai(message) for message in messages]],
        tools=[{"type": "function", "function": tool} for tool in tools] or None,
        chat_template=source,
        add_generation_prompt=add_generation_prompt,
    )
    return texts[0]


def cases():
    for path in TEMPLATES:
        source = path.read_text()
        for messages, tools in CONVERSATIONS:
            for add_generation_prompt in [False, True]:
                yield {
                    "template": path.name,
                    "messages": messages,
                    "tools": tools,
                    "add_generation_prompt": add_generation_prompt,
                    "text": render(source, messages, tools, add_generation_prompt),
                }


lines = [json.dumps(case, ensure_ascii=False) for case in cases()]
(HERE / "chats.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
