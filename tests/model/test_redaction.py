"""No secret of a command line is stored, sent or shown."""

from __future__ import annotations

import pytest

from whyidle.model.redaction import hide_secrets, redact_command


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("train.py --lr 1", "train.py --lr 1"),
        ("train.py --api-key abc --lr 1", "train.py --api-key *** --lr 1"),
        ("train.py --hub_token=abc", "train.py --hub_token=***"),
        ("WANDB_API_KEY=abc train.py", "WANDB_API_KEY=*** train.py"),
        ("train.py --db postgres://me:abc@host/x", "train.py --db postgres://me:***@host/x"),
        ("train.py --tokenizer bpe --max-tokens 5", "train.py --tokenizer bpe --max-tokens 5"),
        ("train.py wandb.api_key=abc", "train.py wandb.api_key=***"),
        ("OPENAI_KEY=abc train.py --hub-token", "OPENAI_KEY=*** train.py --hub-token"),
        ("train.py s3://b/x?X-Amz-Signature=ab&n=1", "train.py s3://b/x?X-Amz-Signature=***&n=1"),
        ("train.py hf_abcdefghijklmnopqrstuvwx", "train.py ***"),
        ("train.py -p abc --password abc --pass abc", "train.py -p *** --password *** --pass ***"),
        ("train.py -p 8470 -n 2", "train.py -p 8470 -n 2"),
        ("srun -p gpu python train.py -p abc", "srun -p gpu python train.py -p ***"),
        ("git clone https://ghp_abcdefghijklmnopqrstuvwx@host/r", "git clone https://***@host/r"),
    ],
)
def test_secrets_do_not_leave_the_command_line(command: str, shown: str):
    assert hide_secrets(command.split()) == shown


def test_a_header_in_one_word():
    command = ["curl", "-H", "Authorization: Bearer abcdefghijkl", "http://host"]
    assert redact_command(command)[2] == "Authorization: Bearer ***"
