/** Signs out, and says so when it failed. */

import { signOut } from "../net/signin";
import { announceCall } from "./attempt";

/** End the sign-in of this browser, or of all browsers with the same token. */
export const leave = (everywhere: boolean): Promise<boolean> => announceCall(() => signOut(everywhere), "", "You are still signed in. ");
