/** Writes tables as CSV. Pure. */

/** Return a table as CSV (RFC 4180); a cell that a spreadsheet would take for a formula gets a quote. */
export function writeCsv(rows: readonly (readonly string[])[]): string {
  const cell = (text: string): string => {
    const isNumber = text !== "" && Number.isFinite(Number(text));
    const safe = !isNumber && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
