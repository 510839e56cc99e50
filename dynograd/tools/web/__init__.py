"""HTTP for `dynograd.serving`: routes, figures, KServe's tensors. It needs the extra `serve`, and is imported by `Service.app`."""
