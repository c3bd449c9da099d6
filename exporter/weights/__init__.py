"""How weights are stored: formats, the layout that a product reads as one stream, and quantization."""
