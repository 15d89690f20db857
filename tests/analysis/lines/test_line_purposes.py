"""What a stack is for."""

import pytest

from whyidle.analysis.lines.line_purposes import FrameReader, quote_line
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.diagnosis import Place
from whyidle.model.purposes import Purpose

S = "/env/lib/python3.11/site-packages/"
CALL = f"{S}torch/nn/modules/module.py(1789): _call_impl"
LOOP = "/job/train.py(12): <module>"
CASES = [
    (f"{S}torch/nn/modules/linear.py(134): forward;{CALL};{LOOP}", "", Purpose.FORWARD),
    (f"/job/model.py(9): forward;{CALL};{LOOP}", "x = x + 1", Purpose.FORWARD),
    (f"{S}torch/nn/functional.py(3): cross_entropy;{LOOP}", "", Purpose.LOSS),
    (f"{S}torch/functional.py(3): norm;/job/train.py(3): my_loss;{LOOP}", "", Purpose.LOSS),
    (f"{S}torch/autograd/graph.py(9): _engine_run_backward;{LOOP}", "", Purpose.BACKWARD),
    (f"{S}torch/nn/utils/clip_grad.py(9): clip_grad_norm_;{LOOP}", "", Purpose.CLIPPING),
    (f"{S}torch/optim/adam.py(9): step;{LOOP}", "", Purpose.OPTIMIZER),
    (f"{S}torchmetrics/metric.py(9): update;{CALL};{LOOP}", "", Purpose.METRICS),
    (f"{S}torch/utils/tensorboard/writer.py(9): add_scalar;{LOOP}", "", Purpose.LOGGING),
    (f"{S}lightning/fabric/loggers/logger.py(9): log_metrics;{LOOP}", "", Purpose.LOGGING),
    (f"{S}lightning/pytorch/callbacks/lr_monitor.py(9): f;{LOOP}", "", Purpose.LOGGING),
    (f"{S}transformers/trainer.py(9): _maybe_log_save_evaluate;{LOOP}", "", Purpose.LOGGING),
    (f"{S}transformers/trainer_callback.py(9): on_log;{LOOP}", "", Purpose.LOGGING),
    (f"{S}transformers/trainer.py(9): training_step;{LOOP}", "", Purpose.OTHER),
    (f"{S}PIL/ImageDraw.py(9): polygon;/job/train.py(5): show;{LOOP}", "", Purpose.RENDERING),
    (f"{S}transformers/integrations/sdpa_attention.py(9): f;{CALL};{LOOP}", "", Purpose.FORWARD),
    (f"{S}gymnasium/envs/mujoco/ant.py(9): step;{LOOP}", "", Purpose.SIMULATION),
    (f"/env/lib/python3.11/subprocess.py(9): run;{LOOP}", "", Purpose.SUBPROCESS),
    (LOOP, "numbers[name] = p.grad.norm().item()", Purpose.NORMS),
    (LOOP, "bar.set_postfix(loss=x)", Purpose.LOGGING),
    (f"/job/train.py(3): accuracy;{LOOP}", "", Purpose.METRICS),
    (LOOP, "x = x.cuda()", Purpose.OTHER),
    (LOOP, "kept = deepcopy(opt.state_dict())", Purpose.OTHER),
    # a closure in an optimizer's step, and an optimizer of one's own
    (f"/job/train.py(3): closure;{S}torch/optim/lbfgs.py(9): step;{LOOP}", "", Purpose.OTHER),
    (f"/job/sgd.py(3): step;{S}torch/optim/optimizer.py(9): wrapper;{LOOP}", "", Purpose.OPTIMIZER),
]


@pytest.mark.parametrize(("stack", "text", "purpose"), CASES)
def test_the_innermost_frame_that_tells_decides(stack, text, purpose):
    assert FrameReader(VOCABULARY, None).purpose_of(stack, text).purpose is purpose


@pytest.mark.parametrize(
    ("line", "purpose", "quoted"),
    [
        ("opt.zero_grad(); loss.backward(); opt.step()", Purpose.BACKWARD, "loss.backward()"),
        ("out = m(x); loss = mse(out, y)", Purpose.FORWARD, "out = m(x)"),
        ("n += 1; z = encoder(x)", Purpose.OTHER, "z = encoder(x)"),
        ("if k % 9: p = m(x); print('p; q', p)", Purpose.LOGGING, "print('p; q', p)"),
        # which of two is meant is not certain: all of them, and none is cut off as a clause
        ("p = m(x); q = g('ä; b', p)", Purpose.OTHER, "p = m(x);q = g('ä; b', p)"),
        ("for r in p: a(r); b(r)", Purpose.OTHER, "for r in p: a(r);b(r)"),
        ("print('a; b')", Purpose.OTHER, "print('a; b')"),
        ("run(a, b); c(", Purpose.OTHER, "run(a, b); c("),
    ],
)
def test_of_several_statements_the_one_that_is_meant_is_quoted(line, purpose, quoted):
    place = Place(file="train.py", line=2, function="f", rank=None)
    text = quote_line({"train.py": f"import torch\n{line}\n"}, place, purpose)
    assert text == quoted
    assert quote_line({}, place, purpose) == ""
