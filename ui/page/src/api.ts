// What the launcher's API answers: types from its description, and a hook that asks again.
import { useEffect, useState } from "preact/hooks";
import type { components } from "./openapi";

type Schemas = components["schemas"];
export type Nodes = Schemas["Nodes"];
export type NodeRow = Schemas["NodeRow"];
export type Node = Schemas["Node"];
export type Pods = Schemas["Pods"];
export type Pod = Schemas["Pod"];
export type Class = Schemas["Class"];
export type Reason = Schemas["Reason"];
export type NodePods = Schemas["NodePods"];
export type PodRow = Schemas["PodRow"];
export type Estimate = Schemas["Estimate"];
export type Fault = Schemas["Fault"];
export type Faults = Schemas["Faults"];
export type Consolidation = Schemas["Consolidation"];
export type Decision = Schemas["Decision"];
export type Decisions = Schemas["Decisions"];
export type Move = Schemas["Move"];
export type Stay = Schemas["Stay"];
export type Cost = Schemas["Cost"];
export type Moment = Schemas["Moment"];
export type Trouble = Schemas["Trouble"];

/** Answer is what is known of a path: absent means that the launcher does not serve it. */
export type Answer<T> = { value?: T; error?: string; status?: number; at?: Date; absent?: boolean };

/** interval is how long the page waits before it asks again, in milliseconds; after an error it waits longer. */
const interval = 2000;
/** rests is how many times as long as an answer took, the page waits at least: a large cluster is asked less often. */
const rests = 10;
const slowest = 30000;
/** timeout bounds one request, in milliseconds, and planning that of a plan: the command itself ends one before. */
const timeout = 40000, planning = 60000;

// A token that a viewer pastes lives in this variable alone: it ends with the page.
let token = "";

/** useToken sends the token with each request from now on. */
export function useToken(text: string) {
  token = text.trim();
}

/** urlOf returns where a path is answered: by the launcher, or by the command slipway ui itself. Pure. */
export function urlOf(path: string): string {
  return path.startsWith("local/") ? `../${path}` : `../api/v1/${path}`;
}

/** post sends a question that a path has no room for, and returns the answer. */
export async function post<T>(path: string, question: unknown): Promise<Answer<T>> {
  try {
    const r = await fetch(urlOf(path), {
      method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, body: JSON.stringify(question),
      cache: "no-store", credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(60000),
    });
    const body = await r.json().catch(() => ({}));
    if (r.ok) return { value: body as T, at: new Date() };
    return { error: (body as { message?: string }).message || `The answer is ${r.status}.`, status: r.status, absent: r.status === 404 };
  } catch {
    return { error: "The command slipway ui cannot be reached. Does it still run?" };
  }
}

/** fetchAnswer asks for a path below /api/v1/, or for one of the command's own, and returns undefined where the answer has the tag. */
export async function fetchAnswer<T>(path: string, tag: string, signal: AbortSignal): Promise<{ answer: Answer<T>; tag: string } | undefined> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (tag) headers["If-None-Match"] = tag;
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const r = await fetch(urlOf(path), { headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" });
  if (r.status === 304) return undefined;
  const body = await r.json().catch(() => ({}));
  if (r.ok) return { answer: { value: body as T, at: new Date() }, tag: r.headers.get("ETag") ?? "" };
  const error = (body as { message?: string }).message || `The launcher answered ${r.status}.`;
  return { answer: { error, status: r.status, absent: r.status === 404 }, tag: "" };
}

/** useAnswer asks for a path as long as the page is visible. An error keeps the last value; an empty path asks nothing. */
export function useAnswer<T>(path: string): Answer<T> {
  const [answer, set] = useState<Answer<T> & { path?: string }>({});
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    let tag = "", failures = 0, timer = 0, asking = false;
    const ask = async () => {
      window.clearTimeout(timer);
      if (asking || stop.signal.aborted || document.hidden) return;
      asking = true;
      const begin = performance.now();
      try {
        const got = await fetchAnswer<T>(path, tag, AbortSignal.any([stop.signal, AbortSignal.timeout(path.startsWith("local/") ? planning : timeout)]));
        failures = got?.answer.error ? failures + 1 : 0;
        if (got) tag = got.tag;
        set((old) => (got ? (got.answer.error && !got.answer.absent && old.path === path ? { ...old, ...got.answer } : { ...got.answer, path }) : { ...old, error: undefined, status: undefined, at: new Date() }));
      } catch (e) {
        if (stop.signal.aborted) return;
        failures++;
        const error = e instanceof Error && e.name === "TimeoutError" ? "There is no answer yet. It is asked for again." : "The launcher cannot be reached. Does the command slipway ui still run?";
        set((old) => ({ ...(old.path === path ? old : { path }), error, status: undefined }));
      } finally {
        asking = false;
      }
      const wait = Math.max(interval * 2 ** Math.min(failures, 5), rests * (performance.now() - begin));
      timer = window.setTimeout(ask, Math.min(wait, slowest));
    };
    const again = () => void ask();
    again();
    document.addEventListener("visibilitychange", again);
    document.addEventListener("slipway-ask", again);
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
      document.removeEventListener("slipway-ask", again);
    };
  }, [path]);
  return answer.path !== undefined && answer.path !== path ? {} : answer;
}
