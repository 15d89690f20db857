"""Names plants by their descriptions: embeddings and a gated network, with a loop in TensorFlow."""

import argparse
import http.server
import json
import os
import threading
import time
import urllib.request

began = time.perf_counter()
parser = argparse.ArgumentParser()
parser.add_argument("--plants", type=int, default=512)
parser.add_argument("--length", type=int, default=32, help="words of a description")
parser.add_argument("--lengths", type=int, default=1, help="different ones")
parser.add_argument("--first-length", type=int, default=0, help="of the first batch alone")
parser.add_argument("--dim", type=int, default=48)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--plain", action="store_true", help="the step as Python")
parser.add_argument("--relax", action="store_true", help="shapes that differ")
parser.add_argument("--number", action="store_true", help="the rate as a number")
parser.add_argument("--look-first", type=int, default=0, help="batches looked at before training")
parser.add_argument("--open-ms", type=float, default=0.0, help="how long a description takes")
parser.add_argument("--calls", type=int, default=1)
parser.add_argument("--threads", type=int, default=0, help="that open descriptions")
parser.add_argument("--shake", type=int, default=0, help="random changes of a description")
parser.add_argument("--show", action="store_true", help="the loss of each step")
parser.add_argument("--post-every", type=int, default=0, help="send the loss to the dashboard")
parser.add_argument("--reply-ms", type=float, default=0.0)
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--quiz-every", type=int, default=0, help="steps between two quizzes")
parser.add_argument("--quiz-batches", type=int, default=8)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()


def dashboard(delay):
    """A server for the losses, in a process of its own; returns its address."""
    ready, answer = os.pipe()
    if os.fork() == 0:

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(delay)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        parent = os.getppid()
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        os.write(answer, str(server.server_port).encode())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(0)
    return f"http://127.0.0.1:{os.read(ready, 16).decode()}/"


url = dashboard(args.reply_ms / 1e3) if args.post_every else None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.random.set_seed(args.seed)
random = np.random.default_rng(args.seed)
WORDS, KINDS = 2000, 20
texts = random.integers(1, WORDS, (args.plants, args.length))
kinds = random.integers(0, KINDS, args.plants)


def open_text(number):
    time.sleep(args.open_ms / 1e3)
    return texts[number]


def prepare(number, kind):
    if args.open_ms:
        text = tf.ensure_shape(tf.numpy_function(open_text, [number], tf.int64), [args.length])
    else:
        text = tf.gather(texts, number)
    for _ in range(args.shake):
        places = tf.random.uniform([args.length], 0, args.length, tf.int64)
        text = tf.where(tf.random.uniform([args.length]) < 0.05, tf.gather(text, places), text)
    return text, kind


def make_pipeline():
    numbers = tf.data.Dataset.from_tensor_slices((np.arange(args.plants), kinds))
    numbers = numbers.shuffle(args.plants, seed=args.seed).repeat()
    calls = args.calls if args.calls > 1 else None
    found = numbers.map(prepare, num_parallel_calls=calls).batch(args.batch).prefetch(2)
    if args.threads:
        options = tf.data.Options()
        options.threading.private_threadpool_size = args.threads
        found = found.with_options(options)
    return found


def weight(*shape):
    return tf.Variable(tf.random.normal(shape) / shape[0] ** 0.5)


table = tf.Variable(tf.random.normal([WORDS, args.dim]))
gates = [(weight(args.dim, args.dim), weight(args.dim, args.dim)) for _ in range(args.layers)]
head = weight(args.dim, KINDS)
others = [part for pair in gates for part in pair] + [head]
steady, quick = tf.keras.optimizers.SGD(0.02), tf.keras.optimizers.Adam(1e-3)
steady.build([table])
quick.build(others)


def score(text):
    x = tf.gather(table, text)
    for one, two in gates:
        x = x + tf.nn.sigmoid(x @ one) * tf.nn.tanh(x @ two)
    return tf.reduce_mean(x, 1) @ head


def train(text, kind, rate):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(kind, score(text))
        loss = tf.reduce_mean(losses)
    first, *rest = tape.gradient(loss, [table, *others])
    steady.apply_gradients([(first, table)])
    quick.apply_gradients([(rate * slope, part) for slope, part in zip(rest, others, strict=True)])
    return loss


@tf.function
def ask(text, kind):
    return tf.reduce_mean(tf.cast(tf.argmax(score(text), 1) == kind, tf.float32))


def validate():
    return [float(ask(text, kind)) for text, kind in make_pipeline().take(args.quiz_batches)]


if not args.plain:
    train = tf.function(train, reduce_retracing=args.relax)
for text, _ in make_pipeline().take(args.look_first):
    with tf.GradientTape() as tape:  # which words matter before anything was learnt
        seen = tf.reduce_sum(score(text) ** 2)
    tape.gradient(seen, table)

marks, shown = [], []
for text, kind in make_pipeline():
    step = len(marks) + 1
    length = args.length - int(random.integers(args.lengths))
    length = args.first_length if args.first_length and step == 1 else length
    rate = 1.0 / (1.0 + 1e-3 * step)
    loss = train(text[:, :length], kind, rate if args.number else tf.constant(rate))
    if args.show:
        shown.append(float(loss))
    if url and step % args.post_every == 0:
        told = json.dumps({"step": step, "loss": float(loss)}).encode()
        urllib.request.urlopen(url, told).read()
    if args.quiz_every and step % args.quiz_every == 0:
        shown.append(np.mean(validate()))
    if args.save_every and step % args.save_every == 0:
        tf.train.Checkpoint(table=table, others=others, quick=quick).write("plants")
    marks.append(time.perf_counter())
    since = marks[-1] - marks[0]
    if (args.steps and step >= args.steps) or (args.seconds and since > args.seconds):
        break
with open(args.times, "w") as file:
    json.dump({"begin": began, "marks": marks, "samples": args.batch}, file)
os._exit(0)  # threads that open descriptions would outlive the script
