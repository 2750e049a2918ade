"""Implicit prompts, as TRL splits them off.

Needs trl: python make_trl.py > trl_prompts.json
"""

import json

from trl import extract_prompt

user = {"role": "user", "content": "What color is the sky?"}


def said(text):
    return {"role": "assistant", "content": text}


cases = [
    {"chosen": "The sky is blue.", "rejected": "The sky is green."},
    {"chosen": "Q: 1+1? A: 2", "rejected": "Q: 1+1? A: 3"},
    {"chosen": "Größe: 12 m", "rejected": "Größe: 13 m"},
    {"chosen": "日本の首都は東京", "rejected": "日本の首都は京都"},
    {"chosen": [user, said("It is blue.")], "rejected": [user, said("It is green.")]},
    {
        "chosen": [user, said("Blue."), {"role": "user", "content": "Sure?"}, said("Yes.")],
        "rejected": [user, said("Blue."), {"role": "user", "content": "Sure?"}, said("No.")],
    },
    {"chosen": [user, said("Blue."), user, said("a")], "rejected": [user, said("Green.")]},
]
print(json.dumps([{"row": case, "split": extract_prompt(case)} for case in cases], ensure_ascii=False))
