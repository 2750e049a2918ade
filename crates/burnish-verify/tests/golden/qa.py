"""Writes qa.json: exact match, token F1 and ROUGE-L F1 of made-up pairs of answers.

Run:  PYTHONPATH=FOLDER_WITH_ROUGE_SCORE python crates/burnish-verify/tests/golden/qa.py
Needs rouge-score 0.1.2 (Google's; pip install rouge-score). ROUGE-L is that package's, its tokenizer replaced by the
normaliser; normaliser, exact match and F1 follow the evaluation script of SQuAD 1.1 (Rajpurkar et al. 2016). Pairs where
a side has no tokens are left out: rouge-score gives 0 there, even for two equal texts.
"""

import collections
import json
import random
import re
import string
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import Tokenizer


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


class Words(Tokenizer):
    def tokenize(self, text):
        return normalise(text).split()


SCORER = RougeScorer(["rougeL"], use_stemmer=False, tokenizer=Words())


def f1(prediction, gold):
    one, other = normalise(prediction).split(), normalise(gold).split()
    same = sum((collections.Counter(one) & collections.Counter(other)).values())
    if not same:
        return 0.0
    precision, recall = same / len(one), same / len(other)
    return 2 * precision * recall / (precision + recall)


WORDS = ["the", "The", "A", "an", "of", "University", "university", "Arizona,", "(north)", "U.S.", "1968-69", "Ümit",
         "ÉCOLE", "école", "O'Neil", "O\u2019Neil", "the\u2013end", "\u201cthe\u201d", "a-b", "a\u00b7b", "No", "Answer", ",", "  ",
         "\u6771\u4eac", "AC", "Milan", "Milan.", "\n"]


def main():
    draw = random.Random(13)
    pairs = []
    while len(pairs) < 400:
        one = [draw.choice(WORDS) for _ in range(draw.randint(1, 9))]
        other = list(one)
        for _ in range(draw.randint(0, 4)):
            at = draw.randrange(len(other) + 1)
            kind = draw.randrange(3)
            if kind == 0:
                other.insert(at, draw.choice(WORDS))
            elif other and at < len(other):
                if kind == 1:
                    other.pop(at)
                else:
                    other[at] = other[at].swapcase()
        prediction, gold = " ".join(one), " ".join(other)
        if not normalise(prediction) or not normalise(gold):
            continue
        pairs.append({
            "prediction": prediction,
            "gold": gold,
            "normalised": normalise(prediction),
            "exact": float(normalise(prediction) == normalise(gold)),
            "f1": f1(prediction, gold),
            "rouge_l": SCORER.score(gold, prediction)["rougeL"].fmeasure,
        })
    path = Path(__file__).with_name("qa.json")
    path.write_text(json.dumps(pairs, indent=0, ensure_ascii=True) + "\n")
    print(path, len(pairs), "pairs,", sum(p["exact"] for p in pairs), "exact")


main()
