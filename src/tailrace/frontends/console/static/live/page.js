// What the server does right now. Nothing is asked of it while this is not on the screen.

import { Classes } from "./classes.js";
import { Engine } from "./engine.js";
import { Happenings } from "./happenings.js";
import { Headline } from "./headline.js";
import { Levels } from "./levels.js";
import { Life } from "./life.js";
import { Requests } from "./requests.js";
import { Roofline } from "./roofline.js";
import { Throughput } from "./throughput.js";
import { Timeline } from "./timeline.js";
import { watch, watched } from "./watching.js";
import { useCell } from "../cell.js";
import { html, useEffect } from "../vendor/preact.js";

/** @param {{item: string}} props the id of the request that is open, or what it begins with; empty: none is */
export function LivePage({ item }) {
  const { frame, history } = useCell(watched);
  useEffect(watch, []);
  return html`<div class="live">
    <h1 class="only-read">Live</h1>
    <${Headline} frame=${frame} />
    ${frame && html`<${Panels} frame=${frame} history=${history} />`} ${frame && item && html`<${Life} key=${item} id=${fullId(frame.requests, item)} />`}
  </div>`;
}

// Answers name their request by the first part of its id, which is all that clients get.
function fullId(requests, id) {
  return requests.find((each) => each.id === id || each.id.startsWith(`${id}-`))?.id ?? id;
}

function Panels({ frame, history }) {
  return html`<div class="panels">
    <${Throughput} history=${history} />
    <${Classes} frame=${frame} history=${history} />
    <${Timeline} steps=${history.steps} requests=${frame.requests} />
    <${Levels} frame=${frame} />
    <div class="stack">
      <${Engine} frame=${frame} />
      <${Roofline} roofline=${frame.roofline} />
    </div>
    <${Requests} requests=${frame.requests} />
    <${Happenings} events=${frame.events} />
  </div>`;
}
