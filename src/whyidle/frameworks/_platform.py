"""Names in recordings of every framework: Python, libraries, device runtimes, collectives, and
whyidle's own marks."""

from __future__ import annotations

from typing import Final

from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role, Rule
from whyidle.model.timeline import HostKind

FRAME: Final = (HostKind.PYTHON, HostKind.ANNOTATION)
_PYTHON: Final = (HostKind.PYTHON,)
_RUNTIME: Final = (HostKind.RUNTIME,)
_MARK: Final = (HostKind.ANNOTATION,)
_ALLOCATING: Final = (HostKind.RUNTIME, HostKind.PYTHON)
_COLLECTIVE: Final = (HostKind.ANNOTATION, HostKind.OP)

_LIBRARIES: Final = (
    Rule(Role.LOADER_FRAME, rf"{INSTALLED}(grain|nvidia/dali)/"),
    Rule(Role.LOADER, rf"{INSTALLED}keras/src/trainers/data_adapters/\w+\.py", _PYTHON),
    Rule(Role.PREPROCESS, rf"{INSTALLED}torchvision/(transforms|io|datasets)/", _PYTHON),
    Rule(
        Role.PREPROCESS,
        rf"{INSTALLED}(PIL|cv2|albumentations|librosa|torchaudio|av|decord|imageio|skimage|"
        r"tokenizers|webdataset)/",
        _PYTHON,
    ),
    Rule(Role.PREPROCESS, rf"{INSTALLED}soundfile\.py", _PYTHON),
    Rule(
        Role.PREPROCESS,
        rf"{INSTALLED}transformers/(.*(image_processing|image_transforms|feature_extraction|"
        r"tokenization|processing)_|image_(transforms|utils))",
        _PYTHON,
    ),
    Rule(
        Role.PREPROCESS,
        rf"{INSTALLED}datasets/(arrow_dataset|iterable_dataset|formatting/|features/|table)",
        _PYTHON,
    ),
    Rule(
        Role.PREPROCESS,
        r"\): \w*(collate|preprocess|pre_process|tokenize|augment)(_\w+)?$",
        _PYTHON,
    ),
    Rule(Role.PREPROCESS, r"\): (get|next|load|fetch)_batch$", _PYTHON),
    Rule(
        Role.PREPROCESS,
        r"\): (load|read|decode|resize)_(image|video|audio|frame|jpeg|wav)s?(_\w+)?$",
        _PYTHON,
    ),
    Rule(Role.PREPROCESS, r"<built-in method decode of (Imaging|Image)", _PYTHON),
    Rule(Role.LOGGING, rf"{INSTALLED}(wandb|tensorboardX|mlflow|comet_ml|neptune)/", FRAME),
    Rule(Role.LOGGING, rf"{INSTALLED}(aim/sdk|matplotlib)/", FRAME),
    Rule(Role.LOGGING, r"^## ?metrics:publish|requests/api\.py|urllib3/connectionpool", FRAME),
    Rule(Role.TRACKER, rf"{INSTALLED}(tensorboardX|mlflow)/"),
    Rule(Role.TRACKER_SERVER, rf"{INSTALLED}mlflow/"),
    Rule(Role.HISTOGRAM, r": add_histogram(_raw)?$"),
    Rule(Role.PLOT, rf"{INSTALLED}matplotlib/"),
    Rule(
        Role.WORKER_START, r"multiprocessing/(process|context)\.py\(\d+\): (start|_Popen|__init__)$"
    ),
    Rule(Role.WORKER_START, r"multiprocessing/popen_\w+\.py\(\d+\): (start|_Popen|__init__)$"),
    Rule(
        Role.TRACER_FRAME,
        r"(^|[/;])(bdb|pdb|trace)\.py\(|/(pydevd|debugpy|coverage|hunter|viztracer)/",
    ),
    Rule(
        Role.PYTHON_PROFILER_FRAME, r"(^|[/;])(profile|cProfile)\.py\(|/(viztracer|yappi|scalene)/"
    ),
    Rule(
        Role.MODEL_LIBRARY_ATTENTION, r"(^|[/\\])transformers[/\\][^;]*: eager_attention_forward\b"
    ),
)
_PROGRAM: Final = (
    Rule(Role.LOADER, r"^## (data_load|load_batch|next_batch) ##", FRAME),
    Rule(Role.LOADER, r"^## (wait_for_batch|wait_for_training_batch) ##", FRAME),
    Rule(
        Role.LOADER,
        r"^(?i:data[_ ]?load(ing|er)?|(get|next|fetch|load)[_ ](next[_ ])?(batch|data))$",
        FRAME,
    ),
    Rule(Role.CHECKPOINT, r": save_checkpoint$|^## ?checkpoint|^save_checkpoint", FRAME),
    Rule(Role.CHECKPOINT, r": _?save_(pretrained|model|checkpoint|state_dict)$", FRAME),
    Rule(Role.CHECKPOINT, r"safetensors/.*: save(_file)?$", FRAME),
    Rule(
        Role.EVALUATION,
        r"^(?!.*(pydantic|jsonschema|marshmallow|generation/configuration)).*: (evaluate|validate|"
        r"validation_step|eval_epoch|run_evaluation|evaluation_loop)$",
        FRAME,
    ),
    Rule(Role.EVALUATION, r"^## ?(eval|validation)|^(evaluation|validation)(#grad)?$", FRAME),
    Rule(Role.EVALUATION_WHOLE, r"^evaluation$"),
    Rule(Role.EVALUATION_WITH_GRADIENTS, r"^evaluation#grad$"),
    Rule(Role.EVALUATION_BATCH, r"validation_step|val_step"),
    Rule(
        Role.TRAINING_STEP,
        r"(?i:run_training_batch|training_step$|^train_step\b|^train step|^step \d)",
    ),
    Rule(Role.TRAINING_STEP, r"(?i:^##? ?step|^iteration \d)|^step of "),
    Rule(Role.GC, r"^Python GC|^gc\.collect|<built-in function collect>|: collect_garbage"),
    Rule(Role.GC_CALL, r"gc\.collect|<built-in function collect>|: collect_garbage"),
)
_SERVING: Final = (
    Rule(Role.SERVING_STEP, r"^(?P<SGLang>step)\[", _MARK),
    Rule(
        Role.SERVING_STEP,
        r"^(?P<vLLM>execute_(\d+_)?(context|new)_\d|gpu_model_runner: prepro)",
        _MARK,
    ),
    Rule(Role.SERVING_STEP, r"^\[Executor\] (?P<TensorRT_LLM>_forward_step) ", _MARK),
    Rule(
        Role.SERVING_DECODE,
        r"^step\[(DECODE|TARGET_VERIFY|IDLE)|^execute_(\d+_)?(context|new)_0(?!\d)",
    ),
    Rule(Role.SERVING_DECODE, r"^\[Executor\] _forward_step \d+: 0 ctx"),
    Rule(
        Role.SERVING_PREFILL,
        r"^step\[(EXTEND|PREFILL|MIXED|SPLIT)|^execute_(\d+_)?(context|new)_[1-9]",
    ),
    Rule(Role.SERVING_PREFILL, r"^\[Executor\] _forward_step \d+: [1-9]\d* ctx"),
    Rule(Role.BENCHMARK, r"^\[param\|", _MARK),
    Rule(Role.BENCHMARK, r"torch/utils/benchmark/|triton/testing\.py\(\d+\): do_bench", _PYTHON),
)
_OWN_MARKS: Final = (
    Rule(Role.STEP_MARKED, r"^whyidle\.step$"),
    Rule(Role.STARTUP, r"^whyidle::startup$", _MARK),
    Rule(Role.AFTER, r"^whyidle::after$", _MARK),
    Rule(Role.BLOCKED, r"^whyidle::blocked$", _PYTHON),
    Rule(Role.LOCKED, r"^whyidle::locked$", _PYTHON),
    Rule(Role.SAMPLED, r"\(\d+\): |^whyidle::(blocked|locked|python)$"),
    Rule(Role.PROBE, r"^whyidle::"),
    Rule(Role.FRAMEWORK_MARK, r"^whyidle::"),
    Rule(Role.BACKWARD, r"^whyidle::backward$"),
    Rule(Role.OPTIMIZER_OPERATORS, r"^whyidle::optimizer$"),
    Rule(Role.COMPILE, r"^whyidle::compile"),
    Rule(Role.COMPILER, r"^whyidle::compile"),
    Rule(Role.RECOMPILE, r"^whyidle::compile again#"),
    Rule(Role.DEVICE_READ, r"Synchronize( \(Tensor\.\w+\))?$", _RUNTIME),
)
_DEVICES: Final = (
    Rule(Role.COMPILE, r"^(cu|hip)Module(Load|Unload)|^cuLibraryLoad|^hipModuleLoad|^cuLink"),
    Rule(Role.COMPILE, r"^(cudaEventElapsedTime|hipEventElapsedTime)"),
    Rule(Role.COMPILE, r"^(cuda|hip)StreamCreate|^Lazy Function Loading"),
    Rule(Role.COMPILE, r"^(cuda|hip)GraphInstantiate|^(cuda|hip)StreamEndCapture"),
    Rule(Role.COMPILE, r"triton/(compiler|runtime/build)"),
    Rule(Role.COMPILER, r"triton/(compiler|runtime)|GraphInstantiate"),
    Rule(Role.COMPILER_CALL, r"triton/(compiler|runtime/build)"),
    Rule(
        Role.ALLOCATOR,
        r"^(cudaMalloc|cudaFree|hipMalloc|hipFree|cudaHostAlloc|cudaFreeHost|cudaMallocHost|"
        r"cudaHostRegister|cudaHostUnregister|hipHostMalloc|hipHostFree|cuMemCreate|cuMemMap|"
        r"cuMemUnmap|cuMemRelease|cuMemSetAccess|cuMemAddressReserve)(?!Async)",
        _ALLOCATING,
    ),
    Rule(
        Role.DEVICE_ALLOCATION,
        r"^(cudaMalloc|cudaFree|hipMalloc|hipFree|cuMem(Create|Map|Unmap|Release|SetAccess))$",
    ),
    Rule(Role.DEVICE_FREE, r"^(cudaFree|hipFree|cuMemUnmap|cuMemRelease)"),
    Rule(Role.SYNC, r"^(cuda|hip|cu|emulated)(Device|Stream|Event|Ctx)Synchronize", _RUNTIME),
    Rule(Role.SYNC, r"^(synchronize|.*Synchronize)$", _RUNTIME),
    Rule(Role.COPY_CALL, r"^(cuda|hip|cu)Memcpy", _RUNTIME),
    Rule(Role.LAUNCH_CALL, r"Launch(Cooperative)?Kernel|GraphLaunch|ModuleLaunch", _RUNTIME),
    Rule(Role.LAUNCH_CALL, r"^(cuda|hip|cu)(Memcpy|Memset)", _RUNTIME),
    Rule(Role.KERNEL_LAUNCH, r"Launch(Cooperative)?Kernel|ModuleLaunch", _RUNTIME),
    Rule(Role.GRAPH_LAUNCH, r"^(cuda|hip|cu)GraphLaunch", _RUNTIME),
    Rule(Role.CAPTURE_BEGIN, r"^(cuda|hip|cu)StreamBeginCapture", _RUNTIME),
    Rule(Role.CAPTURE_END, r"^(cuda|hip|cu)StreamEndCapture", _RUNTIME),
)
_COLLECTIVES: Final = (
    Rule(Role.COLLECTIVE_WAIT, r"^gloo:|^mpi:", (*_COLLECTIVE, HostKind.PYTHON)),
    Rule(Role.COLLECTIVE_WAIT, r"_wait ##$|wait\(\) ##$", (*_COLLECTIVE, HostKind.PYTHON)),
    Rule(Role.COLLECTIVE_FLIGHT, r"^(gloo|mpi|ucc):", _COLLECTIVE),
    Rule(Role.COLLECTIVE_SPAN, r"^(nccl|rccl|gloo|mpi|ucc):"),
    Rule(Role.COLLECTIVE_CALL, r"^(nccl:|gloo:|mpi:)"),
    Rule(Role.GRADIENT_EXCHANGE, r"^(nccl|gloo):all_?reduce$"),
    Rule(Role.HOST_EXCHANGE, r"^gloo:(all_?reduce|all_?gather|reduce_?scatter|broadcast)"),
    Rule(Role.HOST_ALL_REDUCE, r"^gloo:all_?reduce$"),
)
_STANDARD: Final = r"lib/python3\.\d+t?/"
_LINES: Final = (
    Rule(Role.METRIC_CODE,
         rf"{INSTALLED}(torchmetrics|torcheval|evaluate|sacrebleu|rouge_score|pycocotools|seqeval|"
         r"bert_score|jiwer|ignite/metrics|skimage/metrics|sklearn/metrics|scipy/stats)"),
    Rule(Role.LOG_CODE,
         rf"{INSTALLED}(tensorboardX?|wandb|mlflow|comet_ml|neptune|aim|clearml|trackio|loguru|tqdm|"
         rf"rich)/|{INSTALLED}transformers/integrations/integration_utils\.py|"
         rf"{_STANDARD}logging/"),
    Rule(Role.DRAWING_CODE,
         rf"{INSTALLED}(matplotlib|plotly|seaborn|bokeh|pyrender|open3d|moviepy|imageio|PIL|"
         r"pytorch3d/renderer|torchvision/utils)"),
    Rule(Role.SIMULATION_CODE,
         rf"{INSTALLED}(gym|gymnasium|mujoco|dm_control|pybullet|pettingzoo|ale_py|procgen|shimmy|"
         r"brax)[/_]"),
    Rule(Role.SUBPROCESS_CODE, rf"{_STANDARD}subprocess\.py"),
    Rule(Role.FILE_CODE,
         rf"{_STANDARD}(json/(__init__\.py\(\d+\): dumps?$|encoder\.py)|csv\.py\(\d+\): write|"
         r"shutil\.py)"),
    Rule(Role.FILE_CODE, r"numpy/lib/.*npyio.*\(\d+\): save"),
    Rule(Role.DATA_CODE, rf"{INSTALLED}datasets/"),
    Rule(Role.MODEL_CODE, rf"{INSTALLED}(transformers/models/|keras/src/layers/)"),
    Rule(Role.LOSS_CODE, rf"{INSTALLED}(transformers/loss/|keras/src/losses/)"),
)  # fmt: skip
RULES: Final = (*_LIBRARIES, *_LINES, *_PROGRAM, *_SERVING, *_OWN_MARKS, *_DEVICES, *_COLLECTIVES)
