"""Packages of many subjects: manifolds, tensor decompositions, curvature, pruning, ensembles, tables, survival, graphs of knowledge, images of medicine."""

from __future__ import annotations

import contextlib
import io
import itertools
from typing import Any

import torch
from torch import nn

from packages.values import filled, integers, normal, program, trained


def perceptron(*sizes: int) -> Any:
    """A perceptron of tanh layers with fixed weights."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return filled(nn.Sequential(*layers[:-1]))


def learned(model: Any, *inputs: Any, part: Any = lambda result: result, **options: Any) -> dict[str, Any]:
    """A model's losses in three steps and its result behind them."""
    filled(model)
    losses = trained(model.parameters(), lambda: part(model(*inputs, **options)).square().mean(), 3, lr=1e-3)
    return {"losses": losses, "result": part(model.eval()(*inputs, **options)).detach()}


@program
def geoopt() -> dict[str, Any]:
    """Parameters that stay on a ball and on a Stiefel manifold, with Riemannian optimizers; maps of five manifolds"""
    import geoopt as g

    ball, results = g.PoincareBall(c=1.0), {}
    points = g.ManifoldParameter(normal(4, 3) * 0.1, manifold=ball)
    for optimizer in (
        g.optim.RiemannianAdam([points], lr=1e-2),
        g.optim.RiemannianSGD([points], lr=1e-2, momentum=0.9),
    ):
        losses = trained([], lambda: ball.dist(points, points.detach().roll(1, 0) * 0.5).sum(), 4, optimizer)
        results[type(optimizer).__name__] = losses
    frame = g.ManifoldParameter(torch.linalg.qr(normal(5, 3))[0], manifold=g.Stiefel())
    optimizer = g.optim.RiemannianAdam([frame], lr=1e-2)
    results["stiefel"] = trained([], lambda: (frame * normal(5, 3, seed=3)).sum(), 4, optimizer)
    x, y = points.detach(), points.detach().roll(1, 0)
    results["ball"] = [ball.expmap(x, normal(4, 3, seed=5)), ball.logmap(x, y), ball.transp(x, y, normal(4, 3))]
    hyperboloid, sphere, positive = g.Lorentz(), g.Sphere(), g.SymmetricPositiveDefinite()
    x = hyperboloid.projx(normal(4, 3).double())
    results["hyperboloid"] = hyperboloid.dist(x, x.roll(1, 0))
    x = sphere.projx(normal(4, 3))
    results["sphere"] = sphere.logmap(x, x.roll(1, 0))
    x = normal(2, 3, 3).double()
    x = x @ x.mT + torch.eye(3)
    return results | {"positive": [positive.dist(x, x.roll(1, 0)), positive.logmap(x, x.roll(1, 0))]}


@program
def tensorly() -> dict[str, Any]:
    """CP, Tucker and train decompositions, robust PCA, and gradients through products of modes"""
    import tensorly as tl
    from tensorly.decomposition import non_negative_parafac, parafac, robust_pca, tensor_train, tucker

    tl.set_backend("pytorch")
    x, factor = normal(4, 5, 6).double(), normal(4, 5, 6).requires_grad_()
    tl.norm(tl.tenalg.mode_dot(factor, normal(2, 5), 1)).backward()
    return {
        "cp": tl.cp_to_tensor(parafac(x, rank=3, init="svd", n_iter_max=20)),
        "tucker": tl.tucker_to_tensor(tucker(x, rank=[2, 3, 3], n_iter_max=10)),
        "train": tl.tt_to_tensor(tensor_train(x, rank=[1, 3, 3, 1])),
        "non negative": tl.cp_to_tensor(non_negative_parafac(x.abs(), rank=2, init="svd", n_iter_max=10)),
        "robust": robust_pca(x, n_iter_max=5)[0],
        "unfolded": tl.unfold(x, 1),
        "grad": factor.grad,
    }


@program
def curvature() -> dict[str, Any]:
    """curvlinops: products with the Hessian, the Gauss-Newton matrix, the empirical Fisher and its KFAC"""
    import curvlinops as c

    model, loss = perceptron(4, 6, 3), nn.CrossEntropyLoss()
    data = [(normal(8, 4), integers(3, 8)), (normal(8, 4, seed=5), integers(3, 8, seed=7))]
    parameters = list(model.parameters())
    vector = normal(sum([parameter.numel() for parameter in parameters]), seed=9)
    kinds = (c.HessianLinearOperator, c.GGNLinearOperator, c.EFLinearOperator)
    results = {kind.__name__: kind(model, loss, parameters, data) @ vector for kind in kinds}
    kfac = c.KFACLinearOperator(model, loss, parameters, data, fisher_type="empirical")
    return results | {"kfac": kfac @ vector}


@program
def pruning() -> dict[str, Any]:
    """torch-pruning: half of a ResNet's channels, by magnitude, through the graph of its modules"""
    import torch_pruning as tp
    import torchvision

    model, x = filled(torchvision.models.resnet18(weights=None)).eval(), normal(1, 3, 32, 32)
    importance = tp.importance.MagnitudeImportance(p=2)
    pruner = tp.pruner.MagnitudePruner(model, x, importance, pruning_ratio=0.5, ignored_layers=[model.fc])
    before = tp.utils.count_ops_and_params(model, x)
    pruner.step()
    return {"before": before, "after": tp.utils.count_ops_and_params(model, x), "result": model(x)}


@program
def counters() -> dict[str, Any]:
    """thop and ptflops count operations, torchsummary prints layers"""
    import ptflops
    import thop
    import torchsummary
    import torchvision

    model = torchvision.models.mobilenet_v2(weights=None).eval()
    operations = thop.profile(model, (normal(1, 3, 32, 32),), verbose=False)
    complexity = ptflops.get_model_complexity_info(
        torchvision.models.mobilenet_v2(weights=None),
        (3, 32, 32),
        as_strings=False,
        print_per_layer_stat=False,
        backend="pytorch",
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        torchsummary.summary(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()), (3, 8, 8), device="cpu")
    return {"operations": operations, "complexity": complexity, "summary": printed.getvalue()}


@program
def ensembles() -> dict[str, Any]:
    """torchensemble: voting, fusion and boosting"""
    import torchensemble as te
    from torch.utils.data import DataLoader, TensorDataset

    class Member(nn.Module):
        def __init__(self, outputs: int = 3) -> None:
            super().__init__()
            self.layers = perceptron(4, 8, outputs)

        def forward(self, x: Any) -> Any:
            return self.layers(x)

    results: dict[str, Any] = {}
    for kind, outputs, targets, loss in (
        (te.VotingClassifier, 3, integers(3, 32), nn.CrossEntropyLoss()),
        (te.FusionClassifier, 3, integers(3, 32), nn.CrossEntropyLoss()),
        (te.GradientBoostingRegressor, 1, normal(32, 1, seed=3), nn.MSELoss()),
    ):
        batches = DataLoader(TensorDataset(normal(32, 4), targets), 16)
        ensemble = kind(estimator=Member, estimator_args={"outputs": outputs}, n_estimators=2, cuda=False)
        ensemble.set_optimizer("Adam", lr=1e-2)
        ensemble.set_criterion(loss)
        ensemble.fit(batches, epochs=2, save_model=False, log_interval=1000)
        results[kind.__name__] = ensemble.predict(normal(4, 4, seed=3))
    return results


@program
def rtdl() -> dict[str, Any]:
    """rtdl_revisiting_models and rtdl_num_embeddings: transformers and residual nets of tables, embeddings of numbers"""
    import rtdl_num_embeddings as e
    import rtdl_revisiting_models as r

    x, kinds = normal(8, 3), torch.stack([integers(4, 8), integers(3, 8)], 1)
    options = r.FTTransformer.get_default_kwargs(n_blocks=1)
    model = filled(r.FTTransformer(n_cont_features=3, cat_cardinalities=[4, 3], d_out=2, **options).eval())
    losses = trained([], lambda: model(x, kinds).square().mean(), 3, optimizer=model.make_default_optimizer())
    results = {"transformer": [losses, model(x, kinds)]}
    for layer in (
        e.LinearReLUEmbeddings(3, 4),
        e.PeriodicEmbeddings(3, 4, n_frequencies=5, lite=False),
        e.PiecewiseLinearEmbeddings(e.compute_bins(normal(100, 3), n_bins=4), 4, activation=False, version="B"),
    ):
        results[type(layer).__name__] = learned(layer, x)
    return results


@program
def torchkge() -> dict[str, Any]:
    """Embeddings of a graph of knowledge: margins, normalized entities, ranks of true links"""
    import pandas
    from torchkge.data_structures import KnowledgeGraph
    from torchkge.evaluation import LinkPredictionEvaluator
    from torchkge.models import ComplExModel, DistMultModel, HolEModel, TransEModel, TransHModel
    from torchkge.utils import MarginLoss

    columns = {"from": integers(9, 40), "to": integers(9, 40, seed=1), "rel": integers(3, 40, seed=2)}
    graph = KnowledgeGraph(df=pandas.DataFrame({name: value.numpy() for name, value in columns.items()}))
    heads, tails, relations = graph.head_idx, graph.tail_idx, graph.relations
    results = {}
    for kind, options in (
        (TransEModel, ["L2"]),
        (DistMultModel, []),
        (ComplExModel, []),
        (TransHModel, []),
        (HolEModel, []),
    ):
        model, loss = filled(kind(8, graph.n_ent, graph.n_rel, *options)), MarginLoss(0.5)
        losses = trained(model.parameters(), lambda: loss(*model(heads, tails, relations, heads.roll(1), tails)), 3)
        model.normalize_parameters()
        evaluator = LinkPredictionEvaluator(model, graph)
        evaluator.evaluate(b_size=20, verbose=False)
        results[kind.__name__] = [losses, float(evaluator.mrr()[0]), float(evaluator.mean_rank()[0])]
    return results


@program
def torchtuples() -> dict[str, Any]:
    """Fits perceptrons with its loaders, schedules and callbacks"""
    import torchtuples as tt

    x, y = normal(64, 5).numpy(), normal(64, 1, seed=2).numpy()
    results = {}
    for optimizer in (tt.optim.Adam(0.01), tt.optim.AdamWR(0.01, cycle_eta_multiplier=0.8), tt.optim.SGD(0.01)):
        net = filled(tt.practical.MLPVanilla(5, [16], 1, True, 0.0))
        model = tt.Model(net, nn.MSELoss(), optimizer)
        log = model.fit(
            x, y, 32, 3, [tt.callbacks.EarlyStopping()], verbose=False, shuffle=False, val_data=(x, y)
        ).to_pandas()
        results[type(optimizer).__name__] = [
            list(log["train_loss"]),
            list(log["val_loss"]),
            torch.tensor(model.predict(x)),
        ]
    return results


@program
def torchio() -> dict[str, Any]:
    """Volumes of medicine: rescaled, resampled, padded, and put together of patches"""
    import torchio as t

    subject = t.Subject(
        scan=t.ScalarImage(tensor=normal(1, 8, 8, 8)), labels=t.LabelMap(tensor=integers(2, 1, 8, 8, 8))
    )
    transforms = (
        t.RescaleIntensity((0, 1)), t.ZNormalization(), t.CropOrPad((6, 10, 6)), t.Flip((0,)), t.Resample(2), t.Pad(2), t.OneHot()
    )  # fmt: skip
    results = {
        type(transform).__name__: [transform(subject).scan.data, transform(subject).labels.data.float()]
        for transform in transforms
    }
    sampler = t.GridSampler(subject, 4, 2)
    whole = t.inference.GridAggregator(sampler)
    for batch in t.SubjectsLoader(sampler, batch_size=4):
        whole.add_batch(batch["scan"][t.DATA] * 2, batch[t.LOCATION])
    return results | {"whole": whole.get_output_tensor()}


@program
def perceivers() -> dict[str, Any]:
    """perceiver, linformer, reformer, siren and x-clip: losses of a few steps, and results"""
    from linformer import LinformerLM
    from perceiver_pytorch import Perceiver
    from reformer_pytorch import ReformerLM
    from siren_pytorch import SirenNet
    from x_clip import CLIP

    words = integers(50, 2, 16, low=1)
    perceiver = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10.0, depth=2, num_latents=8, latent_dim=16, cross_heads=1,
        latent_heads=2, cross_dim_head=8, latent_dim_head=8, num_classes=5, weight_tie_layers=True,
    )  # fmt: skip
    linformer = LinformerLM(num_tokens=50, dim=32, seq_len=16, depth=2, heads=4, k=8, one_kv_head=True, share_kv=True)
    reformer = ReformerLM(
        num_tokens=50, dim=32, depth=2, max_seq_len=16, heads=2, bucket_size=8, n_hashes=2, causal=True, use_full_attn=True,
    )  # fmt: skip
    clip = filled(
        CLIP(
            dim_text=32, dim_image=32, dim_latent=16, num_text_tokens=50, text_enc_depth=1, text_seq_len=16, text_heads=2,
            visual_enc_depth=1, visual_image_size=32, visual_patch_size=16, visual_heads=2, visual_patch_dropout=0.0,
            use_all_token_embeds=True, decoupled_contrastive_learning=True, extra_latent_projection=True,
        )
    )  # fmt: skip
    images = normal(2, 3, 32, 32)
    return {
        "perceiver": learned(perceiver, normal(2, 8, 8, 3)),
        "linformer": learned(linformer, words),
        "reformer": learned(reformer, words),
        "siren": learned(SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3), normal(5, 2)),
        "clip": trained(clip.parameters(), lambda: clip(words, images, return_loss=True), 3, lr=1e-3),
    }


@program
def equivariant() -> dict[str, Any]:
    """egnn and equiformer: nets of points that turn with them"""
    from egnn_pytorch import EGNN_Network
    from equiformer_pytorch import Equiformer

    egnn = EGNN_Network(num_tokens=21, num_positions=16, dim=16, depth=2, num_nearest_neighbors=4)
    equiformer = Equiformer(
        num_tokens=10, dim=(4, 4), dim_head=(4, 4), heads=(2, 2), num_linear_attn_heads=0, num_degrees=2, depth=1,
        attend_self=True, reduce_dim_out=True, valid_radius=10.0, num_neighbors=4, l2_dist_attention=False,
    )  # fmt: skip
    points = normal(1, 8, 3)
    mask = torch.ones(1, 8).bool()
    return {
        "egnn": learned(egnn, integers(21, 1, 8), points, mask=mask, part=lambda both: torch.cat(both, -1)),
        "equiformer": learned(equiformer, integers(10, 1, 8), points, mask, part=lambda types: types.type0),
    }


@program
def forecasting() -> dict[str, Any]:
    """pytorch-forecasting: a temporal fusion transformer and a recurrent net over its data set of series"""
    import lightning.pytorch as lightning
    import pandas
    from pytorch_forecasting import RecurrentNetwork, TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.metrics import QuantileLoss

    columns = {"time": [*range(20)] * 3, "series": [name for name in "abc" for _ in range(20)]}
    columns |= {"value": abs(normal(60).numpy()) + 1, "known": normal(60, seed=3).numpy()}
    series = TimeSeriesDataSet(
        pandas.DataFrame(columns), time_idx="time", target="value", group_ids=["series"], max_encoder_length=6,
        max_prediction_length=3, static_categoricals=["series"], time_varying_known_reals=["known"],
        time_varying_unknown_reals=["value"], target_normalizer=None,
    )  # fmt: skip
    batches = series.to_dataloader(train=False, batch_size=16, num_workers=0)
    x, y = next(iter(batches))
    transformer = filled(
        TemporalFusionTransformer.from_dataset(
            series, hidden_size=8, attention_head_size=2, hidden_continuous_size=4, dropout=0.0, loss=QuantileLoss()
        )
    )
    losses = trained(transformer.parameters(), lambda: transformer.loss(transformer(x).prediction, y))
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, limit_train_batches=2, gradient_clip_val=0.1,
    )  # fmt: skip
    trainer.fit(transformer, batches)
    recurrent = filled(RecurrentNetwork.from_dataset(series, hidden_size=8, dropout=0.0, rnn_layers=1)).eval()
    return {"losses": losses, "fitted": transformer(x).prediction, "recurrent": recurrent(x).prediction}
