/** What the forms of tokens and keys share. */

import type { ComponentChildren } from "preact";

/** The role that most tokens have is the first. */
export const ROLES = ["submitter", "viewer", "admin"] as const;

export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return <label class="form-field"><span>{label}</span>{children}</label>;
}
