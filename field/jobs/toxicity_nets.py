import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
rows = [{"input_ids": torch.randint(1, 500, (24,)), "labels": i % 2} for i in range(1600)]
config = BertConfig(vocab_size=500, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, max_position_embeddings=32)
args = TrainingArguments(
    tempfile.mkdtemp(), max_steps=200, per_device_train_batch_size=8, use_cpu=True, report_to=[], disable_tqdm=True,
    save_strategy="steps", save_steps=10, save_total_limit=2, logging_steps=100, seed=0,
)
trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=rows)
start = time.perf_counter()
result = trainer.train()
print("loss", round(result.training_loss, 4))
print(f"took {time.perf_counter() - start:.2f} s")
