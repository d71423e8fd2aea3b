"""Import names of public Python packages that training programs use.

A missing module of this list comes from a package index, so the interpreter lacks a package.  Any
other missing module may be one of the user's own that was misspelled or left out of the package.
"""

from typing import Final

PUBLIC_MODULES: Final = frozenset(
    """
    absl accelerate aim albumentations allennlp altair apache_beam apex arviz astropy attr attrs
    audiomentations autogluon azure
    backoff bayes_opt bitsandbytes blosc bokeh boto3 botocore bs4
    catboost category_encoders certifi cffi chex cirq click clearml cloudml cloudpickle cloudstorage
    cohere comet_ml control cryptography cuda cudf cuml cupy cv2 cvxpy cython
    dash dask datasets dateutil deap deepspeed detectron2 dgl diffusers dill distrax distributed
    dm_control
    docker docopt duckdb
    easydict efficientnet einops evaluate elasticsearch emoji
    fairscale fairseq faiss fasttext fastai fastapi fastparquet featuretools filelock fire flair
    flash_attn flask flax fsspec ftfy
    gast gcsfs gensim geopandas ggplot gin google googleapiclient gpytorch gradio graphviz
    grpc gym gymnasium
    h5py haiku hdbscan hnswlib holoviews horovod httplib2 httpx huggingface_hub hydra hyperopt
    hypertune
    ignite imageio imageio_ffmpeg imblearn imgaug implicit ipykernel IPython
    jax jaxlib jaxtyping jieba jinja2 jiwer joblib jsonlines jsonschema jupyter
    kaggle keras keras_cv keras_nlp keras_tuner kfp kornia kubernetes
    langchain langdetect librosa lightfm lightgbm lightning lightning_fabric lime llama_cpp llvmlite
    loguru lxml lz4
    magenta markdown matplotlib mediapipe mlflow ml_collections ml_dtypes mmcv mmdet mne modin
    monai more_itertools mpi4py msgpack mujoco mxnet
    neptune networkx nibabel nltk nni numba numexpr numpy nvidia
    oauth2client omegaconf onnx onnxruntime open3d open_clip openai opencensus opt_einsum optax
    optuna orbax orjson ortools
    pandas pandas_gbq patsy peewee peft PIL pinecone plotly pmdarima polars prefect prettytable
    prophet psutil psycopg2 py4j pyarrow pyasn1 pycocotools pydantic pydicom pydot pydub pygame
    pymongo pymysql pynvml pyproj pyro pyspark pytest pytorch_lightning pytorch_metric_learning pytz
    pywt pyxlsb
    qdrant_client
    rasterio ray rdkit redis regex requests rich rouge rouge_score ruamel
    s3fs sacrebleu sacred safetensors scikitplot scipy seaborn segmentation_models
    segmentation_models_pytorch sentence_transformers sentencepiece seqeval shap shapely simplejson
    SimpleITK skimage sklearn sklearn_crfsuite skopt snowflake sonnet soundfile spacy
    speechbrain sqlalchemy stable_baselines3 statsmodels streamlit surprise swifter sympy
    tables tabulate tenacity tensorboard tensorboardX tensorboard_data_server tensorflow
    tensorflow_addons tensorflow_data_validation tensorflow_datasets tensorflow_decision_forests
    tensorflow_federated tensorflow_hub tensorflow_io tensorflow_model_analysis
    tensorflow_model_optimization tensorflow_probability tensorflow_recommenders
    tensorflow_serving tensorflow_text tensorflow_transform tensorstore tensorpack termcolor
    textblob tf2onnx tf_agents tf_keras tf_slim tfx theano thinc tiktoken tifffile timm tokenizers
    toml tomli torch torch_cluster torch_geometric torch_scatter torch_sparse torch_xla
    torchaudio torchdata torchmetrics torchsummary torchtune torchvision torchviz tornado tqdm
    transformers trl triton trimesh trax
    ujson ultralytics umap unidecode unsloth
    vaex visdom vllm voluptuous
    wandb warprnnt webdataset whisper wordcloud
    xarray xformers xgboost xlrd xlsxwriter
    yacs yaml yfinance
    zarr zmq zstandard
    """.split()  # noqa: SIM905 - a list of 350 quoted names is harder to read and to sort
)

#: Parents that packages of several distributions share: one may be installed without another.
NAMESPACES: Final = frozenset({"azure", "google", "nvidia", "ruamel"})
