"""Bundles as models of transformers: `from_pretrained`, `generate`, pipelines."""
