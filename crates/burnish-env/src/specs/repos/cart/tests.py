from cart import receipt, total


def test_nothing_costs_nothing():
    assert total([], 0) == 0


def test_one_of_each():
    assert total([["apple", 1], ["bread", 1]], 0) == 280


def test_counts_matter():
    assert total([["apple", 3]], 0) == 90


def test_receipt_with_discount():
    assert receipt([["cheese", 2], ["apple", 1]], 10) == "2 cheese\n1 apple\ntotal 747"
