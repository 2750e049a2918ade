"""Makes masks.json and masks-tokenizer.json: ids and assistant masks of apply_chat_template.

    HF_HUB_OFFLINE=1 python make_masks.py [DIRECTORY OUT.json]        (transformers 5.23, tokenizers 0.23)

The tokenizer is a byte-level BPE with at most 600 ids, trained on the conversations of make_chat_matrix.py.
masks.json holds for each case: template (a file of shared/data/chat_templates, or the text itself), conversation
(its number in chat_matrix.json), tools, add_generation_prompt, tokens (how many), last_ids (at most 30), and mask
as the lengths of its runs, the first of zeros. With a directory, its templates that have generation blocks are
used instead, for the test that BURNISH_MASKS asks for; what a template refuses is left out.
"""

import itertools
import json
import sys
from pathlib import Path

from make_chat_matrix import CONVERSATIONS, TEMPLATES, TOOLS, Epoch, openai
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

HERE = Path(__file__).resolve().parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
OWN = [
    # Whitespace control, blocks in lines of their own, loop variables and namespaces within a block.
    """{% set ns = namespace(turn=0) %}
{% for message in messages %}
  {% if message.role == 'assistant' %}
    {% generation -%}
      {% set ns.turn = ns.turn + 1 %}
      {{ message.content | trim }} {{ loop.index }}
    {%- endgeneration %}
<|im_end|>
  {%- else %}
<|im_start|>{{ message.role }}: {{ message.content }}<|im_end|>
  {%- endif %}
{% endfor %}{{ ns.turn }}{{ '{% generation %}' }}{# {% generation %} #}""",
    # Blocks that end within a character of several tokens, that touch each other, and that are empty.
    """{% for message in messages %}{% if message.role == 'assistant' %}{% generation %}{{ message.content }}\u2600{% endgeneration %}\
{% generation %}{% endgeneration %}{% generation %}\u00e9<|im_end|>{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}""",
    "{% for message in messages %}{{ message.role }}{{ message.content }}<|im_end|>{% endfor %}",
]
TRAINING = ["trl/qwen2_5_training.jinja", "trl/qwen3_training.jinja", "trl/qwen3_instruct_2507_training.jinja"]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [message["content"] for conversation in CONVERSATIONS for message in conversation]
    texts += [json.dumps(TOOLS), "user assistant system tool_call tool_response function name arguments"] * 2
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def runs(mask):
    lengths = [len(list(group)) for _, group in itertools.groupby(mask)]
    return lengths if not mask or mask[0] == 0 else [0, *lengths]


def cases(name, source):
    for number, conversation in enumerate(CONVERSATIONS):
        has_tools = number % 3 == 1
        for add_generation_prompt in [False, True]:
            try:
                out = tokenizer.apply_chat_template(
                    [openai(message) for message in conversation],
                    tools=[{"type": "function", "function": tool} for tool in TOOLS] if has_tools else None,
                    chat_template=source,
                    add_generation_prompt=add_generation_prompt,
                    tokenize=True,
                    return_dict=True,
                    return_assistant_tokens_mask=True,
                )
            except Exception:
                if len(sys.argv) == 3:
                    continue
                raise
            # Tools make long prompts: the ids before the last 30 are left out.
            yield {
                "template": name,
                "conversation": number,
                "tools": has_tools,
                "add_generation_prompt": add_generation_prompt,
                "tokens": len(out["input_ids"]),
                "last_ids": out["input_ids"][-30:],
                "mask": runs(out["assistant_masks"]),
            }


backend = train()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
if len(sys.argv) == 3:
    chat_template_utils.datetime = Epoch
    sources = {path.name: path.read_text() for path in sorted(Path(sys.argv[1]).glob("*.jinja"))}
    sources = {name: source for name, source in sources.items() if "endgeneration %}" in source}
    out = Path(sys.argv[2])
else:
    backend.save(str(HERE / "masks-tokenizer.json"), pretty=False)
    sources = {name: (TEMPLATES / name).read_text() for name in TRAINING} | {source: source for source in OWN}
    out = HERE / "masks.json"
lines = [
    json.dumps(case, ensure_ascii=False, separators=(",", ":"))
    for name, source in sources.items()
    for case in cases(name, source)
]
out.write_text("[\n" + ",\n".join(lines) + "\n]\n")
print(len(lines), "cases of", len(sources), "templates")
