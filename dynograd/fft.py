"""Discrete Fourier transforms, under PyTorch's names (`torch.fft`).

>>> dynograd.fft.rfft(tensor([1.0, 0.0, 0.0, 0.0]))
tensor([1.+0.j, 1.+0.j, 1.+0.j])
"""

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.interpreter.out_forms import out_forms as _out_forms
from dynograd.ops.fft.ffts import fft_fft as fft
from dynograd.ops.fft.ffts import fft_fft2 as fft2
from dynograd.ops.fft.ffts import fft_fftn as fftn
from dynograd.ops.fft.ffts import fft_fftshift as fftshift
from dynograd.ops.fft.ffts import fft_hfft as hfft
from dynograd.ops.fft.ffts import fft_hfft2 as hfft2
from dynograd.ops.fft.ffts import fft_hfftn as hfftn
from dynograd.ops.fft.ffts import fft_ifft as ifft
from dynograd.ops.fft.ffts import fft_ifft2 as ifft2
from dynograd.ops.fft.ffts import fft_ifftn as ifftn
from dynograd.ops.fft.ffts import fft_ifftshift as ifftshift
from dynograd.ops.fft.ffts import fft_ihfft as ihfft
from dynograd.ops.fft.ffts import fft_ihfft2 as ihfft2
from dynograd.ops.fft.ffts import fft_ihfftn as ihfftn
from dynograd.ops.fft.ffts import fft_irfft as irfft
from dynograd.ops.fft.ffts import fft_irfft2 as irfft2
from dynograd.ops.fft.ffts import fft_irfftn as irfftn
from dynograd.ops.fft.ffts import fft_rfft as rfft
from dynograd.ops.fft.ffts import fft_rfft2 as rfft2
from dynograd.ops.fft.ffts import fft_rfftn as rfftn
from dynograd.tensor.window_functions import fftfreq, rfftfreq

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

globals().update(_out_forms({_name: globals()[_name] for _name in __all__}))

_show_plainly(globals())
