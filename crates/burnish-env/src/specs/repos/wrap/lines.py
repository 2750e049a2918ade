"""Text in lines."""


def wrap(words, width):
    """Lines of words with a space between them, none longer than width; each line takes as many words as fit."""
    lines = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
