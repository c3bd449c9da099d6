"""The readable Python runtime: sessions over a loaded program, greedy generation, text and audio."""
