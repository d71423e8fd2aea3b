/** What a person should look at, as the server says: read once a minute for the bar and the page. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { ApiError, callApi } from "../net/api";
import { session } from "../net/session";
import type { AlertAnswer, AlertList } from "../net/types";
import { useRecovery } from "./resource";

const REFRESH_MS = 60000;
/** The alerts are read after what the page shows. */
const FIRST_MS = 300;

/** Null before the first answer. */
export const alerts = signal<readonly AlertAnswer[] | null>(null);
export const alertsError = signal<ApiError | null>(null);

/** Read the alerts now. */
export async function readAlerts(): Promise<void> {
  try {
    alerts.value = (await callApi<AlertList>("GET", "/alerts")).alerts;
    alertsError.value = null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!error.isAway) alertsError.value = error;
  }
}

/** Read the alerts as long as the component is mounted, the page is visible, and a user is signed in. */
export function useAlertReader(): void {
  useEffect(() => {
    if (!session.value) return;
    const first = setTimeout(() => void readAlerts(), FIRST_MS);
    const timer = setInterval(() => document.hidden || void readAlerts(), REFRESH_MS);
    return () => (clearTimeout(first), clearInterval(timer));
  }, [session.value]);
  useRecovery(() => void readAlerts());
}
