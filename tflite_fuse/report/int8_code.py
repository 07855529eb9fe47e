"""Python lines that quantize a Keras model to int8, offered for models that are not."""

CODE = """\
import numpy as np
import tensorflow as tf

model = tf.keras.models.load_model("model.keras")
samples = np.load("samples.npy")  # some hundred typical inputs as float32, prepared as for the training
one = tf.keras.Input(batch_shape=(1, *model.input_shape[1:]), dtype=model.inputs[0].dtype)
converter = tf.lite.TFLiteConverter.from_keras_model(tf.keras.Model(one, model(one)))  # LSTMs of any batch are loops
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([sample[None]] for sample in samples)
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
converter.inference_input_type = converter.inference_output_type = tf.int8
with open("model_int8.tflite", "wb") as file:
    file.write(converter.convert())
"""
"""Full-integer post-training quantization with a representative data set."""
