"""The reward of docs/examples/verl_grpo.sh, in the form that verl calls."""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """1 where the last number of the answer is the ground truth."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", solution_str)
    return float(bool(numbers) and float(numbers[-1]) == float(ground_truth))
