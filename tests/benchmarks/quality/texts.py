"""Fixed texts on which the quality of quantized programs is measured: prose, facts, code, dialogue, lists, French.

Written for this purpose; no model was trained on them.
"""

TEXTS = (
    "The lighthouse keeper had not seen another ship for forty days when, on a morning of thick fog, a bell sounded "
    "from the rocks below and he ran down the stairs to look. A small boat lay on its side between two stones.",
    "Photosynthesis is the process by which plants convert light energy into chemical energy. It takes place in the "
    "chloroplasts, where chlorophyll absorbs sunlight and drives the production of sugar from water and carbon "
    "dioxide.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n"
    "for i in range(10):\n    print(i, fibonacci(i))\n",
    "In 1969, two astronauts landed on the Moon. Their names were Neil Armstrong and Buzz Aldrin, and the third member "
    "of the crew, Michael Collins, stayed in orbit around the Moon until they returned.",
    "Q: What is the capital of France?\nA: The capital of France is Paris.\nQ: What is the capital of Japan?\n"
    "A: The capital of Japan is Tokyo.\nQ: What is the capital of Italy?\nA: The capital of Italy is Rome.\n",
    "To make bread you need flour, water, salt and yeast. Mix the flour with the water, add the salt and the yeast, "
    "and knead the dough for ten minutes. Let it rest for an hour, shape it, and bake it in a hot oven for forty "
    "minutes.",
    "The company reported revenue of 4.2 million dollars in the third quarter, an increase of 12 percent over the same "
    "period last year, while operating costs fell by 3 percent.",
    "Le petit village se trouve au bord de la mer. Chaque matin, les pêcheurs partent avant le lever du soleil et "
    "reviennent vers midi avec leurs filets pleins de poissons.",
    "1. Open the settings.\n2. Choose the network.\n3. Enter the password.\n4. Press the connect button.\n"
    "5. Wait until the light turns green.\n",
    '"I do not think that this is a good idea," said Anna. "We should wait until the rain stops." But her brother had '
    "already put on his coat and opened the door.",
)
