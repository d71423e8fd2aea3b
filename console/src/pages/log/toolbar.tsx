/** The orders of a log: which lines, what to find, how lines look, what to keep. */

import { formatCount } from "../../core/format";
import type { LogAttempt } from "../../net/types";
import { Menu } from "../../ui/menu";
import { Select } from "../../ui/select";
import { nextTimes, setFilter, setSwitch, setTimes, type LogChoices } from "./choices";
import type { LogController } from "./controller";
import { FindBox } from "./find";
import { SEVERITIES, type TimeStyle } from "./rows";

interface ToolbarProps {
  controller: LogController;
  choices: LogChoices;
  /** Whether the job may still write lines. */
  isOpen: boolean;
  onJump: () => void;
  onCopy: () => void;
}

export function Toolbar({ controller, choices, isOpen, onJump, onCopy }: ToolbarProps) {
  const { feed, viewport } = controller;
  const isFollowing = viewport.atEnd.value;
  return (
    <div class="log-toolbar" role="toolbar" aria-label="Log">
      <Filters choices={choices} tasks={feed.tasks.value} attempts={feed.attempts.value} />
      <FindBox controller={controller} choices={choices} />
      <span class="log-group">
        <Switch name="wrap" isOn={choices.wrap} title="Wrap long lines (w)">wrap</Switch>
        <button type="button" title={`Times: ${TIME_TITLES[choices.times]}; change with t`} onClick={() => setTimes(nextTimes(choices.times))}>{TIME_TITLES[choices.times]}</button>
        <Switch name="raw" isOn={choices.raw} title="Show escape sequences and carriage returns as symbols">raw</Switch>
      </span>
      <span class="log-group">
        <button type="button" title="Go to a line or a time (:)" onClick={onJump}>Go to…</button>
        <button type="button" title="The first line (Home)" onClick={() => void controller.toStart()}>⤒</button>
        <button type="button" title="The last line (G)" onClick={() => void controller.toEnd()}>⤓</button>
        <button type="button" title="Next error (e)" onClick={() => void controller.stepError(1)}>Error ↓</button>
        <button type="button" title="Copy the lines on the screen" onClick={onCopy}>Copy</button>
        <DownloadMenu controller={controller} />
        {isOpen && (
          <button type="button" class={isFollowing ? "log-follow on" : "log-follow"} aria-pressed={isFollowing}
            title="Stay at the end while the log grows (f)" onClick={() => void controller.toggleFollow()}>
            <span aria-hidden="true">{isFollowing ? "●" : "○"}</span> {isFollowing ? "following" : "follow"}
          </button>
        )}
      </span>
    </div>
  );
}

const TIME_TITLES: Readonly<Record<TimeStyle, string>> = {
  local: "local time", utc: "UTC", since: "since start", none: "no times",
};

export function Switch(props: { name: "hits" | "wrap" | "raw" | "regex" | "case"; isOn: boolean; title: string; children: string }) {
  return (
    <button type="button" class={props.isOn ? "on" : ""} aria-pressed={props.isOn} title={props.title} onClick={() => setSwitch(props.name, !props.isOn)}>
      {props.children}
    </button>
  );
}

function Filters({ choices, tasks, attempts }: { choices: LogChoices; tasks: readonly string[]; attempts: readonly LogAttempt[] }) {
  const { task, severity, attempt, trial } = choices.filter;
  const names = new Set(["service", ...tasks, ...(task ? [task] : [])]);
  const numbers = new Set([...attempts.map((row) => String(row.attempt)), ...(attempt ? [attempt] : [])]);
  return (
    <span class="log-group">
      {trial && <button type="button" title="Show the lines of all trials" onClick={() => setFilter("trial", "")}>trial {trial} ✕</button>}
      <Select label="Task" value={task} options={[["", "all tasks"], ...[...names].map((name) => [name, name] as const)]} onChoose={(value) => setFilter("task", value)} />
      <Select label="Least severity" value={severity} options={[["", "any severity"], ...SEVERITIES.slice(1).map((name) => [name, `${name} and above`] as const)]}
        onChoose={(value) => setFilter("severity", value)} />
      {(numbers.size > 1 || attempt !== "") && (
        <Select label="Attempt" value={attempt} options={[["", "all attempts"], ...[...numbers].map((number) => [number, `attempt ${number}`] as const)]}
          onChoose={(value) => setFilter("attempt", value)} />
      )}
    </span>
  );
}

function DownloadMenu({ controller }: { controller: LogController }) {
  const { port } = controller;
  const total = controller.feed.total.value;
  return (
    <Menu label="Download" title="Download the lines that match the filters">
      <p class="about">{total === null ? "All lines" : `${formatCount(total)} lines`} that match the filters</p>
      <button type="button" data-close onClick={() => void port.save("text", false)}>Text</button>
      <button type="button" data-close onClick={() => void port.save("text", true)}>Text with times</button>
      <button type="button" data-close onClick={() => void port.save("jsonl", true)}>JSON lines</button>
    </Menu>
  );
}
