/** The console's start: signs in, then shows the page of the address. */

import { signal } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { useEffect } from "preact/hooks";

import { startClock } from "./core/clock";
import type { PageName, Route } from "./core/route";
import { safeNext, titleOf } from "./core/route";
import { navigate, route, startRouter } from "./core/router";
import { ApiError } from "./net/api";
import { pauseAfter } from "./net/connection";
import { session } from "./net/session";
import { codeProblem, followOtherTabs, loadSession, signIn } from "./net/signin";
import QueuePage from "./pages/queue";
import SignInPage from "./pages/signin";
import { SignInOverPage } from "./pages/signin/over_page";
import "./styles/index.css";
import { focusContent } from "./ui/focus";
import { Frame } from "./ui/frame";
import { startKeys } from "./ui/keys";
import { lazy } from "./ui/lazy";
import { announce, Notice, sentence } from "./ui/notice";

type Page = ComponentType<{ route: Route }>;

const PAGES: Readonly<Record<PageName, Page>> = {
  queue: QueuePage,
  signin: SignInPage,
  job: lazy(() => import("./pages/job")),
  compare: lazy(() => import("./pages/compare")),
  curves: lazy(() => import("./pages/curves")),
  usage: lazy(() => import("./pages/usage")),
  alerts: lazy(() => import("./pages/alerts")),
  study: lazy(() => import("./pages/study")),
  nodes: lazy(() => import("./pages/nodes")),
  submit: lazy(() => import("./pages/submit")),
  settings: lazy(() => import("./pages/settings")),
  missing: MissingPage,
};

function MissingPage() {
  return (
    <main id="main" tabIndex={-1}>
      <h1>There is no such page</h1>
      <p><a href="/console/">The queue</a> lists all jobs.</p>
    </main>
  );
}

function Console() {
  const current = route.value;
  const Page = PAGES[current.page];
  const key = current.page + JSON.stringify(current.parameters);
  useEffect(() => {
    document.title = titleOf(current);
    focusContent();
  }, [key]);
  if (current.page === "signin") return <Page route={current} />;
  if (session.value === null) return null;
  return (
    <Frame>
      <Page key={key} route={current} />
      <SignInOverPage />
    </Frame>
  );
}

/** Why the page cannot begin yet. */
const startProblem = signal("");
const isFinal = signal(false);

function Starting() {
  if (isFinal.value) return <main class="card"><Notice tone="error">{startProblem.value}</Notice></main>;
  return <p class="loading" role="status">{startProblem.value ? `${startProblem.value} Trying again…` : "Connecting…"}</p>;
}

/** Sign in with the code of `#code=…`, which leaves the address at once. */
async function signInWithCode(code: string): Promise<void> {
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await signIn({ code });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    codeProblem.value = sentence(error.message);
    if (session.value) announce("error", codeProblem.value); // the form, which shows it, is on no page of a user
  }
}

/**
 * Return whether this browser is signed in, once the server answers: a page that was opened too early
 * needs no reload. After a refusal, such as of browsers over plain HTTP, only its sentence is shown.
 */
async function readSession(): Promise<boolean> {
  for (let failures = 0; ; failures += 1) {
    try {
      await loadSession();
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) return false;
      startProblem.value = sentence(error.message);
      isFinal.value = error.status >= 400 && error.status < 429;
      if (isFinal.value) return new Promise(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, pauseAfter(failures)));
    }
  }
}

/** Return the code of the address; undefined without one. */
function codeOfAddress(): string | undefined {
  return /^#code=([\w.~-]+)$/.exec(location.hash)?.[1];
}

/** A link of `trainshed console` that is opened in a tab of the console loads no page. */
function followCodes(): void {
  addEventListener("hashchange", () => {
    if (codeOfAddress()) void start();
  });
}

async function start(): Promise<void> {
  const code = codeOfAddress();
  if (code) await signInWithCode(code);
  const isSignedIn = session.value !== null || (await readSession());
  const { page, query } = route.value;
  if (isSignedIn && page === "signin") navigate(safeNext(query.get("next")), { replace: true });
  if (!isSignedIn && page !== "signin") {
    const next = location.pathname + location.search;
    navigate(`/console/signin?next=${encodeURIComponent(next)}`, { replace: true });
  }
}

/** A refusal that no component shows still gets its sentence. */
function showRefusals(): void {
  addEventListener("unhandledrejection", (event) => {
    if (!(event.reason instanceof ApiError)) return;
    event.preventDefault();
    announce("error", sentence(event.reason.message));
  });
}

const body = document.getElementById("console") as HTMLElement;
startRouter();
startKeys();
startClock();
followOtherTabs();
showRefusals();
followCodes();
render(<Starting />, body);
void start().then(() => render(<Console />, body));
