"""Writes bfcl.json: what PyPI's bfcl-eval says of 200 changed gold answers, and what its APIs return for gold calls.

    python3 -m venv venv && venv/bin/pip install mpmath && venv/bin/pip install --no-deps bfcl-eval==2026.3.23
    venv/bin/python make_bfcl.py FOLDER_OF_BFCL_DATA > bfcl.json

Only its checkers and APIs are imported; what they import of models and of Java is replaced by empty modules.
"""

import collections
import copy
import json
import random
import sys
import types
from importlib.metadata import version

models = types.ModuleType("models")
models.MODEL_CONFIG_MAPPING = collections.defaultdict(lambda: types.SimpleNamespace(underscore_to_dot=False))
sys.modules["bfcl_eval.constants.model_config"] = models
for language in ["java", "js"]:
    converter = types.ModuleType(language)
    setattr(converter, f"{language}_type_converter", None)
    sys.modules[f"bfcl_eval.eval_checker.ast_eval.type_convertor.{language}_type_converter"] = converter

from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval.func_source_code.posting_api import TwitterAPI  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call  # noqa: E402

SINGLE = ["simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_parallel",
          "live_parallel_multiple"]
TURNS = ["multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"]
COUNTS = {"single": 140, "turns": 60}
DATA = sys.argv[1]
DRAW = random.Random(20260323)


def rows(name):
    with open(f"{DATA}/{name}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def both(category):
    return list(zip(rows(f"BFCL_v4_{category}"), rows(f"possible_answer/BFCL_v4_{category}")))


def plain(value):
    """A value of the gold as it is written in a call."""
    if isinstance(value, dict):
        return {key: first(values) for key, values in value.items() if first(values) != ""}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def first(values):
    return next((value for value in values if value != ""), "")


def gold_calls(row, answer):
    properties = {function["name"]: function["parameters"]["properties"] for function in row["function"]}
    return [[name, {key: plain(first(values)) for key, values in arguments.items()
                    if key in properties[name] and first(values) != ""}]
            for call in answer["ground_truth"] for name, arguments in call.items()]


def changed_value(value):
    """Another value that may or may not be as right as the first."""
    if isinstance(value, bool):
        return DRAW.choice([not value, str(value), int(value)])
    if isinstance(value, int):
        return DRAW.choice([value + 1, float(value), str(value), -value])
    if isinstance(value, float):
        return DRAW.choice([value + 0.5, int(value), str(value), round(value, 1)])
    if isinstance(value, str):
        return DRAW.choice([value.upper(), value + ".", value.replace(" ", "_"), " " + value, value + "x", "", None,
                            value.replace("'", '"'), [value]])
    if isinstance(value, list) and value:
        if DRAW.random() < 0.5:
            at = DRAW.randrange(len(value))
            return value[:at] + [changed_value(value[at])] + value[at + 1:]
        return DRAW.choice([value[::-1], value[:-1], value + value[:1], str(value), [str(item) for item in value],
                            [float(item) if type(item) is int else item for item in value]])
    if isinstance(value, dict) and value:
        key = DRAW.choice(list(value))
        if DRAW.random() < 0.5:
            return {**value, key: changed_value(value[key])}
        return DRAW.choice([{k: v for k, v in value.items() if k != key}, {**value, "more": 1}, [value], str(value)])
    return DRAW.choice([[], {}, 0, "x"])


def changed_calls(calls):
    calls = copy.deepcopy(calls)
    for _ in range(DRAW.choice([1, 1, 1, 2])):
        kind = DRAW.choice(["value"] * 6 + ["drop argument", "drop argument", "more", "name", "drop", "again", "order",
                                            "order"])
        at = DRAW.randrange(len(calls)) if calls else None
        if at is None:
            return calls
        name, arguments = calls[at]
        if kind == "value" and arguments:
            key = DRAW.choice(list(arguments))
            arguments[key] = changed_value(arguments[key])
        elif kind == "drop argument" and arguments:
            del arguments[DRAW.choice(list(arguments))]
        elif kind == "more":
            arguments["unasked"] = 1
        elif kind == "name":
            calls[at][0] = name + "s"
        elif kind == "drop":
            del calls[at]
        elif kind == "again":
            calls.append(copy.deepcopy(calls[at]))
        elif kind == "order":
            DRAW.shuffle(calls)
    return calls


def single():
    found = []
    everything = [(category, *pair) for category in SINGLE for pair in both(category)]
    for category, row, answer in DRAW.sample(everything, COUNTS["single"]):
        calls = changed_calls(gold_calls(row, answer))
        said = [{name: arguments} for name, arguments in calls]
        try:
            verdict = ast_checker(row["function"], said, answer["ground_truth"], Language.PYTHON, category, "none")
            found.append({"row": row["id"], "calls": calls, "valid": verdict["valid"],
                          "why": verdict.get("error_type", "")})
        except Exception as error:  # the checker itself fails
            found.append({"row": row["id"], "calls": calls, "valid": False, "why": f"raised {error!r}"})
    return found


def read(call, documents):
    import ast

    tree = ast.parse(call, mode="eval").body
    names = list(documents[tree.func.id]["parameters"]["properties"])
    arguments = dict(zip(names, map(ast.literal_eval, tree.args)))
    arguments.update({keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords})
    return [tree.func.id, arguments]


def written(call):
    name, arguments = call
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


LOOKS = [["pwd", {}], ["ls", {"a": True}], ["get_watchlist", {}], ["get_account_info", {}], ["list_users", {}],
         ["get_all_credit_cards", {}], ["check_tire_pressure", {}], ["get_current_speed", {}], ["list_all_airports", {}],
         ["displayCarStatus", {"option": "doors"}], ["ticket_get_login_status", {}], ["posting_get_login_status", {}]]


def changed_turns(turns, names):
    turns = copy.deepcopy(turns)
    full = [at for at, calls in enumerate(turns) if calls]
    at = DRAW.choice(full)
    calls = turns[at]
    place = DRAW.randrange(len(calls))
    kind = DRAW.choice(["value", "value", "value", "drop", "again", "order", "look", "look", "early", "none", "argument"])
    if kind == "value" and calls[place][1]:
        key = DRAW.choice(list(calls[place][1]))
        value = calls[place][1][key]
        # A value of another type is refused here, while Python goes on with it as far as it can.
        changed = [changed_value(value) for _ in range(20)]
        kept = [it for it in changed if type(it) is type(value) and (not isinstance(it, list) or
                [type(item) for item in it] == [type(item) for item in value][:len(it)])]
        calls[place][1][key] = DRAW.choice(kept or [value])
    elif kind == "argument" and calls[place][1]:
        del calls[place][1][DRAW.choice(list(calls[place][1]))]
    elif kind == "drop":
        del calls[place]
    elif kind == "again":
        calls.append(copy.deepcopy(calls[place]))
    elif kind == "order":
        DRAW.shuffle(calls)
    elif kind == "look":
        calls.insert(place, DRAW.choice([look for look in LOOKS if look[0] in names] or [["pwd", {}]]))
    elif kind == "early" and at > 0:
        turns[at - 1] = turns[at - 1] + calls
        turns[at] = []
    elif kind == "none":
        turns[at] = []
    return turns


DOCUMENTS = {"GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
             "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot",
             "TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control"}
DOCUMENTS = {name: {function["name"]: function for function in rows(f"multi_turn_func_doc/{file}")}
             for name, file in DOCUMENTS.items()}


def functions(row):
    return {name: function for owner in row["involved_classes"] for name, function in DOCUMENTS[owner].items()}


def fresh():
    """Forgets what `mention` has added to the default of `post_tweet`, which all posts share."""
    TwitterAPI.post_tweet.__defaults__ = ([], [])


def turns():
    found = []
    everything = [(category, *pair) for category in TURNS for pair in both(category)]
    for at, (category, row, answer) in enumerate(DRAW.sample(everything, COUNTS["turns"])):
        documents = functions(row)
        gold = [[read(call, documents) for call in calls] for calls in answer["ground_truth"]]
        said = changed_turns(gold, documents)
        fresh()
        steps = [[[written(call)] for call in calls] for calls in said]
        verdict = multi_turn_checker(steps, answer["ground_truth"], row, category, f"case{at}")
        found.append({"row": row["id"], "turns": said, "valid": verdict["valid"],
                      "why": verdict.get("error_type", "")})
    return found


def fnv(text):
    """FNV-1a of 64 bits."""
    found = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        found = ((found ^ byte) * 0x100000001B3) % (1 << 64)
    return f"{found:016x}"


def results():
    """A hash of all that the gold calls of a row return, a line each."""
    found = {}
    for row, answer in both("multi_turn_base"):
        fresh()
        told = []
        for calls in answer["ground_truth"]:
            told += execute_multi_turn_func_call(calls, row["initial_config"], row["involved_classes"], "results",
                                                 row["id"])[0]
        found[row["id"]] = fnv("\n".join(told))
    return found


def lines(items):
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n]"


# `results` first: the APIs of a row are kept by name.
hashes = results()
print(f'{{"bfcl_eval": {json.dumps(version("bfcl-eval"))},\n"single": {lines(single())},\n"turns": {lines(turns())},\n'
      f'"results": {json.dumps(hashes)}}}')
