def preconditions(spans):
    assert all(len(span) == 2 and span[0] <= span[1] for span in spans)


def postconditions(spans, output):
    def covered(spans):
        return {number for first, last in spans for number in range(first, last + 1)}

    assert covered(output) == covered(spans)
    for before, after in zip(output, output[1:]):
        assert before[1] + 1 < after[0]


def install(hooks):
    hooks.wrap("spans", "merge", preconditions, postconditions)
