"""The description of a service: an OpenAPI document, and a page of it that needs nothing from elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from dynograd.version import __version__

if TYPE_CHECKING:
    from dynograd.tools.serving.service import Service

__all__ = ["document", "page"]

_JSON = {"content": {"application/json": {"schema": {}}}}
_ERRORS = {
    "400": "the request cannot be read, or is too long",
    "401": "no or another API key",
    "404": "no such model or version",
    "413": "the body is too large",
    "429": "the queue is full; Retry-After says when to ask again",
    "500": "the model's program failed",
    "503": "the service is closing",
    "504": "the deadline passed",
}


def document(service: Service) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, Any] = {
        "/healthz": {"get": _call("The process is alive", key=False)},
        "/readyz": {"get": _call("Requests are taken", key=False)},
        "/metrics": {"get": _call("Figures in Prometheus' text format", key=False)},
        "/v2": {"get": _call("Name, version and extensions of the server")},
        "/v2/health/live": {"get": _call("The process is alive", key=False)},
        "/v2/health/ready": {"get": _call("Requests are taken", key=False)},
    }
    for model in service.all_models:
        own, other = f"/{model.name}/versions/{model.version}", f"/v2/models/{model.name}/versions/{model.version}"
        answer = "Values as server-sent events" if model.is_stream else "An answer as JSON"
        call = _call(f"{answer} for an example as JSON", body=True)
        if model.is_stream:
            call["responses"]["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        paths[own] = {"post": call}
        paths[other] = {"get": _call("Inputs and outputs of the model")}
        paths[other + "/ready"] = {"get": _call("The model takes requests")}
        paths[other + "/infer"] = {"post": _call("Inference with tensors, KServe protocol 2", body=True)}
        if service.model(model.name) is model:
            paths |= {
                path.replace(f"/versions/{model.version}", ""): paths[path]
                for path in list(paths)
                if own in path or other in path
            }
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dynograd", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes} if service.api_key is not None else {},
    }


def _call(summary: str, body: bool = False, key: bool = True) -> dict[str, Any]:
    call: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "the answer"}}}
    if body:
        call["requestBody"] = {"required": True, **_JSON}
        call["parameters"] = [
            {
                "name": "X-Request-Timeout",
                "in": "header",
                "description": "seconds after which the answer is not wanted any more",
                "schema": {"type": "number"},
            }
        ]
        call["responses"] |= {code: {"description": text} for code, text in _ERRORS.items()}
    if key:
        call["security"] = [{"bearer": []}, {}]
    return call


def page(service: Service) -> str:
    """The document as a table."""
    rows = "".join(
        f"<tr><td>{method.upper()}</td><td><code>{html.escape(path)}</code></td><td>{html.escape(call['summary'])}</td></tr>"
        for path, methods in document(service)["paths"].items()
        for method, call in methods.items()
    )
    return (
        '<!doctype html><meta charset="utf-8"><title>dynograd</title><style>body{font:16px sans-serif;margin:2em}td{padding:.2em 1em}</style>'
        f'<h1>This service</h1><p><a href="openapi.json">openapi.json</a></p><table>{rows}</table>'
    )
