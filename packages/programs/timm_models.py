"""timm: architectures of its families, small; each trains a step, and gives features; feature extraction, optimizers and schedules."""

from __future__ import annotations

from typing import Any

import timm
import timm.optim
import timm.scheduler
import torch

from packages.values import again, filled, normal, program, trained

_SMALL = {
    "resnet18": (64, {}),
    "resnetv2_50": (64, {}),
    "seresnet50": (64, {}),
    "regnetx_002": (64, {}),
    "densenet121": (64, {}),
    "mobilenetv3_small_050": (64, {}),
    "efficientnet_b0": (64, {}),
    "ghostnet_050": (64, {}),
    "convnext_atto": (64, {}),
    "convnextv2_atto": (64, {}),
    "vgg11": (64, {}),
    "dla34": (64, {}),
    "hrnet_w18_small": (64, {}),
    "repvgg_a0": (64, {}),
    "resmlp_12_224": (64, {"img_size": 64}),
    "mixer_s32_224": (64, {"img_size": 64}),
    "gmlp_ti16_224": (64, {"img_size": 64}),
    "vit_tiny_patch16_224": (64, {"img_size": 64}),
    "deit_tiny_patch16_224": (64, {"img_size": 64}),
    "beit_base_patch16_224": (64, {"img_size": 64, "depth": 2, "embed_dim": 48, "num_heads": 4}),
    "swin_tiny_patch4_window7_224": (
        64,
        {"img_size": 64, "window_size": 4, "embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)},
    ),
    "swinv2_cr_tiny_224": (64, {"img_size": 64, "embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)}),
    "pvt_v2_b0": (64, {}),
    "poolformer_s12": (64, {}),
    "cait_xxs24_224": (64, {"img_size": 64, "depth": 2}),
    "xcit_nano_12_p16_224": (64, {"img_size": 64, "depth": 2}),
    "levit_128s": (224, {}),
    "coat_tiny": (64, {"img_size": 64}),
    "edgenext_xx_small": (64, {}),
    "mobilevit_xxs": (64, {}),
    "mobileone_s0": (64, {}),
    "fastvit_t8": (64, {}),
    "efficientvit_b0": (64, {}),
    "tiny_vit_5m_224": (64, {}),
    "maxvit_rmlp_pico_rw_256": (64, {"img_size": 64}),
    "nf_resnet26": (64, {}),
    "rexnet_100": (64, {}),
    "res2net50_26w_4s": (64, {}),
    "tnt_s_legacy_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "visformer_tiny": (64, {"img_size": 64}),
    "inception_v3": (96, {"aux_logits": False}),
    "xception41": (64, {}),
    "dpn48b": (64, {}),
    "cspresnet50": (64, {}),
}


def _family(names: list[str]) -> dict[str, Any]:
    """Of each architecture its outputs before and after a step, the loss, and the outputs of a loaded copy."""
    results: dict[str, Any] = {}
    for name in names:
        size, options = _SMALL[name]
        image = normal(2, 3, size, size)
        options = dict(options, num_classes=5)
        model = filled(timm.create_model(name, **options)).eval()
        with torch.no_grad():
            before = model(image)
            features = model.forward_features(image)
        losses = trained(model.parameters(), lambda: model(image).square().mean(), 2, lr=1e-4)
        with torch.no_grad():
            after = model(image)
            same = bool(torch.allclose(again(model, timm.create_model(name, **options))(image), after, atol=1e-4))
        results[name] = {
            "before": before,
            "features": features if isinstance(features, torch.Tensor) else features[0],
            "losses": losses,
            "after": after,
            "loaded": same,
        }
    return results


@program
def resnets() -> dict[str, Any]:
    return _family(["resnet18", "resnetv2_50", "seresnet50", "res2net50_26w_4s", "nf_resnet26"])


@program
def mobile() -> dict[str, Any]:
    return _family(["mobilenetv3_small_050", "efficientnet_b0", "ghostnet_050", "mobileone_s0", "rexnet_100"])


@program
def convnets() -> dict[str, Any]:
    return _family(["convnext_atto", "convnextv2_atto", "regnetx_002", "repvgg_a0", "poolformer_s12"])


@program
def older_convnets() -> dict[str, Any]:
    return _family(["densenet121", "vgg11", "dla34", "dpn48b", "cspresnet50"])


@program
def branching_convnets() -> dict[str, Any]:
    return _family(["hrnet_w18_small", "inception_v3", "xception41"])


@program
def vision_transformers() -> dict[str, Any]:
    return _family(
        [
            "vit_tiny_patch16_224",
            "deit_tiny_patch16_224",
            "beit_base_patch16_224",
            "cait_xxs24_224",
            "xcit_nano_12_p16_224",
            "tnt_s_legacy_patch16_224",
        ]
    )


@program
def windowed_transformers() -> dict[str, Any]:
    return _family(["swin_tiny_patch4_window7_224", "swinv2_cr_tiny_224", "pvt_v2_b0", "maxvit_rmlp_pico_rw_256"])


@program
def hybrid_transformers() -> dict[str, Any]:
    return _family(
        [
            "levit_128s",
            "coat_tiny",
            "edgenext_xx_small",
            "mobilevit_xxs",
            "fastvit_t8",
            "efficientvit_b0",
            "tiny_vit_5m_224",
            "visformer_tiny",
        ]
    )


@program
def mlps() -> dict[str, Any]:
    return _family(["resmlp_12_224", "mixer_s32_224", "gmlp_ti16_224"])


@program
def features() -> dict[str, Any]:
    """Features of several depths: of stages, by names of a traced graph (torch.fx), and by hooks."""
    image = normal(1, 3, 64, 64)
    stages = filled(timm.create_model("resnet18", features_only=True, out_indices=(1, 3))).eval()
    from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

    model = filled(timm.create_model("resnet18")).eval()
    names = get_graph_node_names(model)[1]
    extractor = create_feature_extractor(model, {"layer2": "middle", names[-3]: "late"})
    transformer = filled(timm.create_model("vit_tiny_patch16_224", img_size=64)).eval()
    with torch.no_grad():
        return {
            "stages": list(stages(image)),
            "channels": [float(count) for count in stages.feature_info.channels()],
            "nodes": names,
            "by_name": extractor(image),
            "intermediate": transformer.forward_intermediates(image, indices=2, output_fmt="NCHW")[1],
        }


@program
def optimizers() -> dict[str, Any]:
    """timm's own optimizers on a small problem."""
    names = "sgdp adamp lamb lars nadamw radabelief adafactor adahessian lion madgrad adan adopt cadamw mars laprop sgdw".split()
    results = {}
    for name in names:
        model = filled(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
        x, y = normal(32, 8), normal(32, 1, seed=1)
        try:
            optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=1e-2)
        except (AssertionError, ValueError, KeyError) as error:
            results[name] = type(error).__name__
            continue
        second = name == "adahessian"
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward(create_graph=second)
            optimizer.step()
            losses.append(float(loss))
        results[name] = losses if not second else losses[:1]
    return results


@program
def schedules() -> dict[str, Any]:
    """Rates of its schedules, and an exponential moving average of a model."""
    model = filled(torch.nn.Linear(4, 2))
    rates = {}
    for kind in ("cosine", "tanh", "step", "poly"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule, epochs = timm.scheduler.create_scheduler_v2(
            optimizer, sched=kind, num_epochs=10, warmup_epochs=2, warmup_lr=1e-3, decay_epochs=3, min_lr=1e-3
        )
        values = []
        for epoch in range(int(epochs)):
            schedule.step(epoch)
            values.append(optimizer.param_groups[0]["lr"])
        rates[kind] = values
    average = timm.utils.ModelEmaV3(model, decay=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        trained(model.parameters(), lambda: model(normal(5, 4)).square().mean(), 1, optimizer)
        average.update(model, step=step)
    return {"rates": rates, "average": average.module.weight}
