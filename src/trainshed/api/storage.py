"""The storage API's routes: enough of Cloud Storage for gcloud, the SDK and its Python clients."""

from collections.abc import Sequence

from trainshed.api.call import RawMethod
from trainshed.api.storage_access import BucketAccess
from trainshed.api.storage_buckets import (
    change_bucket,
    create_bucket,
    delete_bucket,
    get_bucket,
    list_buckets,
)
from trainshed.api.storage_call import Handler, blocking, method
from trainshed.api.storage_objects import (
    act,
    delete_object,
    download,
    get_object,
    list_objects,
    patch_object,
    update_object,
)
from trainshed.api.storage_uploads import cancel_upload, continue_upload, upload
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.store.opening import Store

_BUCKETS = "/storage/v1/b"
_BUCKET = "/storage/v1/b/{bucket}"
_OBJECTS = "/storage/v1/b/{bucket}/o"
_OBJECT = "/storage/v1/b/{bucket}/o/{name:path}"

TABLE: Sequence[tuple[str, str, Handler]] = (
    ("GET", _BUCKETS, blocking(list_buckets)),
    ("POST", _BUCKETS, blocking(create_bucket)),
    ("GET", _BUCKET, blocking(get_bucket)),
    ("DELETE", _BUCKET, blocking(delete_bucket)),
    ("PATCH", _BUCKET, blocking(change_bucket)),
    ("PUT", _BUCKET, blocking(change_bucket)),
    ("GET", _OBJECTS, blocking(list_objects)),
    ("GET", _OBJECT, blocking(get_object)),
    ("PATCH", _OBJECT, blocking(patch_object)),
    ("PUT", _OBJECT, blocking(update_object)),
    ("DELETE", _OBJECT, blocking(delete_object)),
    ("POST", _OBJECT, blocking(act)),
    ("GET", f"/download{_OBJECT}", blocking(download)),
    # gcloud begins large uploads at a path of its own (contracts/gcloud.md 4)
    *((verb, f"{root}{_OBJECTS}", handle)
      for root in ("/upload", "/resumable/upload")
      for verb, handle in (
          ("POST", upload), ("PUT", continue_upload), ("DELETE", blocking(cancel_upload)),
      )),
)  # fmt: skip


def storage_routes(objects: Objects, uploads: Uploads, store: Store) -> Sequence[RawMethod]:
    """The rows of the storage API; ``store`` knows whose buckets are whose.

    A request whose path began with a prefix in place of a token has it in ``root_path``: the links
    in answers keep it.
    """
    access = BucketAccess(objects=objects, uploads=uploads, store=store)
    return tuple(method(verb, path, access, handle) for verb, path, handle in TABLE)
