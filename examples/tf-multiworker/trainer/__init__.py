"""A training package: TensorFlow's MultiWorkerMirroredStrategy on handwritten digits."""
