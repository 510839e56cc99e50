"""torchvision: models, transforms, feature extraction, and the operators that it has in C++ (nms, roi_align, deform_conv2d, ...)."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torchvision import ops
from torchvision.transforms import v2

from packages.values import filled, integers, normal, program, trained


@program
def classifiers() -> dict[str, Any]:
    results = {}
    for name in ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5"):
        model, image = filled(getattr(torchvision.models, name)(num_classes=4)).eval(), normal(2, 3, 64, 64)
        losses = trained(model.parameters(), lambda: model(image).square().mean(), 2, lr=1e-3)
        with torch.no_grad():
            results[name] = {"losses": losses, "out": model(image)}
    return results


@program
def segmentation() -> dict[str, Any]:
    model = filled(
        torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    ).eval()
    with torch.no_grad():
        return {"out": model(normal(1, 3, 64, 64))["out"]}


@program
def transforms() -> dict[str, Any]:
    image = torch.from_numpy(integers(256, 3, 40, 50).numpy().astype("uint8"))
    chain = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Resize((24, 32), antialias=True),
            v2.CenterCrop(20),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    boxes = torchvision.tv_tensors.BoundingBoxes([[1.0, 2.0, 10.0, 12.0]], format="XYXY", canvas_size=(40, 50))
    flipped, moved = v2.functional.horizontal_flip(image), v2.functional.horizontal_flip(boxes)
    return {
        "chain": chain(image),
        "flipped": flipped.float(),
        "boxes": torch.as_tensor(moved),
        "rotated": v2.functional.rotate(image, 30.0).float(),
        "gray": v2.functional.rgb_to_grayscale(image).float(),
        "jitter": v2.functional.adjust_hue(image.float() / 255, 0.1),
        "blur": v2.functional.gaussian_blur(image.float(), [5, 5]),
        "crop": v2.functional.resized_crop(image.float(), 3, 4, 20, 20, [8, 8], antialias=True),
    }


@program
def detection_parts() -> dict[str, Any]:
    """Parts of detectors that are Python: box arithmetic, losses, anchors, generalized overlap."""
    corners = normal(6, 4).abs().cumsum(1)
    boxes = torch.cat([corners[:, :2], corners[:, :2] + 1 + corners[:, 2:]], 1)
    other = boxes.flip(0) + 0.5
    anchors = torchvision.models.detection.anchor_utils.AnchorGenerator(((16, 32),), ((0.5, 1.0),))
    images = torchvision.models.detection.image_list.ImageList(normal(1, 3, 32, 32), [(32, 32)])
    return {
        "iou": ops.box_iou(boxes, other),
        "giou": ops.generalized_box_iou(boxes, other),
        "area": ops.box_area(boxes),
        "converted": ops.box_convert(boxes, "xyxy", "cxcywh"),
        "focal": ops.sigmoid_focal_loss(normal(5), torch.ones(5), reduction="mean"),
        "giou_loss": ops.generalized_box_iou_loss(boxes, other),
        "anchors": anchors(images, [normal(1, 4, 4, 4)])[0],
        "fpn": list(
            filled(ops.FeaturePyramidNetwork([4, 8], 6))({"a": normal(1, 4, 8, 8), "b": normal(1, 8, 4, 4)}).values()
        ),
    }
