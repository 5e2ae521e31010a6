"""What TensorFlow, Keras, NumPy and other libraries do to values."""
