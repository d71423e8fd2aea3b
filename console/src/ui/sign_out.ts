/** Signs out, and says so when it failed. */

import { ApiError } from "../net/api";
import { signOut } from "../net/signin";
import { announce } from "./notice";

/** End the sign-in of this browser, or of all browsers with the same token. */
export async function leave(everywhere: boolean): Promise<void> {
  try {
    await signOut(everywhere);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    announce("error", `You are still signed in: ${error.message}.`);
  }
}
