"""The error lines of programs that Trainshed recognizes, each with advice."""

from typing import Final, NamedTuple


class KnownError(NamedTuple):
    error: str
    """A pattern that matches the line of the error."""
    advice: str
    """A sentence for users; ``{0}`` is the pattern's first group that matched."""


# The messages of frameworks for a full GPU memory or a failed GPU.
#
# XLA and TensorFlow have nearly the same message for a full memory of the host, so a message counts
# only if it names the GPU or is a sentence for GPUs alone.  A fault of the device is named only if
# CUDA itself reports it: a launch that failed (``unspecified launch failure``) is mostly a mistake
# in the program.

_FULL: Final = "the GPU's memory was full"
_GPU_HELP: Final = (
    "a smaller batch, mixed precision, gradient accumulation or checkpointing, or a type of GPU "
    "with more memory helps"
)
_NOT_THE_PROGRAM: Final = "the GPU failed, not the program; trainshed nodes shows its state"

#: The first match counts, so patterns with the requested amount come first.
GPU_ERRORS: Final[tuple[KnownError, ...]] = (
    KnownError(
        r"CUDA out of memory\. Tried to allocate ([\d.]+ [KMGT]?i?B)|"
        r"Out of memory while trying to allocate ([\d.,]+ ?[KMGT]?i?[Bb](?:ytes)?)|"
        r"cupy\.cuda\.memory\.OutOfMemoryError: Out of memory allocating ([\d,]+ bytes)",
        f"{_FULL} when {{0}} more were asked for: {_GPU_HELP}",
    ),
    KnownError(
        r"OOM when allocating tensor with shape(\[[\d,]*\]).*device:GPU:",
        f"{_FULL} when a tensor of shape {{0}} was asked for: {_GPU_HELP}",
    ),
    KnownError(
        r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
        r"cudaErrorMemoryAllocation|torch(?:\.cuda)?\.OutOfMemoryError",
        f"{_FULL}: {_GPU_HELP}",
    ),
    KnownError(
        r"uncorrectable ECC error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        f"the GPU's memory has an uncorrectable ECC error: {_NOT_THE_PROGRAM}",
    ),
    KnownError(
        r"uncorrectable NVLink error|cudaErrorNvlinkUncorrectable|"
        r"CUDA_ERROR_NVLINK_UNCORRECTABLE",
        f"the GPU's NVLink has an uncorrectable error: {_NOT_THE_PROGRAM}",
    ),
    KnownError(r"\bGPU is lost\b", f"the driver lost the GPU: {_NOT_THE_PROGRAM}"),
)

# The messages of programs that cannot listen because their port is in use.
#
# gRPC does not name the reason in its last line; the usual reason is a port in use.

_PORT_HELP: Final = (
    "listen on port 0, or on the ports that MASTER_PORT and TF_CONFIG name; where jobs have "
    "networks of their own, the label trainshed-network=replica gives each replica every port"
)

#: The first match counts, so patterns with the port come first.
PORT_ERRORS: Final[tuple[KnownError, ...]] = (
    KnownError(
        r"while attempting to bind on address \([^)]*?, (\d+)[,)]|"
        r"failed to listen on any local network address\. port: (\d+).*EADDRINUSE|"
        r":(\d+) \(errno: 98 - Address already in use\)|"
        r"Failed to add port to server: No address added .*:(\d+)'|"
        r"Failed to bind to address \S*?:(\d+);|"
        r"trying to start at \S+, but is already running at \S+?:(\d+)\.|"
        r":(\d+): bind: [Aa]ddress already in use",
        f"the port {{0}} is in use by another process: {_PORT_HELP}",
    ),
    KnownError(
        r"[Aa]ddress already in use|\bEADDRINUSE\b|Could not start gRPC server",
        f"a port is in use by another process: {_PORT_HELP}",
    ),
)

# Names that libraries removed after a program was written, with the error that follows.
#
# Old trainers fail with an error that does not name the cause: ``module 'tensorflow' has no
# attribute 'contrib'``.  The advice names the version that removed the name, and a remedy.
# Versions are those of the libraries' own release notes.

_TF1: Final = "use a container of TensorFlow 1.15, or tf.compat.v1"
_TF_OF = r"module 'tensorflow(?:\.[\w.]+)?' has no attribute "
_NO = r"No module named "
_PYTHON_2: Final = "this is Python 2: use a container that has it, or convert the program with 2to3"

#: The first match counts.
REMOVED: Final[tuple[KnownError, ...]] = (
    KnownError(
        rf"{_NO}'tensorflow\.contrib|{_TF_OF}'contrib'",
        f"tf.contrib is gone since TensorFlow 2.0: {_TF1} and tf_slim, tensorflow-addons",
    ),
    KnownError(
        rf"{_NO}'tensorflow\.examples",
        "tensorflow.examples is gone since TensorFlow 2.0: use tf.keras.datasets",
    ),
    KnownError(
        rf"{_NO}'tensorflow_estimator|{_NO}'tensorflow\.(?:python\.)?estimator|{_TF_OF}'estimator'",
        "tf.estimator is gone since TensorFlow 2.16: use a container or an environment of "
        "TensorFlow 2.15 or older",
    ),
    KnownError(
        rf"{_TF_OF}'(SessionRunHook|SessionRunArgs|exponential_decay|get_or_create_global_step|"
        r"NanTensorHook|LoggingTensorHook|Scaffold|replica_device_setter)'",
        f"tf.train.{{0}} is gone since TensorFlow 2.0: {_TF1}",
    ),
    KnownError(
        rf"{_TF_OF}'(logging|app|flags|Session|placeholder|GraphKeys|gfile|get_variable|"
        r"global_variables_initializer|ConfigProto|reset_default_graph|set_random_seed|"
        r"log|to_float|FixedLenFeature|parse_example|read_file|python_io|"
        r"AdamOptimizer|GradientDescentOptimizer|MonitoredTrainingSession|Server)'",
        f"tf.{{0}} is gone since TensorFlow 2.0: {_TF1}",
    ),
    KnownError(
        rf"{_TF_OF}'(?:wrappers|scikit_learn)'|{_NO}'(?:tensorflow\.)?keras\.wrappers",
        "the scikit-learn wrappers are gone since Keras 2.12: use scikeras",
    ),
    KnownError(
        rf"{_NO}'keras\.(?:utils\.np_utils|layers\.(?:core|convolutional|normalization)|"
        r"optimizers\.legacy|preprocessing\.image)|Only instances of `keras\.Layer` can be|"
        r"The filepath provided must end in `\.keras`|Invalid filepath extension for saving|"
        r"^ValueError: Argument\(s\) not recognized: \{'(?:lr|decay)'|"
        r"is not supported with the Keras 3|"
        r"has no attribute '(?:DenseFeatures|export_saved_model)'|"
        r"^NotImplementedError: Exception encountered when calling Lambda\.call\(\)",
        "the program is written for Keras 2: set TF_USE_LEGACY_KERAS=1 where tf-keras is "
        "installed, or use an environment of TensorFlow 2.15 or older",
    ),
    KnownError(
        r"sklearn\.externals",
        "sklearn.externals is gone since scikit-learn 0.23: import joblib (or six) itself",
    ),
    KnownError(
        rf"{_NO}'sklearn\.(?:cross_validation|grid_search|learning_curve)'",
        "this module is gone since scikit-learn 0.20: its content is in sklearn.model_selection",
    ),
    KnownError(
        r"cannot import name 'Imputer' from 'sklearn\.preprocessing'|"
        rf"{_NO}'sklearn\.preprocessing\.(?:imputation|label|data)",
        "this name is gone since scikit-learn 0.22: use SimpleImputer of sklearn.impute",
    ),
    KnownError(
        r"The 'loss' parameter of \w+ must be a str among \{.*'log_loss'.* Got 'log' instead",
        "the loss 'log' is gone since scikit-learn 1.3: it is log_loss",
    ),
    KnownError(
        r"OneHotEncoder\.__init__\(\) got an unexpected keyword argument 'sparse'",
        "sparse is gone since scikit-learn 1.4: it is sparse_output",
    ),
    KnownError(
        r"module 'numpy' has no attribute '(float|int|bool|object|str|complex|long|unicode)'",
        "np.{0} is gone since NumPy 1.24: use {0} itself, or NumPy older than 1.24",
    ),
    KnownError(
        r"`?np\.(\w+)`? was removed in the NumPy 2\.0 release|compiled using NumPy 1\.x cannot",
        "the program is written for NumPy 1: ask for numpy<2",
    ),
    KnownError(
        r"'(?:DataFrame|Series)' object has no attribute '(append|ix|iteritems|as_matrix)'",
        ".{0} is gone since pandas 2.0 (ix and as_matrix since 1.0): use concat, loc, items, "
        "to_numpy, or an older pandas",
    ),
    KnownError(
        r"unexpected keyword argument '(error_bad_lines|warn_bad_lines|squeeze|line_terminator)'",
        "{0} is gone since pandas 2.0: see on_bad_lines, or use an older pandas",
    ),
    KnownError(
        rf"{_NO}'sklearn\.utils\.linear_assignment_",
        "this module is gone since scikit-learn 0.23: use scipy.optimize.linear_sum_assignment",
    ),
    KnownError(
        rf"{_NO}'(scipy\.misc)|"
        r"cannot import name '(?:imread|imresize|imsave|logsumexp)' from 'scipy\.misc'",
        "this name is gone since SciPy 1.3: use imageio or scipy.special",
    ),
    KnownError(
        r"module 'collections' has no attribute '(\w+)'|"
        r"cannot import name '(?:Mapping|MutableMapping|Sequence|Iterable|Callable|OrderedDict)' "
        r"from 'collections'",
        "collections has no abstract classes since Python 3.10: import them from "
        "collections.abc, or use an older Python",
    ),
    KnownError(
        r"module 'time' has no attribute 'clock'",
        "time.clock is gone since Python 3.8: use time.perf_counter",
    ),
    KnownError(
        r"module 'inspect' has no attribute '(ArgSpec|getargspec|formatargspec)'",
        "inspect.{0} is gone since Python 3.11: use an older Python, or a newer version of the "
        "library that uses it",
    ),
    KnownError(
        rf"{_NO}'(distutils|imp|asynchat|asyncore)(?:\.|')",
        "{0} is gone since Python 3.12: use an older Python, or install setuptools for distutils",
    ),
    KnownError(
        rf"{_NO}'pkg_resources'",
        "pkg_resources comes with setuptools, which new environments do not contain: "
        "require setuptools<81 in setup.py",
    ),
    KnownError(
        rf"{_NO}'(?:urllib2|urlparse|ConfigParser|StringIO|cPickle|Queue|httplib|commands|"
        r"__builtin__|HTMLParser|Tkinter|cStringIO)'|"
        r"Missing parentheses in call to '(?:print|exec)'|"
        r"^NameError: name '(?:xrange|unicode|raw_input|basestring|unichr|reduce|long)' is not|"
        r"'dict' object has no attribute '(?:iteritems|has_key|itervalues|iterkeys)'|"
        r"^TabError: |multiple exception types must be parenthesized",
        _PYTHON_2,
    ),
    KnownError(
        rf"^ModuleNotFoundError: {_NO}'(models?|inputs?|input_\w+|utils?|metadata|featurizer|"
        r"constants|config|data|dataset|preprocess|hyperparameters?)'$",
        "Python 2 found {0}.py beside the module that imports it: write from trainer import {0}, "
        "with the name of your package",
    ),
    KnownError(
        r"^TypeError: Descriptors cannot (?:not )?be created directly",
        "the generated code is older than the installed protobuf: ask for protobuf<=3.20",
    ),
    KnownError(
        r"cannot import name 'AdamW' from 'transformers",
        "transformers no longer has AdamW: use torch.optim.AdamW, or an older transformers",
    ),
    KnownError(
        r"cannot import name 'load_dataset' from 'transformers",
        "transformers has no load_dataset: import it from the package datasets",
    ),
    KnownError(
        r"cannot import name 'TFTrainer' from 'transformers",
        "transformers no longer has TFTrainer: use fit of Keras, or an older transformers",
    ),
    KnownError(
        r"^_pickle\.UnpicklingError: Weights only load failed",
        "torch.load reads only weights since PyTorch 2.6: pass weights_only=False for files that "
        "you trust",
    ),
    KnownError(
        rf"{_NO}'torch\._six'|{_NO}'torchtext\.legacy|{_NO}'torchtext'",
        "this module is gone (torch._six since PyTorch 2.0; torchtext has ended): use an older "
        "PyTorch",
    ),
)
