"""Programs that die of their age are told so; errors of other kinds are left alone."""

import pytest

from trainshed.model.advice import advice

#: As the libraries word them, with a part of the sentence.
AGED = {
    "ModuleNotFoundError: No module named 'tensorflow.contrib'": "TensorFlow 2.0",
    "AttributeError: module 'tensorflow' has no attribute 'contrib'": "TensorFlow 1.15",
    "AttributeError: module 'tensorflow' has no attribute 'logging'": "tf.logging is gone",
    "AttributeError: module 'tensorflow' has no attribute 'app'": "tf.app is gone",
    "AttributeError: module 'tensorflow' has no attribute 'Session'": "tf.compat.v1",
    "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'AdamOptimizer'": "tf.Adam",
    "AttributeError: module 'tensorflow' has no attribute 'estimator'": "TensorFlow 2.16",
    "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'SessionRunHook'": "2.0",
    "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'exponential_decay'": "2.0",
    "AttributeError: module 'keras.layers' has no attribute 'DenseFeatures'": "Keras 2",
    "NotImplementedError: Exception encountered when calling Lambda.call().": "Keras 2",
    "InvalidParameterError: The 'loss' parameter of SGDClassifier must be a str among {'log_loss', "
    "'hinge'}. Got 'log' instead.": "log_loss",
    "ModuleNotFoundError: No module named 'model'": "from trainer import model",
    "ModuleNotFoundError: No module named 'tensorflow.examples'": "tf.keras.datasets",
    "ModuleNotFoundError: No module named 'sklearn.externals.joblib'": "import joblib",
    "ImportError: cannot import name 'joblib' from 'sklearn.externals' (a/b.py)": "import joblib",
    "ModuleNotFoundError: No module named 'sklearn.cross_validation'": "model_selection",
    "ImportError: cannot import name 'Imputer' from 'sklearn.preprocessing'": "sklearn.impute",
    "TypeError: OneHotEncoder.__init__() got an unexpected keyword argument 'sparse'": "1.4",
    "AttributeError: 'DataFrame' object has no attribute 'append'": ".append is gone since pandas",
    "TypeError: read_csv() got an unexpected keyword argument 'error_bad_lines'": "on_bad_lines",
    "AttributeError: `np.float_` was removed in the NumPy 2.0 release.": "numpy<2",
    "AttributeError: module 'collections' has no attribute 'Mapping'": "collections.abc",
    "AttributeError: module 'inspect' has no attribute 'ArgSpec'": "inspect.ArgSpec is gone",
    "ModuleNotFoundError: No module named 'distutils'": "distutils is gone since Python 3.12",
    "ModuleNotFoundError: No module named 'pkg_resources'": "setuptools<81",
    "ModuleNotFoundError: No module named 'urllib2'": "Python 2",
    "NameError: name 'xrange' is not defined": "Python 2",
    "SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)?": "Python 2",
    "TypeError: Descriptors cannot be created directly.": "protobuf<=3.20",
    "ValueError: The filepath provided must end in `.keras` (Keras model format).": "Keras 2",
    "ModuleNotFoundError: No module named 'torch._six'": "older PyTorch",
}
#: One of several lines: what names the error is not what was written last.
NUMPY = [
    "AttributeError: module 'numpy' has no attribute 'float'.",
    "`np.float` was a deprecated alias for the builtin `float`.",
    "The aliases was originally deprecated in NumPy 1.20; for more details see:",
    "https://numpy.org/devdocs/release/1.20.0-notes.html#deprecations",
]


@pytest.mark.parametrize("line", AGED)
def test_an_error_of_age_says_what_is_gone_and_what_helps(line):
    assert AGED[line] in advice(["Traceback (most recent call last):", line])


def test_an_error_of_several_lines_is_found():
    assert "np.float is gone since NumPy 1.24" in advice(NUMPY)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: bad weights",
        "ModuleNotFoundError: No module named 'trainer.contrib'",
        "AttributeError: 'Model' object has no attribute 'append'",
        "NameError: name 'learning_rate' is not defined",
        "FileNotFoundError: [Errno 2] No such file or directory: 'gs://b/x'",
        "",
    ],
)
def test_other_errors_are_left_alone(line):
    assert advice([line]) == ""
