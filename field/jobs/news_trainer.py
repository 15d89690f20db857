import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
rows = [{"input_ids": torch.randint(1, 600, (64,)), "labels": i % 4} for i in range(1280)]
config = BertConfig(vocab_size=600, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, max_position_embeddings=64, num_labels=4)
args = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=1, per_device_train_batch_size=16, use_cpu=True, report_to=[], save_strategy="no",
    disable_tqdm=True, logging_steps=40, seed=0,
)
trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=rows)
start = time.perf_counter()
result = trainer.train()
print("loss", round(result.training_loss, 4))
print(f"took {time.perf_counter() - start:.2f} s")
