"""The problem in TensorFlow, with a loop of its own and one compiled step."""

import problem
import tensorflow as tf

args = problem.parse_arguments()
images, classes, layers = problem.read_problem(args.problem, args.steps)

weights = [tf.Variable(array) for layer in layers for array in layer]
velocities = [tf.Variable(tf.zeros_like(weight)) for weight in weights]


def compute_loss(x, y):
    for i in range(0, len(weights), 2):
        x = tf.matmul(x, weights[i]) + weights[i + 1]
        if i + 2 < len(weights):
            x = tf.tanh(x)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = compute_loss(x, y)
    gradients = tape.gradient(loss, weights)
    for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
        velocity.assign(problem.MOMENTUM * velocity + gradient)
        weight.assign_sub(problem.LEARNING_RATE * velocity)
    return loss


losses = []
dataset = tf.data.Dataset.from_tensor_slices((images, classes)).batch(problem.BATCH)
for x, y in dataset.prefetch(2):
    loss = train_step(x, y)
    if args.losses:
        losses.append(loss)
problem.write_losses(args.losses, losses)
