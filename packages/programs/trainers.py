"""Frameworks that run the training: Lightning, accelerate, ignite, skorch, catalyst-like loops, and metrics."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

from packages.values import filled, integers, normal, program


def _model() -> Any:
    return filled(torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))


def _rows(seed: int = 0) -> Any:
    x = normal(32, 6, seed=seed)
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


@program
def lightning() -> dict[str, Any]:
    """A LightningModule with a schedule, checkpoints, early stopping, and going on from a checkpoint."""
    import lightning as L
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    class Classifier(L.LightningModule):
        def __init__(self, lr: float = 0.05) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.model, self.losses = _model(), []

        def training_step(self, batch: Any, place: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            self.losses.append(float(loss))
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: Any, place: int) -> None:
            self.log("val_loss", torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)}

    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = dict(
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        best = ModelCheckpoint(folder, monitor="val_loss", save_last=True)
        trainer = L.Trainer(
            max_epochs=5, callbacks=[best, EarlyStopping("val_loss", patience=2)], gradient_clip_val=1.0, **options
        )
        model = Classifier()
        trainer.fit(model, DataLoader(_rows(), 8), DataLoader(_rows(1), 8))
        loaded = Classifier.load_from_checkpoint(best.best_model_path, weights_only=False)
        resumed = L.Trainer(max_epochs=7, callbacks=[], **options)
        more = Classifier()
        resumed.fit(
            more, DataLoader(_rows(), 8), DataLoader(_rows(1), 8), ckpt_path=best.last_model_path, weights_only=False
        )
        return {
            "losses": model.losses,
            "val": float(trainer.callback_metrics["val_loss"]),
            "loaded": loaded.model[0].weight,
            "more": more.losses,
        }


@program
def fabric() -> dict[str, Any]:
    from lightning.fabric import Fabric

    engine = Fabric(accelerator="cpu", devices=1)
    engine.launch()
    model, losses = _model(), []
    model, optimizer = engine.setup(model, torch.optim.SGD(model.parameters(), 0.1))
    for x, y in engine.setup_dataloaders(DataLoader(_rows(), 8)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        engine.backward(loss)
        engine.clip_gradients(model, optimizer, max_norm=0.5)
        optimizer.step()
        losses.append(float(loss))
    return {"losses": losses, "weight": model.module[0].weight}


@program
def accelerate() -> dict[str, Any]:
    """Accumulated gradients, clipping, a schedule, saved and loaded states."""
    from accelerate import Accelerator

    engine = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    model, optimizer, rows, schedule = engine.prepare(model, optimizer, DataLoader(_rows(), 4), schedule)
    losses = []
    for x, y in rows:
        with engine.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            engine.backward(loss)
            if engine.sync_gradients:
                engine.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(float(loss))
    with tempfile.TemporaryDirectory() as folder:
        engine.save_state(folder)
        before = engine.unwrap_model(model)[0].weight.detach().clone()
        with torch.no_grad():
            engine.unwrap_model(model)[0].weight.zero_()
        engine.load_state(folder)
        restored = bool(torch.equal(engine.unwrap_model(model)[0].weight, before))
    return {
        "losses": losses,
        "weight": before,
        "restored": restored,
        "gathered": engine.gather_for_metrics(torch.arange(3)),
    }


@program
def ignite() -> dict[str, Any]:
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import EarlyStopping
    from ignite.metrics import Accuracy, ConfusionMatrix, Loss

    model = _model()
    criterion = torch.nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), criterion)
    evaluator = create_supervised_evaluator(
        model, {"accuracy": Accuracy(), "loss": Loss(criterion), "confusion": ConfusionMatrix(3)}
    )
    losses, seen = [], []
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output))

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate(engine: Any) -> None:
        evaluator.run(DataLoader(_rows(1), 8))
        seen.append({key: value for key, value in evaluator.state.metrics.items() if key != "confusion"})

    evaluator.add_event_handler(
        Events.COMPLETED, EarlyStopping(3, lambda engine: engine.state.metrics["accuracy"], trainer)
    )
    trainer.run(DataLoader(_rows(), 8), max_epochs=3)
    return {"losses": losses, "metrics": seen, "confusion": evaluator.state.metrics["confusion"]}


@program
def skorch() -> dict[str, Any]:
    from sklearn.model_selection import cross_val_predict
    from skorch import NeuralNetClassifier

    x, y = _rows().tensors
    net = NeuralNetClassifier(
        _model(), criterion=torch.nn.CrossEntropyLoss, lr=0.1, max_epochs=4, batch_size=8, train_split=None, verbose=0
    )
    net.fit(x.numpy(), y.numpy())
    with tempfile.TemporaryDirectory() as folder:
        net.save_params(f_params=f"{folder}/weights.pt")
        other = NeuralNetClassifier(_model(), criterion=torch.nn.CrossEntropyLoss, verbose=0).initialize()
        other.load_params(f_params=f"{folder}/weights.pt")
        same = bool(numpy.allclose(other.predict_proba(x.numpy()), net.predict_proba(x.numpy())))
    crossed = cross_val_predict(net, x.numpy(), y.numpy(), cv=2)
    return {
        "losses": [float(row["train_loss"]) for row in net.history],
        "out": torch.tensor(net.predict_proba(x.numpy())),
        "loaded": same,
        "crossed": torch.tensor(crossed),
    }


@program
def torchmetrics() -> dict[str, Any]:
    import torchmetrics as tm

    logits, target = normal(20, 4), integers(4, 20)
    binary, truth = normal(30).sigmoid(), integers(2, 30)
    collection = tm.MetricCollection(
        [
            tm.Accuracy(task="multiclass", num_classes=4),
            tm.F1Score(task="multiclass", num_classes=4, average="macro"),
            tm.ConfusionMatrix(task="multiclass", num_classes=4),
        ]
    )
    for part in range(2):
        collection.update(logits[part * 10 : part * 10 + 10], target[part * 10 : part * 10 + 10])
    a, b = normal(1, 3, 32, 32).sigmoid(), normal(1, 3, 32, 32, seed=1).sigmoid()
    results = dict(collection.compute())
    results |= {
        "auroc": tm.functional.auroc(binary, truth, task="binary"),
        "ap": tm.functional.average_precision(binary, truth, task="binary"),
        "roc": list(tm.functional.roc(binary, truth, task="binary")),
        "mse": tm.functional.mean_squared_error(a, b),
        "r2": tm.functional.r2_score(binary, truth.float()),
        "pearson": tm.functional.pearson_corrcoef(binary, truth.float()),
        "spearman": tm.functional.spearman_corrcoef(binary, normal(30, seed=3)),
        "ssim": tm.functional.structural_similarity_index_measure(a, b),
        "psnr": tm.functional.peak_signal_noise_ratio(a, b, data_range=1.0),
        "wer": tm.functional.text.word_error_rate(["a b c"], ["a c c d"]),
        "bleu": tm.functional.text.bleu_score(["the cat sat on the mat"], [["a cat sat on the mat"]]),
        "cosine": tm.functional.cosine_similarity(normal(5, 4), normal(5, 4, seed=1), reduction="mean"),
        "kl": tm.functional.kl_divergence(logits.softmax(1), logits.flip(0).softmax(1)),
        "ndcg": tm.functional.retrieval_normalized_dcg(binary, truth),
        "calibration": tm.functional.calibration_error(binary, truth, task="binary"),
        "kendall": tm.functional.kendall_rank_corrcoef(binary, normal(30, seed=4)),
        "snr": tm.functional.signal_noise_ratio(normal(50), normal(50, seed=1)),
    }
    return results
