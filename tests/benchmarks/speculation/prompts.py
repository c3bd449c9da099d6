"""Three kinds of text: one repeats itself, one copies most of its prompt with changes, and one does neither."""

from __future__ import annotations

_CODE = '''def load_orders(path, limit):
    """Read at most `limit` orders from a file, one JSON object per line."""
    orders = []
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            if number >= limit:
                break
            order = json.loads(line)
            if order["quantity"] <= 0:
                raise ValueError(f"line {number}: quantity must be positive")
            orders.append(order)
    return orders


def total_price(orders, tax_rate):
    """The price of all orders, tax included."""
    total = 0.0
    for order in orders:
        total += order["quantity"] * order["unit_price"]
    return round(total * (1 + tax_rate), 2)
'''

PROMPTS = {
    "repetitive": "Monday: bread, milk, eggs, apples.\nTuesday: bread, milk, eggs, apples.\n"
    "Wednesday: bread, milk, eggs, apples.\nThursday: bread, milk, eggs, apples.\nFriday:",
    "code editing": f"# Before:\n\n{_CODE}\n# After renaming the argument `limit` to `max_orders`:\n\ndef load_orders(",
    "free text": "The old lighthouse keeper had not spoken to anyone for eleven days when, on the twelfth, a boat",
}
"""What a base model continues."""

OPTIONS = {"free text": ("--temperature", "1", "--seed", "1847")}
"""Greedy decoding of a small model soon repeats itself, and would be predictable: free text is drawn."""
