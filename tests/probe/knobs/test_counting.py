"""Losses of Hugging Face's models, where micro-batches are joined: the same, or left alone."""

import inspect

import pytest
import torch

KNOB = "loop.microbatch_times"
SMALL = {
    "vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 16,
}  # fmt: skip


@pytest.fixture
def kit():
    return pytest.importorskip("transformers", reason="transformers is not installed")


def causal(kit):
    return kit.LlamaForCausalLM(kit.LlamaConfig(**SMALL))


def rows(count):
    """Sequences of unequal numbers of labels."""
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 32, (count, 12), generator=drawn)
    kept = torch.rand(count, 12, generator=drawn) < torch.rand(count, 1, generator=drawn)
    return [
        {"input_ids": one, "labels": one.where(use, -100)}
        for one, use in zip(ids, kept, strict=True)
    ]


def arguments(kit, folder, **more):
    return kit.TrainingArguments(
        str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=4, optim="sgd",
        num_train_epochs=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
        learning_rate=0.1, max_grad_norm=1e9, logging_steps=1, **more,
    )  # fmt: skip


def trained(kit, folder, model, data, **more):
    args = arguments(kit, folder, **more)
    trainer = kit.Trainer(model, args, train_dataset=data)
    trainer.train()
    logged = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    return args, logged, torch.cat([one.flatten() for one in model.parameters()])


def test_one_that_also_gives_a_tuple(kit, turn, tmp_path):
    class Own(kit.LlamaForCausalLM):
        def forward(self, input_ids, labels, **kwargs):
            logits = self.lm_head(self.model(input_ids).last_hidden_state)
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
            output = (logits,)
            return (loss,) + output  # noqa: RUF005

    hand = turn({KNOB: 2})
    kit.Trainer(Own(kit.LlamaConfig(**SMALL)), arguments(kit, tmp_path), train_dataset=rows(8))
    assert hand.applied == {KNOB: 1}


@pytest.mark.parametrize("more", [{}, {"label_smoothing_factor": 0.1}])
def test_a_loss_that_is_divided_by_the_labels_of_a_step(kit, turn, tmp_path, more):
    """Also at the end of an epoch, where micro-batches are smaller."""

    def once():
        torch.manual_seed(0)
        return trained(kit, tmp_path, causal(kit), rows(21), **more)

    _, plain, weights = once()
    hand = turn({KNOB: 2})
    args, logged, joined = once()
    if more and "not seen to be divided" in hand.declined.get(KNOB, ""):
        pytest.skip("this release smooths labels by a mean")
    assert (args.gradient_accumulation_steps, hand.applied) == (2, {KNOB: 1})
    assert logged == pytest.approx(plain, abs=1e-3)
    torch.testing.assert_close(joined, weights, rtol=1e-4, atol=1e-6)


def bert(kit):
    return kit.BertForSequenceClassification(kit.BertConfig(**SMALL))


def weighed(kit):
    """More is added to the loss where it is returned."""

    class Own(kit.LlamaForCausalLM):
        def forward(self, input_ids, labels, **kwargs):
            logits = self.lm_head(self.model(input_ids).last_hidden_state)
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
            return {"loss": loss + logits.square().mean()}

    return Own(kit.LlamaConfig(**SMALL))


def routed(kit):
    return kit.MixtralForCausalLM(kit.MixtralConfig(**SMALL, num_key_value_heads=1))


def replaced(kit):
    model = causal(kit)
    model.loss_function = lambda logits, labels, vocab_size, **_: logits.mean()
    return model


def image(kit, problem=None):
    config = kit.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=8, patch_size=4, problem_type=problem,
    )  # fmt: skip
    return kit.ViTForImageClassification(config)


@pytest.mark.parametrize("make", [bert, weighed, routed, replaced, image])
def test_told_and_not_seen_to_divide_by_it(kit, turn, tmp_path, make):
    """The trainer divides such a loss by nothing: with half the micro-batches, half the sum."""
    hand = turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    model = make(kit)
    told = any(
        one.kind == one.VAR_KEYWORD for one in inspect.signature(model.forward).parameters.values()
    )
    kit.Trainer(model, args, train_dataset=rows(32))
    if not told:
        pytest.skip("this release tells the model nothing")
    assert args.gradient_accumulation_steps == 4
    assert "not seen to be divided" in hand.declined[KNOB]


def test_a_kind_of_problem_that_is_named(kit, turn, tmp_path):
    hand = turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    kit.Trainer(image(kit, "single_label_classification"), args, train_dataset=rows(32))
    assert hand.applied == {KNOB: 1}
