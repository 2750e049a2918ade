"""How lingua and langdetect identify the questions of MGSM, to set beside `cargo test -p burnish-verify --test language`.

    pip install lingua-language-detector==2.1.1 langdetect==1.0.9
    python languages.py ../../../../../shared/data/mgsm

lingua chooses between the eleven languages; langdetect between the 55 that it knows.
"""
import sys
from collections import Counter

import langdetect
from lingua import IsoCode639_1, LanguageDetectorBuilder

CODES = "bn de en es fr ja ru sw te th zh".split()
langdetect.DetectorFactory.seed = 0
lingua = LanguageDetectorBuilder.from_iso_codes_639_1(
    *(getattr(IsoCode639_1, code.upper()) for code in CODES)
).build()


def by_lingua(text):
    found = lingua.detect_language_of(text)
    return found.iso_code_639_1.name.lower() if found else "undecided"


def by_langdetect(text):
    return langdetect.detect(text)[:2]


for name, detect in [("lingua", by_lingua), ("langdetect", by_langdetect)]:
    right = 0
    for code in CODES:
        with open(f"{sys.argv[1]}/mgsm_{code}.tsv", encoding="utf-8") as file:
            found = Counter(detect(line.split("\t")[0]) for line in file)
        right += found[code]
        wrong = {other: count for other, count in found.items() if other != code}
        print(f"{name} {code}: {found[code]} of {sum(found.values())} {wrong or ''}")
    print(f"{name}: {right} of 2750")
