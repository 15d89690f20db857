import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
MAX_LENGTH = 160
rows = [{"ids": torch.randint(1, 800, (n,)), "labels": i % 3} for i, n in enumerate(torch.randint(10, 36, (800,)).tolist())]


def collate(batch):
    longest = MAX_LENGTH
    ids = torch.stack([nn_pad(r["ids"], longest) for r in batch])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([r["labels"] for r in batch])}


def nn_pad(ids, n):
    return torch.nn.functional.pad(ids, (0, n - len(ids)))


config = BertConfig(
    vocab_size=800, hidden_size=96, num_hidden_layers=2, num_attention_heads=2, intermediate_size=192,
    max_position_embeddings=MAX_LENGTH, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
args = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=1, per_device_train_batch_size=8, use_cpu=True, report_to=[],
    save_strategy="no", disable_tqdm=True, logging_steps=100, seed=0, remove_unused_columns=False,
)
trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=rows, data_collator=collate)
start = time.perf_counter()
result = trainer.train()
print("loss", round(result.training_loss, 4))
print(f"took {time.perf_counter() - start:.2f} s")
