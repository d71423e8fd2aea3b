"""A training package: TensorFlow's ParameterServerStrategy on handwritten digits."""
