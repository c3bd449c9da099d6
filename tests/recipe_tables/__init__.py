"""The tables of recipes in docs/recipes.md, made from the plans."""
