"""Floor 3: one file per architecture kind. Each turns a transformers model into methods over fixed-capacity caches."""
