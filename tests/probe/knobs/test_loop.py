"""Micro-batches that Hugging Face's trainer makes: joined, with as many samples to a step."""

import pytest
import torch
from torch import nn

KNOB = "loop.microbatch_times"


@pytest.fixture
def kit():
    return pytest.importorskip("transformers", reason="transformers is not installed")


class Net(nn.Module):
    """Without dropout, so that a step is the same but for rounding."""

    def __init__(self, *more):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), *more, nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, labels):
        return {"loss": (self.layers(x).squeeze(-1) - labels).square().mean()}


def rows(count=96):
    torch.manual_seed(0)
    x = torch.randn(count, 8)
    return [{"x": one, "labels": one.sum()} for one in x]


def arguments(kit, folder, **more):
    given = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, **more}
    return kit.TrainingArguments(
        str(folder), num_train_epochs=1, report_to=[], use_cpu=True, save_strategy="no",
        disable_tqdm=True, seed=5, **given,
    )  # fmt: skip


def trained(kit, folder, kind=None, **more):
    torch.manual_seed(1)
    model, args = Net(), arguments(kit, folder, **more)
    (kind or kit.Trainer)(model, args, train_dataset=rows()).train()
    return args, torch.cat([one.flatten() for one in model.parameters()])


def test_steps_are_the_same_but_for_rounding(kit, turn, tmp_path):
    _, plain = trained(kit, tmp_path)
    hand = turn({KNOB: 4})
    args, joined = trained(kit, tmp_path)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (8, 2)
    assert hand.applied == {KNOB: 1}
    assert hand.multiplied == {KNOB: [2]}
    torch.testing.assert_close(joined, plain, rtol=1e-5, atol=1e-6)
    hand.back()
    args, _ = trained(kit, tmp_path)
    assert args.gradient_accumulation_steps == 8


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"gradient_accumulation_steps": 6}, "6 micro-batch"),
        ({"gradient_accumulation_steps": 1}, "1 micro-batch"),
        ({"auto_find_batch_size": True}, "found or set elsewhere"),
        ({"dataloader_drop_last": True, "per_device_train_batch_size": 5}, "drop more samples"),
        ({"accelerator_config": {"split_batches": True}}, "split among"),
        ({"per_device_train_batch_size": 5}, "of unequal size"),
    ],
)
def test_what_cannot_be_joined_stays(kit, turn, tmp_path, more, why):
    hand = turn({KNOB: 4})
    args = arguments(kit, tmp_path, **more)
    before = args.gradient_accumulation_steps
    kit.Trainer(Net(), args, train_dataset=rows())
    assert args.gradient_accumulation_steps == before
    assert why in hand.declined[KNOB]
    assert not hand.applied


def test_models_data_and_trainers_of_which_too_little_is_known(kit, turn, tmp_path):
    class Own(kit.Trainer):
        def get_train_dataloader(self):
            return super().get_train_dataloader()

    class Loss(kit.Trainer):
        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs)

    class Scaled(kit.Trainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.model_accepts_loss_kwargs = False

    class Substep(kit.TrainerCallback):
        def on_substep_end(self, *args, **kwargs):
            """It may count micro-batches."""

    class Kept(torch.utils.data.Dataset):
        """It does not show its labels without being asked for a sample."""

        def __len__(self):
            return 96

        def __getitem__(self, at):
            raise AssertionError

    class Tokens(nn.Module):
        def forward(self, x, labels):
            return {"loss": x.mean()}

    collate = kit.DataCollatorForTokenClassification.__new__(kit.DataCollatorForTokenClassification)
    for kind, model, data, more, why in (
        (Own, Net(), rows(), {}, "Own.get_train_dataloader is not the framework's own"),
        (kit.Trainer, Net(nn.BatchNorm1d(16)), rows(), {}, "batch normalisation"),
        (Loss, Net(), rows(), {}, "Loss.compute_loss is not the framework's own"),
        (Scaled, Net(), rows(), {}, "Scaled says by itself"),
        (kit.Trainer, Net(), None, {}, "a stream"),
        (kit.Trainer, Net(), rows(), {"compute_loss_func": len}, "a function of the script's own"),
        (kit.Trainer, Net(), rows(), {"callbacks": [Substep()]}, "a callback"),
        (kit.Trainer, Net(), Kept(), {}, "mean over labels"),
        (kit.Trainer, Tokens(), rows(), {"data_collator": collate}, "mean over labels"),
    ):
        hand = turn({KNOB: 2})
        args = arguments(kit, tmp_path)
        kind(model, args, train_dataset=data, **more)
        assert args.gradient_accumulation_steps == 8
        assert why in hand.declined[KNOB]
        hand.back()


def test_a_release_in_which_checkpoints_set_the_size(kit, turn, tmp_path):
    class Older(kit.Trainer):
        def train(self, state):
            if state.train_batch_size is not None:
                self._train_batch_size = state.train_batch_size

    for saved, applied in (("no", {KNOB: 1}), ("steps", {})):
        hand = turn({KNOB: 2})
        args = arguments(kit, tmp_path)
        args.save_strategy = kit.trainer_utils.SaveStrategy(saved)
        Older(Net(), args, train_dataset=rows())
        assert hand.applied == applied
        hand.back()
    assert "a checkpoint" in hand.declined[KNOB]


def test_a_broken_number_is_declined(turn):
    assert "whole numbers" in turn({KNOB: 1.5}).declined[KNOB]


def test_a_loop_of_the_scripts_own_is_left_alone(turn):
    hand = turn({KNOB: 2})
    assert not hand.applied
    assert "script's own" in hand.waiting[KNOB]()
