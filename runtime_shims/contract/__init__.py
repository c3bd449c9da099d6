"""The contract between exporter and runtimes: cache arithmetic, manifest, bundle reader, errors.

Floor 0 of the project: this package imports the standard library and nothing else.
"""
