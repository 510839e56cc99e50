"""Packages of one idea: einops, entmax, torchdiffeq, torchsde, CRFs, higher, e3nn, kornia, MONAI, captum, thinc, losses, optimizers."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from packages.values import filled, integers, normal, program, trained


@program
def einops() -> dict[str, Any]:
    from einops import einsum, pack, rearrange, reduce, repeat
    from einops.layers.torch import EinMix, Rearrange, Reduce

    x = normal(2, 6, 4, 8).requires_grad_()
    model = filled(
        torch.nn.Sequential(
            Rearrange("b (h w) c d -> b c h (w d)", h=2),
            Reduce("b c h w -> b c h", "mean"),
            EinMix("b c h -> b k", weight_shape="c h k", bias_shape="k", c=4, h=2, k=3),
        )
    )
    losses = trained(model.parameters(), lambda: model(x).square().mean(), 3)
    return {
        "losses": losses,
        "reduced": reduce(x, "b (h w) c d -> b h c", "max", h=3),
        "repeated": repeat(x[:, :2], "b h c d -> b (h r) c d", r=3),
        "split": rearrange(x, "b h c d -> (b h) (c d)"),
        "product": einsum(x, normal(8, 5), "b h c d, d e -> b h c e"),
        "packed": pack([x, x[:, 0]], "b * d")[0],
        "grad": x.grad,
    }


@program
def entmax() -> dict[str, Any]:
    import entmax as e

    x, results = normal(4, 7).requires_grad_(), {}
    for name in ("sparsemax", "entmax15", "sparsemax_bisect"):
        y = getattr(e, name)(x, dim=-1)
        (y * normal(4, 7, seed=2)).sum().backward()
        results[name] = [y.detach(), x.grad.clone()]
        x.grad = None
    alpha = torch.tensor(1.3, requires_grad=True)
    y = e.entmax_bisect(x, alpha=alpha)
    (y * normal(4, 7, seed=3)).sum().backward()
    return results | {
        "bisect": [y.detach(), alpha.grad],
        "loss": e.Entmax15Loss()(x, integers(7, 4)).detach(),
        "normmax": e.normmax_bisect(x, alpha=2.0).detach(),
    }


@program
def torchdiffeq() -> dict[str, Any]:
    from torchdiffeq import odeint, odeint_adjoint, odeint_event

    model, start, times = (
        filled(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))),
        normal(3, 2),
        torch.linspace(0, 1, 5),
    )

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, t: Any, y: Any) -> Any:
            return self.net(y) * (1 + t)

    field, results = Field(), {}
    for method in ("dopri5", "rk4", "euler", "midpoint", "adaptive_heun", "bosh3", "explicit_adams"):
        results[method] = odeint(
            field,
            start,
            times,
            method=method,
            rtol=1e-4,
            atol=1e-5,
            options={"step_size": 0.1} if method in ("rk4", "euler", "midpoint", "explicit_adams") else None,
        )
    losses = trained(
        field.parameters(), lambda: odeint_adjoint(field, start, times, rtol=1e-4, atol=1e-5)[-1].square().mean(), 3
    )
    place, state = odeint_event(
        lambda t, y: torch.ones_like(y), torch.tensor([0.0]), torch.tensor(0.0), event_fn=lambda t, y: y[0] - 2.0
    )
    return results | {"losses": losses, "event": [place, state]}


@program
def torchsde() -> dict[str, Any]:
    import torchsde as sde

    class Problem(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.rate = torch.nn.Parameter(torch.tensor(0.5))

        def f(self, t: Any, y: Any) -> Any:
            return self.rate * y

        def g(self, t: Any, y: Any) -> Any:
            return torch.zeros_like(y)

    problem, times = Problem(), torch.linspace(0, 1, 4)
    end = sde.sdeint(problem, normal(3, 2), times, dt=0.05, method="euler")
    adjoint = sde.sdeint_adjoint(problem, normal(3, 2), times, dt=0.05, method="euler")
    adjoint[-1].square().mean().backward()
    return {"end": end, "adjoint": adjoint.detach(), "grad": problem.rate.grad}


@program
def pytorch_crf() -> dict[str, Any]:
    from torchcrf import CRF

    crf = filled(CRF(5, batch_first=True))
    scores, tags, mask = (
        normal(3, 6, 5).requires_grad_(),
        integers(5, 3, 6),
        torch.arange(6)[None] < torch.tensor([[6], [4], [2]]),
    )
    losses = trained(crf.parameters(), lambda: -crf(scores, tags, mask=mask, reduction="token_mean"), 4, lr=0.1)
    return {
        "losses": losses,
        "decoded": [[float(tag) for tag in row] for row in crf.decode(scores, mask)],
        "grad": scores.grad,
    }


@program
def opt_einsum() -> dict[str, Any]:
    import opt_einsum as oe

    a, b, c = normal(3, 4), normal(4, 5, seed=1), normal(5, 6, seed=2)
    expression = oe.contract_expression("ij,jk,kl->il", (3, 4), (4, 5), (5, 6))
    return {
        "contracted": oe.contract("ij,jk,kl->i", a, b, c),
        "expression": expression(a, b, c),
        "shared": oe.contract("ij,ij->", a, a),
        "path": str(oe.contract_path("ij,jk,kl->il", a, b, c)[0]),
    }


@program
def higher() -> dict[str, Any]:
    import higher as h

    model = filled(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    inner, outer = torch.optim.Adam(model.parameters(), lr=0.05), torch.optim.SGD(model.parameters(), lr=0.1)
    x, y, losses = normal(10, 3), normal(10, 1, seed=1), []
    for _ in range(3):
        outer.zero_grad()
        with h.innerloop_ctx(model, inner, copy_initial_weights=False) as (functional, changing):
            for _ in range(2):
                changing.step((functional(x) - y).square().mean())
            loss = (functional(x) - y).square().mean()
            loss.backward()
        outer.step()
        losses.append(float(loss))
    return {"losses": losses, "weight": model[0].weight}


@program
def e3nn() -> dict[str, Any]:
    from e3nn import o3
    from e3nn.nn import BatchNorm, FullyConnectedNet, Gate

    x = normal(5, 3)
    first, second = o3.Irreps("2x0e + 2x1o"), o3.Irreps("1x0e + 1x1o")
    product = filled(o3.FullyConnectedTensorProduct(first, second, "2x0e + 1x1o + 1x2e"))
    linear = filled(o3.Linear(first, "3x0e + 1x1o"))
    gate = Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
    a, b = normal(5, first.dim), normal(5, second.dim, seed=1)
    losses = trained(product.parameters(), lambda: product(a, b).square().mean(), 3)
    rotated = o3.spherical_harmonics(2, x, normalize=True)
    return {
        "harmonics": rotated,
        "losses": losses,
        "product": product(a, b),
        "linear": linear(a),
        "gate": gate(normal(5, gate.irreps_in.dim)),
        "wigner": o3.wigner_3j(1, 1, 2),
        "norm": BatchNorm(first).eval()(a),
        "net": filled(FullyConnectedNet([4, 8, 2]))(normal(3, 4)),
        "full": o3.FullTensorProduct(first, second)(a, b),
        "angles": list(o3.xyz_to_angles(x)),
    }


@program
def kornia() -> dict[str, Any]:
    import kornia as k

    image = normal(1, 3, 24, 32).sigmoid()
    transform = k.geometry.transform
    return {
        "hsv": k.color.rgb_to_hsv(image),
        "lab": k.color.rgb_to_lab(image),
        "gray": k.color.rgb_to_grayscale(image),
        "blur": k.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5)),
        "sobel": k.filters.sobel(image),
        "canny": k.filters.canny(image)[0],
        "median": k.filters.median_blur(image, (3, 3)),
        "rotate": transform.rotate(image, torch.tensor([30.0])),
        "warp": transform.warp_perspective(image, torch.eye(3)[None] + 0.01 * normal(1, 3, 3), (20, 20)),
        "pyramid": transform.pyrdown(image),
        "dilate": k.morphology.dilation(image, torch.ones(3, 3)),
        "harris": k.feature.harris_response(image[:, :1]),
        "ssim": k.metrics.ssim(image, image.flip(-1), 5),
        "quaternion": k.geometry.conversions.rotation_matrix_to_quaternion(torch.eye(3)[None]),
        "equalize": k.enhance.equalize(image),
        "hist": k.enhance.histogram(image[:, 0].flatten(1), torch.linspace(0, 1, 8), torch.tensor(0.1)),
        "dice": k.losses.dice_loss(normal(1, 3, 8, 8), integers(3, 1, 8, 8)),
        "homography": k.geometry.find_homography_dlt(normal(1, 8, 2), normal(1, 8, 2, seed=1)),
        "sift": k.feature.SIFTDescriptor(16)(normal(2, 1, 16, 16).sigmoid()),
    }


@program
def monai() -> dict[str, Any]:
    from monai.losses import DiceCELoss, TverskyLoss
    from monai.networks.nets import UNETR, SegResNet, UNet

    image, target, results = normal(1, 1, 16, 16, 16), integers(2, 1, 1, 16, 16, 16), {}
    nets = {
        "unet": UNet(3, 1, 2, (4, 8), (2,)),
        "segresnet": SegResNet(3, 8, 1, 2),
        "segresnet8": SegResNet(3, 8, 1, 2, upsample_mode="deconv"),
        "unetr": UNETR(1, 2, (16, 16, 16), feature_size=4, hidden_size=16, mlp_dim=16, num_heads=2),
    }
    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    for name, net in nets.items():
        filled(net).eval()
        results[name] = trained(net.parameters(), lambda: loss(net(image), target), 2, lr=1e-3)
    with torch.no_grad():
        return results | {
            "tversky": TverskyLoss(sigmoid=True)(normal(1, 2, 8, 8), torch.ones(1, 2, 8, 8)),
        }


class _Flat(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.flatten(1)


@program
def captum() -> dict[str, Any]:
    from captum import attr

    model = filled(
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), _Flat(), torch.nn.Linear(36, 3)
        )
    ).eval()
    x, results = normal(2, 1, 8, 8), {}
    for kind in (
        attr.Saliency,
        attr.InputXGradient,
        attr.IntegratedGradients,
        attr.DeepLift,
        attr.GuidedBackprop,
        attr.Deconvolution,
    ):
        results[kind.__name__] = kind(model).attribute(x.clone().requires_grad_(), target=1)
    results["occlusion"] = attr.Occlusion(model).attribute(x, (1, 3, 3), target=0)
    results["ablation"] = attr.FeatureAblation(model).attribute(
        x, target=0, feature_mask=torch.arange(64).reshape(1, 1, 8, 8) // 8
    )
    results["layer"] = attr.LayerGradCam(model, model[0]).attribute(x, target=2)
    results["conductance"] = attr.LayerConductance(model, model[0]).attribute(x, target=2, n_steps=10)
    return results


@program
def thinc() -> dict[str, Any]:
    from thinc.api import Adam, Linear, PyTorchWrapper, chain, registry, torch2xp, xp2torch

    net = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
    model = chain(PyTorchWrapper(net), Linear(2))
    model.layers[1].set_dim("nI", 2)
    x, y, optimizer, losses = normal(6, 4).numpy(), normal(6, 2, seed=1).numpy(), Adam(0.01), []
    model.initialize(X=x)
    model.layers[1].set_param("W", normal(2, 2, seed=5).numpy())
    for _ in range(3):
        out, back = model.begin_update(x)
        losses.append(float(numpy.square(out - y).mean()))
        back((2 * (out - y) / y.size).astype("float32"))
        model.finish_update(optimizer)
    assert registry is not None
    return {"losses": losses, "out": torch.tensor(model.predict(x)), "round": xp2torch(torch2xp(normal(3)))}


@program
def metric_learning() -> dict[str, Any]:
    from pytorch_metric_learning import distances, losses, miners, reducers

    x, y, results = normal(12, 6), torch.arange(12) % 4, {}
    kinds = {
        "triplet": losses.TripletMarginLoss(),
        "contrastive": losses.ContrastiveLoss(),
        "ntxent": losses.NTXentLoss(),
        "multi": losses.MultiSimilarityLoss(),
        "circle": losses.CircleLoss(),
        "arcface": filled(losses.ArcFaceLoss(4, 6)),
        "proxy": filled(losses.ProxyAnchorLoss(4, 6)),
        "lifted": losses.LiftedStructureLoss(),
        "supcon": losses.SupConLoss(),
        "fastap": losses.FastAPLoss(),
        "cosine": losses.TripletMarginLoss(
            distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)
        ),
    }
    for name, loss in kinds.items():
        value = x.clone().requires_grad_()
        result = loss(value, y)
        result.backward()
        results[name] = [result.detach(), value.grad]
    return results | {"mined": [part.float() for part in miners.MultiSimilarityMiner()(x, y)]}


@program
def optimizers() -> dict[str, Any]:
    """torch_optimizer, pytorch_optimizer, schedulefree, prodigyopt, torch_ema."""
    import prodigyopt
    import pytorch_optimizer
    import schedulefree
    import torch_ema
    import torch_optimizer

    x, y, results = normal(32, 8), normal(32, 1, seed=1), {}
    makers = {
        f"torch_optimizer.{name}": getattr(torch_optimizer, name)
        for name in "RAdam Yogi DiffGrad Lamb NovoGrad QHAdam SWATS Shampoo AdaBound AdaMod Apollo AggMo MADGRAD PID RangerQH SGDW".split()
    }
    makers |= {
        f"pytorch_optimizer.{name}": getattr(pytorch_optimizer, name)
        for name in "AdaBelief AdaPNM Adan Lion Lamb Tiger SophiaH Ranger21 CAME GaLore ADOPT MARS Muon SOAP".split()
        if hasattr(pytorch_optimizer, name)
    }
    makers |= {"schedulefree": schedulefree.AdamWScheduleFree, "prodigy": prodigyopt.Prodigy}
    for name, make in makers.items():
        model = filled(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
        try:
            optimizer = make(model.parameters(), **({"num_iterations": 5} if name.endswith("Ranger21") else {}))
        except Exception as error:  # what needs more arguments refuses in both
            results[name] = type(error).__name__
            continue
        if hasattr(optimizer, "train"):
            optimizer.train()
        try:
            results[name] = trained([], lambda: (model(x) - y).square().mean(), 5, optimizer)
        except RuntimeError:
            results[name] = "RuntimeError"
        except Exception as error:
            results[name] = type(error).__name__
    average = torch_ema.ExponentialMovingAverage(model.parameters(), decay=0.9)
    average.update()
    with average.average_parameters():
        results["ema"] = model[0].weight.detach().clone()
    return results


@program
def images() -> dict[str, Any]:
    """segmentation_models_pytorch, efficientnet_pytorch, piq, pytorch_msssim, denoising_diffusion_pytorch, lightly."""
    import piq
    import segmentation_models_pytorch as smp
    from denoising_diffusion_pytorch import Unet
    from efficientnet_pytorch import EfficientNet
    from lightly.loss import BarlowTwinsLoss, NTXentLoss, VICRegLoss
    from lightly.models.modules import SimCLRProjectionHead
    from pytorch_msssim import ms_ssim, ssim

    image, other, results = normal(2, 3, 64, 64).sigmoid(), normal(2, 3, 64, 64, seed=1).sigmoid(), {}
    for name in ("Unet", "FPN", "DeepLabV3Plus", "Linknet"):
        model = filled(getattr(smp, name)("resnet18", encoder_weights=None, classes=2)).eval()
        loss = smp.losses.DiceLoss("multilabel")
        results[name] = trained(
            model.parameters(), lambda: loss(model(image), (other[:, :2] > 0.5).float()), 2, lr=1e-3
        )
    net = filled(EfficientNet.from_name("efficientnet-b0", num_classes=3)).eval()
    diffusion = filled(Unet(dim=16, dim_mults=(1, 2), flash_attn=False)).eval()
    head = filled(SimCLRProjectionHead(8, 8, 4)).eval()
    with torch.no_grad():
        return results | {
            "efficientnet": net(image),
            "diffusion": diffusion(image[:, :, :16, :16], torch.tensor([3, 5])),
            "ssim": ssim(image, other, data_range=1.0),
            "msssim": ms_ssim(image.repeat(1, 1, 3, 3), other.repeat(1, 1, 3, 3), data_range=1.0),
            "psnr": piq.psnr(image, other),
            "gmsd": piq.gmsd(image, other),
            "vif": piq.vif_p(image, other),
            "fsim": piq.fsim(image, other),
            "haarpsi": piq.haarpsi(image, other),
            "tv": piq.total_variation(image),
            "barlow": BarlowTwinsLoss()(normal(6, 4), normal(6, 4, seed=1)),
            "ntxent": NTXentLoss()(normal(6, 4), normal(6, 4, seed=1)),
            "vicreg": VICRegLoss()(normal(6, 4), normal(6, 4, seed=1)),
            "head": head(normal(5, 8)),
        }


@program
def training_tools() -> dict[str, Any]:
    """torchinfo, backpack, torchjd, geomloss, torchcde, positional encodings, tabnet's layers, jaxtyping."""
    import torchcde
    import torchinfo
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, Variance
    from geomloss import SamplesLoss
    from jaxtyping import Float
    from positional_encodings.torch_encodings import PositionalEncoding1D, PositionalEncoding2D
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings
    from torchjd.aggregation import IMTLG, MGDA

    model = filled(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)))
    described = torchinfo.summary(model, (5, 4), verbose=0)
    extended, criterion = extend(model), extend(torch.nn.CrossEntropyLoss())
    with backpack(BatchGrad(), Variance()):
        criterion(extended(normal(5, 4)), integers(3, 5)).backward()
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(normal(2, 6, 3))
    network = filled(
        TabNetNoEmbeddings(6, 2, group_attention_matrix=torch.eye(6), n_d=4, n_a=4, virtual_batch_size=4)
    ).eval()
    samples: Float[torch.Tensor, "n d"] = normal(10, 2)  # noqa: F722
    jacobian = normal(3, 5)
    return {
        "parameters": float(described.total_params),
        "macs": float(described.total_mult_adds),
        "batch": model[0].weight.grad_batch,
        "variance": model[2].bias.variance,
        "sinkhorn": SamplesLoss("sinkhorn", p=2, blur=0.1)(samples, normal(10, 2, seed=1)),
        "mmd": SamplesLoss("gaussian", blur=0.5)(samples, normal(10, 2, seed=1)),
        "spline": torchcde.CubicSpline(coefficients).evaluate(torch.tensor(2.5)),
        "encoding": PositionalEncoding1D(6)(normal(2, 5, 6)),
        "encoding2": PositionalEncoding2D(8)(normal(2, 3, 4, 8)),
        "tabnet": network(normal(8, 6))[0],
        "mgda": MGDA()(jacobian),
        "imtlg": IMTLG()(jacobian),
    }


@program
def stable_baselines() -> dict[str, Any]:
    """PPO and DQN learn on an environment without draws; the losses are those of the policies on fixed states."""
    import gymnasium
    from stable_baselines3 import A2C, DQN, PPO

    class Line(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.step_count = 0
            return self._seen(), {}

        def _seen(self) -> Any:
            return numpy.array([numpy.sin(self.step_count), numpy.cos(self.step_count), 0.5], numpy.float32)

        def step(self, action: Any) -> Any:
            reward = float(action == self.step_count % 2)
            self.step_count += 1
            return self._seen(), reward, self.step_count >= 10, False, {}

    results = {}
    states = normal(5, 3).clamp(-1, 1)
    for kind, options in (
        (PPO, {"n_steps": 32, "batch_size": 16}),
        (A2C, {}),
        (DQN, {"learning_starts": 10, "train_freq": 4}),
    ):
        agent = kind("MlpPolicy", Line(), seed=0, device="cpu", policy_kwargs={"net_arch": [8]}, **options)
        filled(agent.policy)
        with torch.no_grad():
            if kind is DQN:
                results["dqn"] = agent.q_net(states)
            else:
                value, log_prob, entropy = agent.policy.evaluate_actions(states, torch.tensor([0, 1, 0, 1, 1]))
                results[kind.__name__] = [value, log_prob, entropy]
        agent.learn(64)
        results[f"{kind.__name__} learns"] = bool(
            all(
                torch.isfinite(value).all() for value in agent.policy.state_dict().values() if value.is_floating_point()
            )
        )
    return results


@program
def opacus() -> dict[str, Any]:
    """Gradients of each example, and a private step without noise."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    net = filled(
        torch.nn.Sequential(
            torch.nn.Conv1d(2, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Flatten(), torch.nn.Linear(24, 3)
        )
    )
    model = GradSampleModule(net)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=0.0, max_grad_norm=0.5, expected_batch_size=5
    )
    torch.nn.functional.cross_entropy(model(normal(5, 2, 8)), integers(3, 5)).backward()
    samples = [value.grad_sample for value in model.parameters()]
    optimizer.step()
    return {"samples": samples, "weight": net[0].weight.detach()}


@program
def open_clip() -> dict[str, Any]:
    """A CLIP of images and texts: losses of a few steps, features, similarity."""
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    vision = CLIPVisionCfg(layers=2, width=32, head_width=16, patch_size=8, image_size=32)
    model = filled(CLIP(16, vision, CLIPTextCfg(context_length=12, vocab_size=60, width=32, heads=2, layers=2)))
    images, texts, loss = normal(3, 3, 32, 32), integers(60, 3, 12, low=1), ClipLoss()

    def step() -> Any:
        image, text, scale = model(images, texts)
        return loss(image, text, scale)

    losses = trained(model.parameters(), step, 3)
    with torch.no_grad():
        return {"losses": losses, "image": model.encode_image(images), "text": model.encode_text(texts, normalize=True)}
