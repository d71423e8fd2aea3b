"""The commands whose requests are recorded: name, words, and the files that they read."""

MASTER = ("--runtime-version=2.11", "--python-version=3.7", "--module-name=trainer.task")
PACKAGE = ("--packages=gs://stage-bkt/pkg/trainer-0.1.tar.gz",)
SUBMIT = ("ai-platform", "jobs", "submit", "training")
IMAGE = "registry.test/p/train:1"
POOL = f"machine-type=n1-standard-4,replica-count={{}},container-image-uri={IMAGE}"
REDUCER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
EIGHT_V100 = "machine-type=n1-highcpu-16,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=8"
EXECUTOR = (
    "python-module=trainer.task,"
    "executor-image-uri=us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-12.py310:latest"
)

FILES = {
    "job.yaml": """\
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-16
  masterConfig:
    acceleratorConfig: {count: 4, type: NVIDIA_TESLA_T4}
  workerType: n1-highcpu-16
  workerCount: 9
  workerConfig:
    acceleratorConfig: {count: 4, type: NVIDIA_TESLA_T4}
  parameterServerType: n1-highmem-8
  parameterServerCount: 3
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  pythonModule: trainer.task
  args: [--from-config, "1"]
  scheduling: {maxRunningTime: 7200s, maxWaitTime: 3600s, priority: 5}
""",
    "tuning.yaml": """\
trainingInput:
  scaleTier: BASIC
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  pythonModule: trainer.task
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 8
    maxParallelTrials: 2
    params:
    - {parameterName: lr, type: DOUBLE, minValue: 0.0001, maxValue: 0.1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: layers, type: INTEGER, minValue: 1, maxValue: 5}
    - {parameterName: opt, type: CATEGORICAL, categoricalValues: [adam, sgd]}
""",
    "unknown.yaml": "trainingInput: {scaleTier: BASIC, maxTrialsX: 8, goal: MAXIMISE}\n",
    "custom.yaml": """\
baseOutputDirectory: {outputUriPrefix: gs://out-bkt/out}
scheduling: {timeout: 86400s, restartJobOnWorkerRestart: true, strategy: SPOT}
serviceAccount: fromconfig@x.iam.gserviceaccount.com
workerPoolSpecs:
- containerSpec:
    imageUri: registry.test/p/train:1
    command: [python, -c, pass]
    args: ["--x", "1"]
    env: [{name: FOO, value: bar}]
  diskSpec: {bootDiskSizeGb: 200, bootDiskType: pd-ssd}
  machineSpec: {acceleratorCount: 4, acceleratorType: NVIDIA_TESLA_T4, machineType: n1-highcpu-16}
  replicaCount: 1
- containerSpec: {imageUri: "registry.test/p/train:1", command: [python, -c, pass]}
  machineSpec: {machineType: n1-highcpu-16}
  replicaCount: 9
""",
    "alone.yaml": """\
workerPoolSpecs:
  containerSpec: {imageUri: "registry.test/p/train:1", command: [python, -c], args: pass}
  machineSpec: {machineType: n1-standard-4}
  replicaCount: "1"
""",
    "study.yaml": """\
maxTrialCount: 6
parallelTrialCount: 2
studySpec:
  metrics: [{metricId: accuracy, goal: MAXIMIZE}]
  parameters:
  - parameterId: layers
    integerValueSpec: {minValue: 1, maxValue: 5}
    conditionalParameterSpecs:
    - parentIntValues: {values: [2]}
      parameterSpec: {parameterId: d, discreteValueSpec: {values: [0.1, 0.2]}}
  - {parameterId: opt, categoricalValueSpec: {values: [adam, sgd]}}
trialJobSpec:
  workerPoolSpecs:
  - containerSpec: {imageUri: "registry.test/p/train:1", command: [python, -c, pass]}
    machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
""",
}

COMMANDS = {
    "ml-submit-flags": (
        *SUBMIT, "j_flags", "--scale-tier=custom", "--master-machine-type=n1-highcpu-16",
        "--master-accelerator=count=4,type=nvidia-tesla-t4", "--worker-machine-type=n1-highcpu-16",
        "--worker-count=9", "--worker-accelerator=count=4,type=nvidia-tesla-t4",
        "--parameter-server-machine-type=n1-highmem-8", "--parameter-server-count=3",
        "--job-dir=gs://out-bkt/out/j_flags", "--labels=team=a,env=prod",
        "--use-chief-in-tf-config=true", "--service-account=sa@demo-proj.iam.gserviceaccount.com",
        "--enable-web-access", *MASTER, *PACKAGE, "--", "--epochs", "3", "--lr=0.1", "pos",
    ),
    "ml-submit-config": (*SUBMIT, "j_config", "--config=job.yaml", *PACKAGE),
    "ml-submit-config-and-flags": (
        *SUBMIT, "j_both", "--config=job.yaml", *PACKAGE, "--worker-count=2",
        "--worker-machine-type=n1-highcpu-16", "--", "--mine",
    ),
    "ml-submit-image": (
        *SUBMIT, "j_image", "--scale-tier=custom", "--master-machine-type=complex_model_m_gpu",
        f"--master-image-uri={IMAGE}", "--worker-machine-type=standard", "--worker-count=1",
        f"--worker-image-uri={IMAGE}", "--job-dir=gs://out-bkt/out/", "--", "--a", "b",
    ),
    "ml-submit-package": (
        *SUBMIT, "j_package", "--package-path=trainer", "--staging-bucket=gs://stage-bkt", *MASTER,
    ),
    "ml-submit-tuning": (*SUBMIT, "j_tuning", "--config=tuning.yaml", *PACKAGE),
    "ml-submit-unknown-field": (*SUBMIT, "j_unknown", "--config=unknown.yaml", *PACKAGE),
    "ml-engine-submit": ("ml-engine", *SUBMIT[1:], "j_older", *MASTER, *PACKAGE),
    "ml-list": ("ai-platform", "jobs", "list"),
    "ml-describe": ("ai-platform", "jobs", "describe", "j_flags"),
    "ml-cancel": ("ai-platform", "jobs", "cancel", "j_flags"),
    "ml-update": ("ai-platform", "jobs", "update", "j_flags", "--update-labels=b=2"),
    "ml-clear-labels": ("ai-platform", "jobs", "update", "j_flags", "--clear-labels"),
    "ai-create-one-pool": (
        "ai", "custom-jobs", "create", "--display-name=cj1", f"--worker-pool-spec={POOL.format(1)}",
        "--command=python,-c,pass",
    ),
    "ai-create-reduction": (
        "ai", "custom-jobs", "create", "--display-name=cj1", "--labels=a=b", "--enable-web-access",
        f"--worker-pool-spec={EIGHT_V100},container-image-uri={IMAGE}",
        f"--worker-pool-spec={EIGHT_V100},replica-count=4,container-image-uri={IMAGE}",
        f"--worker-pool-spec=machine-type=n1-highcpu-16,replica-count=4,container-image-uri={REDUCER}",
        "--command=python,/app/train.py", "--args=--epochs=3,--lr=0.1",
        "--network=projects/12345/global/networks/myVPC",
        "--service-account=sa@demo-proj.iam.gserviceaccount.com",
    ),
    "ai-create-empty-pool": (
        "ai", "custom-jobs", "create", "--display-name=cj1", f"--worker-pool-spec={POOL.format(1)}",
        "--worker-pool-spec=", f"--worker-pool-spec={POOL.format(2)}", "--command=python,-c,pass",
    ),
    "ai-create-package": (
        "ai", "custom-jobs", "create", "--display-name=cj1",
        f"--worker-pool-spec=machine-type=n1-standard-4,{EXECUTOR}",
        "--python-package-uris=gs://stage-bkt/a.tar.gz,gs://stage-bkt/b.tar.gz", "--args=x,y",
    ),
    "ai-create-config": (
        "ai", "custom-jobs", "create", "--display-name=cj1", "--config=custom.yaml",
    ),
    "ai-create-config-alone": (
        "ai", "custom-jobs", "create", "--display-name=cj1", "--config=alone.yaml",
    ),
    "ai-create-beta": (
        "beta", "ai", "custom-jobs", "create", "--display-name=cj1",
        f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c,pass",
    ),
    "ai-list": ("ai", "custom-jobs", "list"),
    "ai-describe": ("ai", "custom-jobs", "describe", "7"),
    "ai-cancel": ("ai", "custom-jobs", "cancel", "7"),
    "ai-tuning-create": (
        "ai", "hp-tuning-jobs", "create", "--display-name=hp1", "--config=study.yaml",
        "--algorithm=grid-search", "--labels=a=b",
    ),
    "ai-tuning-list": ("ai", "hp-tuning-jobs", "list"),
    "ai-tuning-describe": ("ai", "hp-tuning-jobs", "describe", "7"),
    "ai-operation": ("ai", "operations", "describe", "555"),
}  # fmt: skip
