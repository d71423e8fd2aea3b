/** The editor of a job's text: CodeMirror with YAML and the server's problems at their lines. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

import { editOf, offsetOf, type Edit } from "../../core/text_ranges";
import type { TextViolation } from "../../net/types";

/** More marks make typing slow. */
const MARKS_MAX = 200;

/** What a page can do with the editor. */
export interface EditorHandle {
  /** Replace the whole text; the user can undo it. */
  setText: (text: string) => void;
  /** Move the cursor to a line, which counts from 1, and take the focus. */
  jump: (line: number, column: number) => void;
  apply: (edit: Edit) => void;
  focus: () => void;
}

interface EditorProps {
  text: string;
  onText: (text: string) => void;
  /** The problems of `checkedText`; they are not shown over another text. */
  problems: readonly TextViolation[];
  checkedText: string;
  /** The line to show, which counts from 1: a new object shows it again; null for the first. */
  shown: { line: number } | null;
  onReady: (handle: EditorHandle) => void;
}

/** Colours are the variables of both themes, so a change of the theme needs no new editor. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--wait)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--text-2)", fontStyle: "italic" },
  { tag: tags.punctuation, color: "var(--text-2)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--ground)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--ground-2)", color: "var(--text-2)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--ground-3) 55%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--ground)", color: "var(--text)", border: "1px solid var(--line-strong)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", maxWidth: "60ch" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--accent-text)", padding: "2px 8px" },
  ".cm-panels": { backgroundColor: "var(--ground-2)", color: "var(--text)" },
  ".cm-searchMatch": { backgroundColor: "var(--mark)" },
});

const nonce = (): string => document.querySelector<HTMLMetaElement>("meta[name=trainshed-nonce]")?.content ?? "";

function stateOf(text: string, onText: (text: string) => void): EditorState {
  return EditorState.create({
    doc: text,
    extensions: [
      EditorView.cspNonce.of(nonce()),
      lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
      highlightSelectionMatches(), lintGutter(), yaml(), indentUnit.of("  "),
      syntaxHighlighting(COLOURS), THEME, keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
      EditorView.contentAttributes.of({ "aria-label": "Text of the job", spellcheck: "false", tabindex: "0" }),
      EditorView.updateListener.of((update) => update.docChanged && onText(update.state.doc.toString())),
    ],
  });
}

/** Put the cursor at a place and bring it into view, without the focus. */
function show(view: EditorView, line: number, column: number): void {
  const anchor = offsetOf(view.state.doc.toString(), { line, column });
  view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
}

function handleOf(view: EditorView): EditorHandle {
  return {
    setText: (text) => {
      if (view.state.doc.toString() === text) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
    },
    jump: (line, column) => {
      show(view, line, column);
      view.focus();
    },
    apply: (edit) => {
      view.dispatch({ changes: { from: edit.from, to: edit.to, insert: edit.text }, selection: { anchor: edit.from + edit.text.length } });
      view.focus();
    },
    focus: () => view.focus(),
  };
}

/** Return a problem as a mark of the editor; one without a line marks the first line. */
function diagnosticOf(text: string, problem: TextViolation, handle: EditorHandle): Diagnostic {
  const from = offsetOf(text, { line: problem.line ?? 1, column: problem.column ?? 1 });
  const to = offsetOf(text, { line: problem.endLine ?? problem.line ?? 1, column: problem.endColumn ?? problem.column ?? 1 });
  const edit = problem.edit;
  return {
    from,
    to: Math.max(from, to),
    severity: "error",
    message: problem.accepted ? `${problem.message}\naccepted: ${problem.accepted}` : problem.message,
    // the places are of `text`: a mark over a newer text repairs nothing
    actions: edit ? [{ name: edit.title, apply: (view) => view.state.doc.toString() === text && handle.apply(editOf(text, edit)) }] : [],
  };
}

export default function Editor({ text, onText, problems, checkedText, shown, onReady }: EditorProps) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  useEffect(() => {
    if (!parent.current) return;
    const created = new EditorView({ parent: parent.current, state: stateOf(text, onText) });
    view.current = created;
    onReady(handleOf(created));
    return () => created.destroy();
  }, []);
  useEffect(() => {
    const current = view.current;
    if (!current || current.state.doc.toString() !== checkedText) return;
    const handle = handleOf(current);
    const marks = problems.filter((problem) => problem.line).slice(0, MARKS_MAX).map((problem) => diagnosticOf(checkedText, problem, handle));
    current.dispatch(setDiagnostics(current.state, marks));
  }, [problems, checkedText]);
  useEffect(() => {
    if (view.current && shown) show(view.current, shown.line, 1);
  }, [shown]);
  return <div class="editor" ref={parent} />;
}
