/** What the lists and forms of tokens and keys share. */

import type { ComponentChildren } from "preact";

/** The role that most tokens have is the first. */
export const ROLES = ["submitter", "viewer", "admin"] as const;

export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return <label class="form-field"><span>{label}</span>{children}</label>;
}

/** A table whose last column has an order for its row. */
export function ListTable({ label, heads, children }: { label: string; heads: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="list">
        <thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}<th scope="col"><span class="hidden-text">Order</span></th></tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export const projectTitle = (project: string): string => (project === "*" ? "all" : project);
