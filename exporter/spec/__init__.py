"""Floor 1: what is exported (the model's facts), how large (the plan), and with which wishes (the recipe)."""
