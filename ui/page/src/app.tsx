// The page: its head, and the view that the address names.
import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { ClusterView } from "./cluster";
import { DecisionsView } from "./decisions";
import { NodeView } from "./node";
import { PendingView } from "./pending";
import { PodView } from "./pod";
import { link, useRoute, type Route } from "./route";
import { WhatIfView } from "./whatif";

const titles: Record<string, string> = { cluster: "Cluster", pending: "Pending pods", decisions: "Decisions", "what-if": "What if" };

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "cluster": return <ClusterView route={route} />;
    case "pending": return <PendingView route={route} />;
    case "decisions": return <DecisionsView route={route} />;
    case "what-if": return <WhatIfView route={route} />;
    case "nodes": if (route.names.length === 1) return <NodeView route={route} />; break;
    case "pods": if (route.names.length === 2) return <PodView route={route} />; break;
  }
  return <><h1 tabIndex={-1}>Not found</h1><p>There is no view of this name. <a href={link("cluster")}>Go to the cluster.</a></p></>;
}

/** Finder leads to a pod by its name: NAMESPACE/NAME. */
function Finder() {
  const submit = (e: Event) => {
    e.preventDefault();
    const text = String(new FormData(e.currentTarget as HTMLFormElement).get("pod") ?? "").trim().replace(/^pods?\//, "");
    const [first = "", second] = text.split("/");
    if (first) location.hash = link("pods", second === undefined ? ["default", first] : [first, second]);
  };
  return (
    <form role="search" aria-label="A pod" class="finder" onSubmit={submit}>
      <label><span class="hidden">Pod, as NAMESPACE/NAME</span><input name="pod" placeholder="namespace/pod" autocomplete="off" spellcheck={false} autocapitalize="off" /></label>
      <button>Find pod</button>
    </form>
  );
}

function App() {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const place = [route.view, ...route.names].join("/");
  const first = useRef(place);
  useLayoutEffect(() => {
    document.title = `${[titles[route.view] ?? route.view, ...route.names].join(" ")} – slipway`;
    // Who uses a keyboard or a screen reader starts at the new view's heading.
    if (first.current !== place) main.current?.querySelector("h1")?.focus();
    first.current = "";
  }, [place]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.querySelector("h1")?.focus(); }}>Skip to the content</a>
      <header>
        <a class="name" href={link("cluster")}>slipway</a>
        <nav aria-label="Views">
          {Object.entries(titles).map(([view, title]) => <a key={view} href={link(view)} aria-current={route.view === view ? "page" : undefined}>{title}</a>)}
        </nav>
        <Finder />
      </header>
      <main ref={main} id="main"><View key={place} route={route} /></main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
