"""The program that the trials of these tests run, with Google's own cloudml-hypertune inside.

It says what it was told, and reports for three steps: ``accuracy`` is ``x`` times the step, and
``loss`` is 10 less than that.  ``--then`` is no parameter of a study: it says how a trial behaves.
The one that reports late does so for the trial before it, whose file is noted in ``--note``; behind
walls that file is not there for it.
"""

TRAINER = """\
import json, os, sys, time
import hypertune

words = sys.argv[1:]
told = dict(zip((word.lstrip("-") for word in words[::2]), words[1::2]))
print("told", json.dumps(told), flush=True)
then = told.get("then")
if then == "fail":
    sys.exit(3)
tuner = hypertune.HyperTune()
for step in (1, 2, 3):
    value = float(told["x"]) * step
    if then == "nan" and step == 3:
        value = float("nan")
    names = ("acc", "err") if then == "misspell" else ("accuracy", "loss")
    tuner.report_hyperparameter_tuning_metric(names[0], value, step)
    tuner.report_hyperparameter_tuning_metric(names[1], 10 - value, step)
    time.sleep(0.02)
if then == "hang" or (then == "hang-above-3" and float(told["x"]) > 3):
    time.sleep(600)
if then == "report-late":
    mine = os.environ["CLOUD_ML_HP_METRIC_FILE"]
    if os.path.exists(told["note"]):
        with open(told["note"]) as note:
            os.environ["CLOUD_ML_HP_METRIC_FILE"] = note.read()
        try:
            hypertune.HyperTune().report_hyperparameter_tuning_metric("accuracy", 99.0, 4)
        except OSError:
            print("refused", flush=True)
    with open(told["note"], "w") as note:
        note.write(mine)
print("trained", flush=True)
"""
IMAGE = "registry.test/p/img:1"
