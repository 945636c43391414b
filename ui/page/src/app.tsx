// The page: its head, and the view that the address names.
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ClusterView } from "./cluster";
import { link, useRoute, type Route } from "./route";

const titles: Record<string, string> = { cluster: "Cluster" };

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "cluster": return <ClusterView route={route} />;
  }
  return <><h1 tabIndex={-1}>Not found</h1><p>There is no view of this name. <a href={link("cluster")}>Go to the cluster.</a></p></>;
}

function App() {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const place = [route.view, ...route.names].join("/");
  const first = useRef(place);
  useEffect(() => {
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
      </header>
      <main ref={main} id="main"><View key={place} route={route} /></main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
