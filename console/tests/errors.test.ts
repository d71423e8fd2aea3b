import assert from "node:assert/strict";
import { test } from "node:test";

import { describeError, findError } from "../src/core/errors";

const PYTHON = `step 1
Traceback (most recent call last):
  File "/app/train.py", line 88, in <module>
    main()
  File "/app/train.py", line 12, in main
    model(batch)
    ^^^^^^^^^^^^
  File "/usr/lib/python3.11/site-packages/torch/nn.py", line 7, in __call__
    raise ValueError("bad shape")
ValueError: bad shape
bye`;

/** What is written, the sentence of the error, and the lines beside it. */
const CASES: Readonly<Record<string, [string, string, string[]]>> = {
  "Python": [PYTHON, "ValueError: bad shape", ['  File "/app/train.py", line 12, in main', "    model(batch)"]],
  "an exception without words": [PYTHON.replace("ValueError: bad shape", "KeyboardInterrupt"), "KeyboardInterrupt", ['  File "/app/train.py", line 12, in main', "    model(batch)"]],
  "frames of libraries alone": [
    'Traceback (most recent call last):\n  File "/usr/lib/python3.11/runpy.py", line 1, in run\n    code()\nImportError: no x',
    "ImportError: no x", ['  File "/usr/lib/python3.11/runpy.py", line 1, in run', "    code()"],
  ],
  "a chain": [
    'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n    d["x"]\nKeyError: \'x\'\n\nDuring handling of the above exception, another exception occurred:\n\n'
      + 'Traceback (most recent call last):\n  File "/app/b.py", line 2, in g\n    raise Wrong("no x") from None\napp.errors.Wrong: no x',
    "app.errors.Wrong: no x", ['  File "/app/b.py", line 2, in g', '    raise Wrong("no x") from None'],
  ],
  "a direct cause": [
    'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\nOSError: disk\nits second line\n\nThe above exception was the direct cause of the following exception:\n\n'
      + 'Traceback (most recent call last):\n  File "/app/b.py", line 2, in g\nRuntimeError: cannot save',
    "RuntimeError: cannot save", ['  File "/app/b.py", line 2, in g'],
  ],
  "another traceback behind it": [`${PYTHON}\n${PYTHON.replace("bad shape", "other").replace("ValueError: bad", "TypeError: bad")}`,
    "ValueError: bad shape", ['  File "/app/train.py", line 12, in main', "    model(batch)"]],
  "a worker of a data loader": [
    'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\nRuntimeError: Caught KeyError in DataLoader worker process 0.\n'
      + 'Original Traceback (most recent call last):\n  File "/app/data.py", line 9, in __getitem__\n    return rows[key]\nKeyError: 7',
    "KeyError: 7", ['  File "/app/data.py", line 9, in __getitem__', "    return rows[key]"],
  ],
  "a group of exceptions": [
    '  + Exception Group Traceback (most recent call last):\n  |   File "/app/a.py", line 1, in f\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n'
      + '    | Traceback (most recent call last):\n    |   File "/app/b.py", line 3, in g\n    | ValueError: first\n    +---------------- 2 ----------------\n    | TypeError: second',
    "    | ValueError: first", ['    |   File "/app/b.py", line 3, in g'],
  ],
  "a rank among others": [
    '[rank1]: Traceback (most recent call last):\n[rank0]: Traceback (most recent call last):\n[rank1]:   File "/app/t.py", line 5, in main\n[rank0]:   File "/app/t.py", line 6, in main\n'
      + "[rank0]: ValueError: of 0\nstep 7\n[rank1]: ValueError: of 1",
    "[rank1]: ValueError: of 1", ['[rank1]:   File "/app/t.py", line 5, in main'],
  ],
  "torchrun": [
    'Traceback (most recent call last):\n  File "/usr/lib/python3.11/site-packages/torch/distributed/run.py", line 1, in main\n'
      + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n-----\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 12)",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ['  File "/usr/lib/python3.11/site-packages/torch/distributed/run.py", line 1, in main', "train.py FAILED", "  exitcode  : 1 (pid: 12)"],
  ],
  "an assertion of a kernel": [
    "/pytorch/Indexing.cu:1290: operator(): block: [0,0,0], thread: [1,0,0] Assertion `index < size` failed.\n" + PYTHON.replace("ValueError: bad shape", "RuntimeError: CUDA error: device-side assert triggered"),
    "RuntimeError: CUDA error: device-side assert triggered",
    ["/pytorch/Indexing.cu:1290: operator(): block: [0,0,0], thread: [1,0,0] Assertion `index < size` failed.", '  File "/app/train.py", line 12, in main', "    model(batch)"],
  ],
  "memory of a GPU": [PYTHON.replace("ValueError: bad shape", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", ['  File "/app/train.py", line 12, in main', "    model(batch)"]],
  "NCCL": [
    PYTHON.replace("ValueError: bad shape", "torch.distributed.DistBackendError: NCCL error in: Utils.hpp:319, unhandled system error\nncclSystemError: System call failed.\nLast error:\nConnect to 10.0.0.2 failed : Connection refused"),
    "torch.distributed.DistBackendError: NCCL error in: Utils.hpp:319, unhandled system error",
    ['  File "/app/train.py", line 12, in main', "    model(batch)", "Connect to 10.0.0.2 failed : Connection refused"],
  ],
  "a crash of Python": [
    'Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n  File "/usr/lib/python3.11/site-packages/np.py", line 3 in dot\n  File "/app/t.py", line 9 in main',
    "Fatal Python error: Segmentation fault", ['  File "/app/t.py", line 9 in main'],
  ],
  "an abort of C++": ["terminate called after throwing an instance of 'std::runtime_error'\n  what():  no device\nAborted (core dumped)",
    "  what():  no device", ["terminate called after throwing an instance of 'std::runtime_error'"]],
  "an abort of C++ without an exception": ["terminate called without an active exception\nAborted", "terminate called without an active exception", []],
  "Go": [
    "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nruntime.panicIndex()\n\t/usr/local/go/src/runtime/panic.go:114 +0x1\nmain.load(0x1)\n\t/app/main.go:8 +0x1d\nexit status 2",
    "panic: runtime error: index out of range [5] with length 3", ["main.load(0x1)", "\t/app/main.go:8 +0x1d"],
  ],
  "Node": [
    '/app/index.js:10\n    throw new Error("boom");\n    ^\n\nError: boom\n    at Module.load (node:internal/modules/cjs:1:2)\n    at run (/app/index.js:10:9)\n\nNode.js v22.1.0',
    "Error: boom", ["    at run (/app/index.js:10:9)"],
  ],
  "Node without the place": ["TypeError: x is not a function\n    at file:///app/a.mjs:3:1", "TypeError: x is not a function", ["    at file:///app/a.mjs:3:1"]],
};

for (const [name, [text, error, code]] of Object.entries(CASES)) {
  test(`the error is found: ${name}`, () => {
    const lines = text.split("\n");
    const report = findError(lines) ?? assert.fail("no error");
    assert.equal(lines[report.error], error);
    assert.deepEqual(report.code.map((index) => lines[index]), code);
    assert.deepEqual(describeError(lines, report.begin), report);
  });
}

test("a line of another form, and a traceback that is cut off, stand for themselves", () => {
  for (const lines of [["ERROR: cannot read x"], ["Traceback (most recent call last):"], ["Traceback (most recent call last):", '  File "/a.py", line 1', "    f()"], [""], []]) {
    assert.deepEqual(describeError(lines, 0), { begin: 0, error: 0, code: [] });
    assert.equal(findError(lines), null);
  }
});
