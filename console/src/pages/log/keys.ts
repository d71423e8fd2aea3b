/** The keys of a log. */

import { useKeys } from "../../ui/keys";
import { nextTimes, setSwitch, setTimes, type LogChoices } from "./choices";
import type { LogController } from "./controller";
import { FIND_ID } from "./find";

function focusFind(): void {
  const field = document.getElementById(FIND_ID);
  if (field instanceof HTMLInputElement) field.select();
}

/** Bind the keys while the log is shown. */
export function useLogKeys(controller: LogController, choices: LogChoices, onJump: () => void): void {
  useKeys("Log", [
    { keys: "f", label: "Follow the end, or stop following", run: () => void controller.toggleFollow() },
    { keys: "/", label: "Find", run: focusFind },
    { keys: "Ctrl+F", label: "Find", run: focusFind },
    { keys: "n", label: "Next hit", run: () => void controller.stepHit(1) },
    { keys: "N", label: "Previous hit", run: () => void controller.stepHit(-1) },
    { keys: "e", label: "Next error", run: () => void controller.stepError(1) },
    { keys: "E", label: "Previous error", run: () => void controller.stepError(-1) },
    { keys: "w", label: "Wrap long lines", run: () => setSwitch("wrap", !choices.wrap) },
    { keys: "t", label: "Times: local, UTC, since start, none", run: () => setTimes(nextTimes(choices.times)) },
    { keys: "G", label: "End of the log", run: () => void controller.toEnd() },
    { keys: "Home", label: "Beginning of the log", run: () => void controller.toStart() },
    { keys: "End", label: "End of the log", run: () => void controller.toEnd() },
    { keys: ":", label: "Go to a line or a time", run: onJump },
  ]);
}
