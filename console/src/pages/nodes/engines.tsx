/** The health of the server's engines: a sentence for each that does not work. */

import type { EngineHealth } from "../../net/types";
import { Notice, sentence } from "../../ui/notice";
import { Time } from "../../ui/time";

export function Engines({ engines }: { engines: readonly EngineHealth[] }) {
  const working = engines.filter((engine) => !engine.health);
  return (
    <>
      {engines.filter((engine) => engine.health).map((engine) => (
        <Notice key={engine.name} tone="error">
          <b>Engine {engine.name}</b> does not work ({engine.health}{engine.since && <> since <Time value={engine.since} /></>}).{" "}
          {sentence(engine.message)} Jobs that run there go on; new ones wait.
        </Notice>
      ))}
      {working.length > 0 && (
        <p class="s-ready"><span aria-hidden="true">✓</span> {working.length === 1 ? "engine" : "engines"} {working.map((engine) => engine.name).join(", ")} {working.length === 1 ? "works" : "work"}</p>
      )}
    </>
  );
}
