"""TensorFlow and Keras on TensorFlow."""
