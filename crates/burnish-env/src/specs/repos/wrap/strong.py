def preconditions(words, width):
    assert all(word and " " not in word and len(word) <= width for word in words)


def postconditions(words, width, output):
    assert " ".join(output).split() == words
    assert all(len(line) <= width for line in output)
    for line, following in zip(output, output[1:]):
        assert len(line) + 1 + len(following.split()[0]) > width


def install(hooks):
    hooks.wrap("lines", "wrap", preconditions, postconditions)
