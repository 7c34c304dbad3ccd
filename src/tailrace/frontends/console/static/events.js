// Server-sent events out of the body of a fetch: EventSource can send neither a key nor a body.

/**
 * @param {ReadableStream<Uint8Array>} body
 * @yields {{event: string, data: string}}
 */
export async function* serverSentEvents(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of pieces(body)) {
    const messages = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = messages.pop();
    for (const message of messages) {
      const event = parsed(message);
      if (event.data) yield event;
    }
  }
}

// Streams cannot be iterated in every browser.
async function* pieces(body) {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel().catch(() => {}); // whoever stops listening does not want the rest
  }
}

function parsed(message) {
  const event = { event: "message", data: "" };
  for (const line of message.split("\n")) {
    const colon = line.indexOf(":");
    const field = line.slice(0, colon);
    if (field in event) event[field] = (field === "data" ? event.data : "") + line.slice(colon + 1).trimStart();
  }
  return event;
}
