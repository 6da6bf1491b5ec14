"""The network that is trained or exported again and again."""


def network(seed=1):
    import keras

    import keras_lab

    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((32,)),
            keras_lab.BinaryDense(64, activation="relu"),
            keras.layers.BatchNormalization(),
            keras_lab.BinaryDense(4),
        ]
    )
