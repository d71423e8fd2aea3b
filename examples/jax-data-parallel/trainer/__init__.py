"""A training package: data-parallel JAX on handwritten digits."""
