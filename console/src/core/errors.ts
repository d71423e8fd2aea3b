/**
 * Finds the words of an error among the lines of a log: the sentence of the error, and the lines of
 * the user's code that belong to it. The first line of a traceback says nothing by itself. Pure.
 */

export interface ErrorReport {
  /** The index of the line where the report begins. */
  readonly begin: number;
  /** The index of the sentence of the error. */
  readonly error: number;
  /** The indexes of the lines that tell where it happened, and details; empty if none do. */
  readonly code: readonly number[];
}

/** Reads the report that begins at a line; null if none does. */
type Reader = (lines: readonly string[], begin: number) => ErrorReport | null;

const READERS: readonly Reader[] = [readPython, readFatalPython, readAbort, readGo, readNode];

/** Return the report that begins at a line; without a form that is known, the line alone. */
export function describeError(lines: readonly string[], at: number): ErrorReport {
  return readAt(lines, at) ?? { begin: at, error: at, code: [] };
}

/** Return the first report among lines; null if there is none. */
export function findError(lines: readonly string[]): ErrorReport | null {
  for (const at of lines.keys()) {
    const report = readAt(lines, at);
    if (report) return report;
  }
  return null;
}

function readAt(lines: readonly string[], at: number): ErrorReport | null {
  for (const read of READERS) {
    const report = read(lines, at);
    if (report) return report;
  }
  return null;
}

const LIBRARY = /[\\/](?:site-packages|dist-packages|node_modules|lib(?:64)?[\\/]python[\d.]+)[\\/]|^<(?!stdin|string)|^node:|[\\/]go[\\/](?:src|pkg)[\\/]/;

const RANK = /^\[(?:rank)?\d+\]: ?/;
const TRACEBACK = /^(?:Original |Exception Group )?Traceback \(most recent call last\):/;
const FRAME = /^\s+File "(.+?)", line \d+/;
const EXCEPTION = /^[A-Za-z_][\w.]*(?::|$)/;
/** What stands between the tracebacks of one error: a later one is what ended the program. */
const CHAIN = /^(?:During handling of the above exception|The above exception was the direct cause|\+-\+-+ 1 -)|^Original Traceback/;

interface Own {
  readonly index: number;
  readonly text: string;
}

/** Return the lines from a line on that have its rank's prefix, without it and the rulers of groups of exceptions. */
function ownLines(lines: readonly string[], begin: number): Own[] {
  const prefix = RANK.exec(lines[begin] ?? "")?.[0] ?? "";
  const own: Own[] = [];
  for (let index = begin; index < lines.length; index += 1) {
    const line = lines[index] ?? "";
    const isOwn = prefix ? line.startsWith(prefix.trimEnd()) : !RANK.test(line);
    if (isOwn) own.push({ index, text: line.slice(prefix.length).replace(/^\s*\| ?|^\s*\+ (?=Exc)|^\s+(?=\+-\+-)/, "") });
  }
  return own;
}

function readPython(lines: readonly string[], begin: number): ErrorReport | null {
  const own = ownLines(lines, begin);
  if (!TRACEBACK.test(own[0]?.text ?? "")) return null;
  let report: ErrorReport | null = null;
  for (let at = 0; at >= 0 && at < own.length; ) {
    const read = readTraceback(own, at);
    if (!read) break;
    report = { begin, error: own[read.error]?.index ?? begin, code: read.code };
    at = nextInChain(own, read.error + 1);
  }
  return report && addDetails(lines, own, report);
}

/** Read a traceback: the position of its exception, and the lines of its last frame of the user's code. */
function readTraceback(own: readonly Own[], begin: number): { error: number; code: number[] } | null {
  let [user, last]: [number[], number[]] = [[], []];
  let frame: number[] = [];
  for (let at = begin + 1; at < own.length; at += 1) {
    const { text, index } = own[at] as Own;
    const path = FRAME.exec(text)?.[1];
    if (path !== undefined) {
      frame = last = [index];
      if (!LIBRARY.test(path)) user = frame;
    } else if (/^\s+\S/.test(text)) {
      if (frame.length === 1 && !/^[\s~^]+$/.test(text)) frame.push(index);
    } else if (EXCEPTION.test(text)) return { error: at, code: user.length > 0 ? user : last };
  }
  return null;
}

/** Return the position of the next traceback of the same error; -1 without one. */
function nextInChain(own: readonly Own[], from: number): number {
  let isLinked = false;
  for (let at = from; at < own.length; at += 1) {
    const text = own[at]?.text ?? "";
    isLinked ||= CHAIN.test(text);
    if (TRACEBACK.test(text)) return isLinked ? at : -1;
  }
  return -1;
}

/** Lines behind the exception, and before the traceback, that say more than the exception. */
const DETAILS_MAX = 40;

function addDetails(lines: readonly string[], own: readonly Own[], report: ErrorReport): ErrorReport {
  const error = lines[report.error] ?? "";
  const behind = own.filter(({ index }) => index > report.error && index <= report.error + DETAILS_MAX);
  const details: number[] = [];
  if (/ChildFailedError/.test(error)) details.push(...behind.filter(({ text }) => / FAILED$|^\s*exitcode\s*:/.test(text)).map(({ index }) => index));
  if (/NCCL/.test(error)) details.push(...behind.filter((_, at) => /^Last error:\s*$/.test(behind[at - 1]?.text ?? "")).map(({ index }) => index));
  if (/device-side assert/.test(error)) details.push(lines.findIndex((line, index) => index < report.begin && /Assertion `.*` failed/.test(line)));
  const code = [...report.code, ...details.filter((index) => index >= 0)];
  return { ...report, code: code.sort((left, right) => left - right) };
}

/** A crash of the interpreter, whose frames stand with the newest first. */
function readFatalPython(lines: readonly string[], begin: number): ErrorReport | null {
  if (!/^Fatal Python error: /.test(lines[begin] ?? "")) return null;
  return { begin, error: begin, code: firstOfUser(lines, begin + 1, /^\s+File "(.+?)", line \d+/) };
}

function readAbort(lines: readonly string[], begin: number): ErrorReport | null {
  if (!/^terminate called (?:after throwing an instance|without an active)/.test(lines[begin] ?? "")) return null;
  const what = [1, 2, 3].map((step) => begin + step).find((index) => /^\s*what\(\):/.test(lines[index] ?? ""));
  return what === undefined ? { begin, error: begin, code: [] } : { begin, error: what, code: [begin] };
}

function readGo(lines: readonly string[], begin: number): ErrorReport | null {
  const isBegin = /^(?:panic|fatal error): /.test(lines[begin] ?? "");
  const stack = isBegin ? lines.findIndex((line, index) => index > begin && index < begin + 10 && /^goroutine \d+ \[/.test(line)) : -1;
  if (stack < 0) return null;
  const place = firstOfUser(lines, stack + 1, /^\s+(\/.+?\.go):\d+/);
  return { begin, error: begin, code: place.flatMap((index) => [index - 1, index]) };
}

const NODE_FRAME = /^\s+at (?:.*\()?(?:file:\/\/)?((?:node:|[/A-Za-z]).+?):\d+:\d+\)?$/;

function readNode(lines: readonly string[], begin: number): ErrorReport | null {
  const isPlace = /^(?:file:\/\/|node:|\/).+:\d+$/.test(lines[begin] ?? "");
  const isError = /^(?:Uncaught )?[A-Za-z_]\w*(?: \[\w+\])?: /.test(lines[begin] ?? "");
  if (!isPlace && !isError) return null;
  const frame = lines.findIndex((line, index) => index > begin && index < begin + 12 && NODE_FRAME.test(line));
  const error = lines.findLastIndex((line, index) => index >= begin && index < frame && /^\w.*?(?:: |$)/.test(line));
  if (frame < 0 || error < 0 || (isError && error !== begin)) return null;
  return { begin, error, code: firstOfUser(lines, frame, NODE_FRAME) };
}

/** Return the first line with a frame of the user's code, else the first with a frame; empty without one. */
function firstOfUser(lines: readonly string[], from: number, frame: RegExp): number[] {
  const frames = [...lines.keys()].filter((index) => index >= from && index < from + 100 && frame.test(lines[index] ?? ""));
  const user = frames.find((index) => !LIBRARY.test(frame.exec(lines[index] ?? "")?.[1] ?? ""));
  return [user ?? frames[0]].filter((index) => index !== undefined);
}
