// The address of a view is the part of the URL behind the number sign, so that a link to it can be shared. All but useRoute is pure.
import { useEffect, useState } from "preact/hooks";

export type Route = { view: string; names: string[]; query: URLSearchParams };

/** parse returns the view that a hash names; an empty one names the cluster. */
export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...names] = path.split("/").map(decode);
  return { view: view || "cluster", names, query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** link returns the hash of a view. Empty values of the query are left out. */
export function link(view: string, names: string[] = [], query: Record<string, string> = {}): string {
  const kept = new URLSearchParams(Object.entries(query).filter(([, v]) => v));
  return `#/${[view, ...names].map(encodeURIComponent).join("/")}${kept.size ? `?${kept}` : ""}`;
}

/** useRoute returns the view that the browser's address names. */
export function useRoute(): Route {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}

/** replace changes the query of the address without a step in the browser's history. */
export function replace(hash: string) {
  history.replaceState(null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
