"""What a host event means, told from its name: loading data, copying, synchronising, compiling...

Rules look at names that PyTorch, its ecosystem and the CUDA and HIP runtimes give; a user's own
function counts only where its name says plainly what it does (``save_checkpoint``).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import among, used
from whyidle.model.frames import INSTALLED
from whyidle.model.timeline import HostKind, Timeline

_FRAME = (HostKind.PYTHON, HostKind.ANNOTATION)
_ANY = tuple(HostKind)

_RULES: Final[dict[str, tuple[tuple[HostKind, ...], str]]] = {
    "loader": (
        _FRAME,
        r"^enumerate\(DataLoader\)#|^\[pl\].*dataloader_next|"
        r"dataloader\.py\(\d+\): __(next|iter)__|"
        r"^## (data_load|load_batch|wait_for_batch|wait_for_training_batch|next_batch) ##|"
        r"^(data ?loading|get_batch|next_batch|fetch_batch)$",
    ),
    "preprocess": (
        (HostKind.PYTHON,),
        rf"{INSTALLED}(torchvision/(transforms|io|datasets)/|PIL/|cv2/|albumentations/|librosa/|"
        r"torchaudio/|av/|decord/|imageio/|skimage/|tokenizers/|webdataset/|soundfile\.py|"
        r"transformers/.*(image_processing|image_transforms|feature_extraction|tokenization|"
        r"processing)_|transformers/image_(transforms|utils)|datasets/(arrow_dataset|"
        r"iterable_dataset|formatting/|features/|table))|"
        r"\): \w*(collate|preprocess|pre_process|tokenize|augment)(_\w+)?$|"
        r"\): (get|next|load|fetch)_batch$|"
        r"\): (load|read|decode|resize)_(image|video|audio|frame|jpeg|wav)s?(_\w+)?$|"
        r"<built-in method decode of (Imaging|Image)",
    ),
    "checkpoint": (
        _FRAME,
        r"torch/serialization\.py\(\d+\): (save|_save|_legacy_save)|: save_checkpoint$|"
        r": _?save_(pretrained|model|checkpoint|state_dict)$|safetensors/.*: save(_file)?$|"
        r"distributed/checkpoint/.*: (save|_save|dcp_save|async_save)|"
        r"^## ?checkpoint|^save_checkpoint",
    ),
    "evaluation": (
        _FRAME,
        r"^(?!.*(pydantic|jsonschema|marshmallow|generation/configuration)).*: (evaluate|validate|"
        r"validation_step|eval_epoch|run_evaluation|evaluation_loop)$|"
        r"^\[pl\].*(validation|val_step)|^## ?(eval|validation)|^(evaluation|validation)(#grad)?$",
    ),
    "logging": (
        _FRAME,
        rf"{INSTALLED}(wandb|torch/utils/tensorboard|tensorboardX|mlflow|comet_ml|neptune|aim/sdk|"
        r"matplotlib)/|^## ?metrics:publish|requests/api\.py|urllib3/connectionpool",
    ),
    "startup": ((HostKind.ANNOTATION,), r"^whyidle::startup$"),
    "after": ((HostKind.ANNOTATION,), r"^whyidle::after$"),
    "blocked": ((HostKind.PYTHON,), r"^whyidle::blocked$"),
    "locked": ((HostKind.PYTHON,), r"^whyidle::locked$"),
    "gc": (_ANY, r"^Python GC|^gc\.collect|<built-in function collect>|: collect_garbage"),
    "compile": (
        _ANY,
        r"^whyidle::compile|\(dynamo_timed\)|torch/_dynamo/(convert_frame|bytecode|symbolic|output_graph)|"
        r"torch/_inductor/(compile_fx|"
        r"graph|scheduler|codecache|async_compile)|triton/(compiler|runtime/build)|"
        r"^(cu|hip)Module(Load|Unload)|^cuLibraryLoad|^hipModuleLoad|^cuLink|"
        r"^(cudaEventElapsedTime|hipEventElapsedTime)|^cudaStreamCreate|^hipStreamCreate|"
        r"^Lazy Function Loading|^(cuda|hip)GraphInstantiate|^(cuda|hip)StreamEndCapture",
    ),
    "allocator": (
        (HostKind.RUNTIME, HostKind.PYTHON),
        r"^(cudaMalloc|cudaFree|hipMalloc|hipFree|cudaHostAlloc|cudaFreeHost|cudaMallocHost|"
        r"cudaHostRegister|cudaHostUnregister|hipHostMalloc|hipHostFree|cuMemCreate|cuMemMap|"
        r"cuMemUnmap|cuMemRelease|cuMemSetAccess|cuMemAddressReserve)(?!Async)|: empty_cache$|"
        r"<built-in function _cuda_emptyCache>",
    ),
    "collective_wait": (
        (HostKind.ANNOTATION, HostKind.OP, HostKind.PYTHON),
        r"^gloo:|^mpi:|^c10d::(barrier|monitored_barrier)|_wait ##$|wait\(\) ##$|"
        r"distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)|<built-in method wait of "
        r".*(Work|_distributed_c10d)",
    ),
    "collective_flight": ((HostKind.ANNOTATION, HostKind.OP), r"^(gloo|mpi|ucc):"),
    "sync": (
        (HostKind.RUNTIME,),
        r"^(cuda|hip|cu|emulated)(Device|Stream|Event|Ctx)Synchronize|"
        r"^(synchronize|.*Synchronize)$",
    ),
    "copy_call": ((HostKind.RUNTIME,), r"^(cuda|hip|cu)Memcpy"),
    "launch_call": (
        (HostKind.RUNTIME,),
        r"Launch(Cooperative)?Kernel|GraphLaunch|ModuleLaunch|^(cuda|hip|cu)(Memcpy|Memset)",
    ),
}
ROLES: Final = tuple(_RULES)
_COMPILED: Final = {role: (kinds, re.compile(text)) for role, (kinds, text) in _RULES.items()}


class Roles:
    """Finds host events by role; each name is matched once."""

    def __init__(self, timeline: Timeline) -> None:
        self._host = timeline.host
        self._names = timeline.names
        self._used = used(timeline.host.name)

    def rows(self, role: str) -> NDArray[np.int64]:
        """Rows of the host events that play a role."""
        kinds, pattern = _COMPILED[role]
        wanted = [i for i in self._used if pattern.search(self._names[i])]
        if not wanted:
            return np.empty(0, dtype=np.int64)
        named = among(self._host.name, wanted)
        return np.flatnonzero(named & among(self._host.kind, kinds))
