"""diffusers: UNets, autoencoders, transformers, schedulers and a pipeline."""

from __future__ import annotations

import tempfile
from typing import Any

import diffusers
import numpy
import torch

from packages.values import filled, integers, normal, program, trained


def _unet() -> Any:
    return diffusers.UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )


@program
def unet() -> dict[str, Any]:
    model, scheduler = filled(_unet()), diffusers.DDPMScheduler(num_train_timesteps=50)
    clean, noise, times = normal(2, 3, 16, 16), normal(2, 3, 16, 16, seed=1), integers(50, 2)
    noisy = scheduler.add_noise(clean, noise, times)
    losses = trained(
        model.parameters(),
        lambda: torch.nn.functional.mse_loss(model(noisy, times).sample, noise),
        3,
        torch.optim.AdamW(model.parameters(), 1e-3),
    )
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        out = model(noisy, times).sample
        model.save_pretrained(folder)
        loaded = diffusers.UNet2DModel.from_pretrained(folder).eval()
        same = bool(torch.allclose(loaded(noisy, times).sample, out, atol=1e-5))
    return {"losses": losses, "out": out, "loaded": same}


@program
def conditional_unet() -> dict[str, Any]:
    model = filled(
        diffusers.UNet2DConditionModel(
            sample_size=8,
            in_channels=4,
            out_channels=4,
            layers_per_block=1,
            block_out_channels=(16, 32),
            norm_num_groups=8,
            cross_attention_dim=16,
            attention_head_dim=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        )
    )
    x, text = normal(2, 4, 8, 8), normal(2, 5, 16)
    losses = trained(model.parameters(), lambda: model(x, 3, text).sample.square().mean(), 2)
    with torch.no_grad():
        return {"losses": losses, "out": model(x, 7, text).sample}


@program
def autoencoder() -> dict[str, Any]:
    model = filled(
        diffusers.AutoencoderKL(
            block_out_channels=(8, 16),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            norm_num_groups=4,
            latent_channels=4,
        )
    )
    image = normal(1, 3, 16, 16)
    losses = trained(model.parameters(), lambda: (model(image).sample - image).square().mean(), 2, lr=1e-3)
    with torch.no_grad():
        return {"losses": losses, "mean": model.encode(image).latent_dist.mean, "out": model(image).sample}


@program
def transformer() -> dict[str, Any]:
    model = filled(
        diffusers.DiTTransformer2DModel(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            num_layers=2,
            sample_size=8,
            patch_size=2,
            norm_type="ada_norm_zero",
            num_embeds_ada_norm=10,
        )
    ).eval()
    with torch.no_grad():
        return {"out": model(normal(2, 4, 8, 8), integers(50, 2), integers(10, 2)).sample}


@program
def schedulers() -> dict[str, Any]:
    """Samplers without draws, from a fixed model."""
    results = {}
    for name in "DDIM PNDM EulerDiscrete DPMSolverMultistep HeunDiscrete LMSDiscrete UniPCMultistep DEISMultistep FlowMatchEulerDiscrete".split():
        scheduler = getattr(diffusers, f"{name}Scheduler")()
        scheduler.set_timesteps(8)
        x = normal(1, 3, 4, 4) * getattr(scheduler, "init_noise_sigma", 1.0)
        for time in scheduler.timesteps:
            scaled = scheduler.scale_model_input(x, time) if hasattr(scheduler, "scale_model_input") else x
            x = scheduler.step(0.1 * scaled, time, x).prev_sample
        results[name] = x
    return results


@program
def pipeline() -> dict[str, Any]:
    pipe = diffusers.DDIMPipeline(filled(_unet()).eval(), diffusers.DDIMScheduler(num_train_timesteps=50))
    pipe.set_progress_bar_config(disable=True)

    unet = pipe.unet
    with torch.no_grad():
        x = normal(1, 3, 16, 16)
        pipe.scheduler.set_timesteps(4)
        for time in pipe.scheduler.timesteps:
            x = pipe.scheduler.step(unet(x, time).sample, time, x).prev_sample
    pictures = pipe(batch_size=1, num_inference_steps=2, output_type="np").images
    return {"x": x, "shape": list(numpy.shape(pictures)), "drawn": float(pictures.min()) >= 0.0}
