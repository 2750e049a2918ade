"""Renders answers with tool calls by every template of shared/data/chat_templates under transformers, into calls.json.

    python make_calls.py            (transformers 5.19 or later)

The calls are those of shared/data/tau_bench (gpt-4o, airline) and of the ground truth of shared/data/bfcl_v4, a few of each, and
some by hand that are hard to read. `cases` holds what was rendered: content, thoughts, calls, the tools with what is needed
of their schemas. `templates` holds for each template the format that it writes calls in and, for each case, the text that it
writes after its prompt, up to the result of the first call (`in_thoughts`: the prompt ends with `<think>`). A template that
refuses a case has null there; one that writes the same as another names it in `same`. gpt-oss writes the first call of an
answer alone.
"""

import gzip
import json
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[4] / "shared/data"
TEMPLATES = DATA / "chat_templates"
FORMATS = {
    "GLM-4.6.jinja": "glm",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja": "hermes",
    "Qwen-QwQ-32B.jinja": "hermes",
    "Qwen-Qwen2.5-7B-Instruct.jinja": "hermes",
    "Qwen-Qwen3-0.6B.jinja": "hermes",
    "Qwen3-Coder.jinja": "qwen3_coder",
    "Qwen3.5-4B.jinja": "qwen3_coder",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": "deepseek",
    "deepseek-ai-DeepSeek-V3.1.jinja": "deepseek",
    "mistralai-Mistral-Nemo-Instruct-2407.jinja": "mistral",
    "openai-gpt-oss-120b.jinja": "harmony",
    "trl/qwen2_5.jinja": "hermes",
    "trl/qwen2_5_training.jinja": "hermes",
    "trl/qwen3.jinja": "hermes",
    "trl/qwen3_instruct_2507.jinja": "hermes",
    "trl/qwen3_instruct_2507_training.jinja": "hermes",
    "trl/qwen3_training.jinja": "hermes",
}
QUESTION = "the question"
RESULT = "the result of the call"
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object", type(None): "null"}


def tool(name, properties):
    return {"name": name, "description": name, "parameters": {"type": "object", "properties": properties}}


def tau():
    """All tools of the airline, by the types that their arguments have, and the calls of each."""
    with gzip.open(DATA / "tau_bench/gpt-4o-airline.json.gz") as file:
        runs = json.load(file)
    answers = [message for run in runs for message in run["traj"] if message.get("tool_calls")]
    types, calls = {}, {}
    for answer in answers:
        for call in answer["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            for key, value in arguments.items():
                types.setdefault(name, {}).setdefault(key, set()).add(TYPES[type(value)])
            calls.setdefault(name, []).append((answer.get("content"), name, arguments))
    tools = {name: tool(name, {key: {"type": sorted(kinds)[0] if len(kinds) == 1 else sorted(kinds)} for key, kinds in keys.items()}) for name, keys in types.items()}
    tools = {name: tools.get(name, tool(name, {})) for name in calls}
    return tools, calls


def bfcl(kind, count):
    """The first rows of a kind: tools by name, and the calls with the first of the values that are right."""
    rows = [json.loads(line) for line in open(DATA / f"bfcl_v4/BFCL_v4_{kind}.jsonl")]
    truths = [json.loads(line) for line in open(DATA / f"bfcl_v4/possible_answer/BFCL_v4_{kind}.jsonl")]
    for row, truth in list(zip(rows, truths, strict=True))[:count]:
        assert row["id"] == truth["id"]
        tools = {
            function["name"]: tool(
                function["name"],
                {key: {"type": schema["type"]} for key, schema in function["parameters"]["properties"].items()},
            )
            for function in row["function"]
        }
        calls = []
        for call in truth["ground_truth"]:
            for name, arguments in call.items():
                calls.append((name, {key: values[0] for key, values in arguments.items() if values[0] != ""}))
        yield [tools[name] for name in dict.fromkeys(name for name, _ in calls)], calls


HARD = {
    "text": "a </tool_call> b } { \" \\ </parameter> </arg_value> ```\n\n[TOOL_CALLS][] <think> \u00e9 \U0001f600",
    "list": [1, 2.5, "x", None, True, {"a": [{}]}],
    "object": {"b": {"c": []}, "a": None},
    "yes": True,
    "no": False,
    "nothing": None,
    "number": -1.5e-7,
    "long": 123456789012345678901234567890,
    "digits": "5",
    "empty": "",
    "lines": "\n one\n two \n",
    "word": "True",
}
HARD_TOOL = tool(
    "hard.tool-1",
    {
        key: {"type": "integer" if key == "long" else TYPES[type(value)]}
        for key, value in HARD.items()
    },
)


def cases():
    tools, calls = tau()
    for name, of in calls.items():
        content, name, arguments = max(of, key=lambda call: (call[0] is not None, len(json.dumps(call[2]))))
        yield content or "", None, [tools[name]], [(name, arguments)]
    name, arguments = calls["book_reservation"][0][1:]
    yield "", "The person wants to fly.\nSo I book.", [tools[name]], [(name, arguments)]
    for kind, count in [("simple_python", 4), ("multiple", 3), ("parallel", 3), ("parallel_multiple", 3), ("live_simple", 4), ("live_parallel", 2)]:
        for tools, calls in bfcl(kind, count):
            yield "", None, tools, calls
    yield "", None, [HARD_TOOL], [("hard.tool-1", HARD)]
    yield "Two of them.", "Thoughts with <tool_call>{\"name\": \"x\"}</tool_call> in them", [HARD_TOOL], [("hard.tool-1", HARD), ("hard.tool-1", {})]


def openai(content, thoughts, calls):
    message = {"role": "assistant", "content": content}
    if thoughts is not None:
        message |= {"reasoning_content": thoughts, "thinking": thoughts}
    message["tool_calls"] = [
        {"id": f"call{at:05}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    return message


def render(source, messages, tools, add_generation_prompt):
    tools = [{"type": "function", "function": tool} for tool in tools]
    variables = {"bos_token": "<s>", "eos_token": "</s>"}
    texts, _ = render_jinja_template(
        [messages], tools=tools, chat_template=source, add_generation_prompt=add_generation_prompt, **variables
    )
    return texts[0]


def answer(source, content, thoughts, tools, calls):
    question = {"role": "user", "content": QUESTION}
    message = openai(content, thoughts, calls)
    result = {"role": "tool", "content": RESULT, "tool_call_id": "call00000", "name": calls[0][0]}
    try:
        whole = render(source, [question, message, result], tools, False)
    except Exception:
        return None
    prompt = render(source, [question], tools, True)
    begin = len(prompt) if whole.startswith(prompt) else whole.rindex(QUESTION) + len(QUESTION)
    in_thoughts = whole.startswith(prompt) and prompt.rstrip().endswith("<think>")
    return {"in_thoughts": in_thoughts, "text": whole[begin : whole.rindex(RESULT)]}


if __name__ == "__main__":
    given = list(cases())
    lines = [
        json.dumps({"content": c, "thoughts": t, "tools": tools, "calls": [{"name": n, "arguments": a} for n, a in calls]}, ensure_ascii=False)
        for c, t, tools, calls in given
    ]
    templates, written = {}, {}
    for name, format in FORMATS.items():
        source = (TEMPLATES / name).read_text()
        answers = [answer(source, *case) for case in given]
        same = next((other for other, found in written.items() if found == answers), None)
        written[name] = answers
        found = {"answers": answers} if same is None else {"same": same}
        templates[name] = json.dumps({"format": format, **found}, ensure_ascii=False)
        print(name, sum(found is None for found in answers), "of", len(answers), "refused")
    out = '{"cases": [\n' + ",\n".join(lines) + "\n],\n"
    out += '"templates": {\n' + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in templates.items()) + "\n}}\n"
    (HERE / "calls.json").write_text(out)
    print(len(out.encode()), "bytes")
